"""Connections to ports of pods: a server that does not answer, and one that breaks off."""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import kubernetes.client
import pytest
import websocket

from paictl.remote.kube import podstreams
from paictl.remote.kube.client import KubeError, NoAnswerError


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def _client(port: int) -> Any:
    library = SimpleNamespace(configuration=kubernetes.client.Configuration())
    return SimpleNamespace(server=f"http://127.0.0.1:{port}", where="test", library=lambda: library)


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ({"status": "Success"}, 0),
        (
            {"status": "Failure", "details": {"causes": [{"reason": "Other"}, {"reason": "ExitCode", "message": "3"}]}},
            3,
        ),
        ({"status": "Failure", "message": "no such container", "details": {"causes": [{"reason": "X"}]}}, None),
        (None, None),
    ],
)
def test_the_exit_code_is_what_the_server_sends_last(status: Any, code: int | None) -> None:
    session = SimpleNamespace(read_channel=lambda _number, timeout: json.dumps(status) if status else "")  # noqa: ARG005
    if code is not None:
        assert podstreams._exit_code(session, _client(1)) == code
        return
    with pytest.raises(NoAnswerError, match="no such container" if status else "the connection was interrupted"):
        podstreams._exit_code(session, _client(1))


def test_a_server_that_does_not_answer_is_not_waited_for(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(podstreams, "CONNECTING", 0.2)

    over = threading.Event()

    def silent() -> None:
        with contextlib.suppress(OSError):
            connection, _ = listening.accept()
            over.wait(60)
            connection.close()

    threading.Thread(target=silent, daemon=True).start()
    with pytest.raises(NoAnswerError, match=r"port 80 of pod jobs/one: .*timed out"):
        podstreams.dial(_client(listening.getsockname()[1]), "jobs", "one", 80)
    over.set()


def test_the_handshake_shows_the_token_and_the_protocol(listening: socket.socket) -> None:
    client, heads = _client(listening.getsockname()[1]), list[str]()
    client.library().configuration.api_key = {"authorization": "Bearer secret", "BearerToken": "Bearer secret"}

    def refuse() -> None:
        connection, _ = listening.accept()
        with connection:
            heads.append(connection.recv(4096).decode())
            connection.sendall(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=refuse, daemon=True)
    thread.start()
    with pytest.raises(KubeError, match="HTTP status 403"):
        podstreams.dial(client, "jobs", "one", 80)
    thread.join(5)
    assert heads[0].startswith("GET /api/v1/namespaces/jobs/pods/one/portforward?ports=80 ")
    assert "authorization: Bearer secret\r\n" in heads[0]
    assert "sec-websocket-protocol: v5.channel.k8s.io,v4.channel.k8s.io\r\n" in heads[0]


def test_what_has_come_is_handed_on_without_haste_when_the_server_breaks_off(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls: list[float] = []

    class Poll:
        def __init__(self) -> None:
            self._poll = select.poll()
            self.register, self.unregister, self.modify = self._poll.register, self._poll.unregister, self._poll.modify

        def poll(self, patience: float | None) -> list[tuple[int, int]]:
            polls.append(time.monotonic())
            return self._poll.poll(patience)

    names = {name: getattr(select, name) for name in dir(select) if name.startswith("POLL")}
    monkeypatch.setattr(podstreams, "select", SimpleNamespace(**names, poll=Poll))
    remote: Any = websocket.WebSocket()
    remote.sock = socket.create_connection(listening.getsockname())
    remote.connected = True
    server, _ = listening.accept()
    ours, theirs = socket.socketpair()
    thread = threading.Thread(target=podstreams._carry, args=(remote, theirs), daemon=True)
    thread.start()
    data = b"\x00\x50\x00" + b"x" * (4 << 20)
    server.sendall(struct.pack("!BBQ", 0x82, 127, len(data)) + data)
    found = ours.recv(1)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.close()
    time.sleep(0.5)
    assert len(polls) < 100
    while piece := ours.recv(1 << 16):
        found += piece
    assert len(found) == 4 << 20
    thread.join(5)
    assert not thread.is_alive()
    ours.close()
