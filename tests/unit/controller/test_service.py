"""The process around the control loop."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import pytest
import uvicorn

from paictl.controller.service import ControllerService, ControllerSettings


def test_told_to_end_it_ends_in_good_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM by default kills whoever hands it on: the lease would stay held."""
    servers: list[uvicorn.Server] = []

    class Seen(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Seen)
    client: Any = object()
    made, ended, killed = ControllerService(client, ControllerSettings(port=0), print), list[str](), list[int]()
    monkeypatch.setattr(made.leadership, "start", lambda: None)
    monkeypatch.setattr(made.leadership, "stop", lambda: ended.append("end"))
    before = signal.signal(signal.SIGTERM, lambda number, _frame: killed.append(number))

    def tell() -> None:
        deadline = time.monotonic() + 20
        while not (servers and servers[0].started):
            if time.monotonic() > deadline or ended:
                return  # it never served: SIGTERM would end the tests
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    other = threading.Thread(target=tell)
    other.start()
    try:
        made.run()
    finally:
        signal.signal(signal.SIGTERM, before)
        other.join(10)
    assert ended == ["end"]
    assert killed == [], "nobody was handed the signal"
