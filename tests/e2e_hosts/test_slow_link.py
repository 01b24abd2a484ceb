"""A whole first `deploy apply` over links that are slow and long, interrupted once what is large has arrived."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e_hosts.deploying import DevBox
from tools.hosts.lab import Lab

pytestmark = pytest.mark.skipif(
    os.environ.get("PAICTL_E2E_ALL") != "1", reason="takes 15 minutes: PAICTL_E2E_ALL=1 make e2e-hosts"
)
RATE, DELAY = 5_000_000, 0.1
"""Bits a second in either direction, and seconds each way: at 1 Mbit/s it would take more than an hour."""
LONGEST = 45 * 60


@pytest.fixture(scope="module")
def box(lab: Lab, artifacts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBox]:
    """A master and a worker without anything, each at the end of a link of its own."""
    lab.up(2)
    home = tmp_path_factory.mktemp("home")
    made = DevBox(lab, home)
    made.files([1], [2], artifacts, f"user: deploy\nssh_key_file_path: {lab.key}\n")
    with ExitStack() as links:
        for number in (1, 2):
            links.enter_context(lab.network.far(number, RATE, DELAY))
        yield made


class Watched:
    """An apply that is watched: its events, and how long nothing was told, with the phase that it was in."""

    def __init__(self, box: DevBox) -> None:
        self._box, self._before = box, len(box.events())
        self._process = box.start("apply", "--yes", "--kubernetes-only")
        self.began = self._told = time.monotonic()
        self.events: list[dict[str, Any]] = []
        self.silences: list[tuple[int, str]] = []

    def follow(self, phase: str) -> int | None:
        """To its end; None if it was ended without a word once a phase began."""
        try:
            while self._process.poll() is None and time.monotonic() - self.began < LONGEST:
                self._look()
                if any((one["event"], one["phase"]) == ("phase-began", phase) for one in self.events if "phase" in one):
                    return None
                time.sleep(0.2)
            return self._process.poll()
        finally:
            if self._process.poll() is None:
                self._process.kill()
            self._process.wait(60)
            self._look()

    def _look(self) -> None:
        fresh = self._box.events()[self._before + len(self.events) :]
        if fresh:
            now, phase = time.monotonic(), str(self.events[-1].get("phase", "")) if self.events else ""
            self.silences = sorted([*self.silences, (round(now - self._told), phase)], reverse=True)[:6]
            self.events, self._told = [*self.events, *fresh], now

    def pushes(self) -> list[str]:
        """What it told of its pushing."""
        told = (one for one in self.events if one["event"] == "phase-said" and one["phase"] == "artifacts")
        return [str(one["text"]) for one in told]


def test_what_was_pushed_is_not_pushed_again_and_the_rest_gets_done(box: DevBox) -> None:
    log = box.home / "started.log"
    first = Watched(box)
    assert first.follow("runtime") is None, log.read_text()
    took = time.monotonic() - first.began
    second = Watched(box)
    code = second.follow("")
    figures = {
        "first": round(took),
        "second": round(time.monotonic() - second.began),
        "pushes": len(first.pushes()),
        "silences": [first.silences, second.silences],
    }
    print(json.dumps(figures))  # noqa: T201 - for the page of figures
    assert code == 0, log.read_text()
    assert any("MiB pushed" in one for one in first.pushes()), "it says how far it is"
    assert second.pushes() == [], log.read_text()
    for machine in box.lab.machines():
        assert not (machine.root / "var/lib/paictl-pack.tar").exists()
