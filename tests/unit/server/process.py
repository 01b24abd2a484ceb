"""`paictl serve` as a process of its own, on a port of the loopback that the system chooses."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.conftest import ROOT


@dataclass
class Served:
    """A server that answers; `lines` is what it says on stderr."""

    process: subprocess.Popen[str]
    port: int
    lines: list[str] = field(default_factory=list)

    def connection(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=120)

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
        connection = self.connection()
        try:
            connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def raw(self, data: bytes) -> socket.socket:
        """A connection on which some bytes were sent."""
        found = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        found.sendall(data)
        return found

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()


def start(state: Path, *words: str, port: int = 0, **environment: str) -> Served:
    """A server over the cluster in a folder, once it answers."""
    process = subprocess.Popen(
        [sys.executable, "-m", "paictl", "serve", "--listen", f"127.0.0.1:{port}", "--state", str(state), *words],
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    said: list[str] = []
    assert process.stderr is not None
    for line in process.stderr:
        said.append(line)
        if match := re.search(r"https?://127\.0\.0\.1:(\d+)", line):
            return Served(process, int(match[1]), said)
    raise AssertionError("".join(said))


@contextlib.contextmanager
def served(state: Path, *words: str, **environment: Any) -> Iterator[Served]:
    """The same, ended with the block; what it said is read then."""
    server = start(state, *words, **environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.terminate()
        _, rest = server.process.communicate(timeout=120)
        server.lines.append(rest or "")
