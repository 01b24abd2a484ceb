"""Clients that send many requests at once, or take no answer: what they may cost others."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import uvicorn
from starlette.responses import Response

from paictl.cluster.manifests.certificates import renewed
from paictl.serving import connections
from tests.conftest import ROOT
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Caller, Harness, gang, served

ASK = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LONG = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
SIZE = 7 << 20
"""Bytes of an answer that takes a slow client much longer than it may stall."""


def opened(port: int) -> socket.socket:
    """A connection that takes little, and that neither side waits for."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    raw.connect(("127.0.0.1", port))
    raw.setblocking(False)
    return raw


def has_ended(raw: socket.socket, seconds: float) -> bool:
    """Whether the server has ended a connection of which nothing is read, within some seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        poll = select.poll()
        poll.register(raw, select.POLLRDHUP)
        if poll.poll(50):
            return True
    return False


def stall(raw: socket.socket) -> None:
    """Ask for more than any buffer between holds, never for many things at once, and take nothing."""
    for _ in range(20):
        with contextlib.suppress(OSError):
            raw.send(LONG)
        time.sleep(0.015)


def test_a_few_requests_at_once_are_all_answered(harness: Harness) -> None:
    with served(harness) as caller, socket.create_connection(("127.0.0.1", caller.port), 10) as raw:
        raw.sendall(ASK * connections.PIPELINED)
        answers = b""
        while answers.count(b"200 OK") < connections.PIPELINED:
            answers += raw.recv(1 << 16)
        raw.sendall(ASK)
        assert b"200 OK" in raw.recv(1000)


def test_thousands_at_once_end_the_connection_and_cost_nobody_else_anything(harness: Harness) -> None:
    with served(harness) as caller:
        strangers = [opened(caller.port) for _ in range(20)]
        for raw in strangers:
            with contextlib.suppress(OSError):
                raw.send(ASK * 1500)  # less than what would be too long for one head
        began = time.process_time()  # the server is a thread of this process
        assert caller.filter(harness.create(gang("quick", 1, 1)[0]), NODES)["NodeNames"]
        assert time.process_time() - began < 2
        assert all(has_ended(raw, 30) for raw in strangers)
        for raw in strangers:
            raw.close()


def test_who_takes_no_answer_is_given_up(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STALLED", 0.5)
    with served(harness, buffer=4096) as caller, opened(caller.port) as raw:
        stall(raw)
        assert has_ended(raw, 30)


def test_who_takes_no_answer_gives_way(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, number in (("CONNECTIONS", 12), ("ROOM", 4), ("PER_ADDRESS", 1000)):
        monkeypatch.setattr(connections, name, number)
    with served(harness, buffer=4096) as caller:
        strangers = []
        for _ in range(12):
            strangers.append(opened(caller.port))
            stall(strangers[-1])
        for number in range(3):
            with Caller(caller.port) as fresh:
                (made,) = gang(f"asked-{number}", 1, 1)
                assert fresh.filter(harness.create(made), NODES)["NodeNames"]
        for raw in strangers:
            raw.close()


@pytest.mark.parametrize("over", ["http", "https"])
def test_who_takes_a_long_answer_slowly_gets_all_of_it(
    over: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = (tmp_path / "server_crt", tmp_path / "server_key") if over == "https" else ()
    certificates = renewed(None, "localhost", time.time())
    for file in pair:
        file.write_text(getattr(certificates, file.name))
    monkeypatch.setattr(connections, "STALLED", 2.0)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(connections.serving(Response(b"x" * SIZE), "127.0.0.1", 0, *pair))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    raw.connect(sock.getsockname())
    with (
        ssl.create_default_context(cadata=certificates.ca_crt).wrap_socket(raw, server_hostname="localhost")
        if pair
        else raw as slow
    ):
        slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        taken, began = 0, time.monotonic()
        while taken < SIZE and (piece := slow.recv(1 << 14)):
            taken += len(piece)
            time.sleep(0.01)
        assert time.monotonic() - began > 2 * connections.STALLED
        assert taken >= SIZE
    server.should_exit = True
    thread.join(10)
    sock.close()


OPENING = """
import resource
from paictl.serving.connections import serving

most = min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, most))
serving(None, "127.0.0.1", 0)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] == most)
"""


def test_a_server_may_have_more_files_open_than_a_stranger_has_connections_in_a_handshake() -> None:
    done = subprocess.run([sys.executable, "-c", OPENING], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "True\n"
