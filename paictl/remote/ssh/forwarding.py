"""A machine in the middle through which all others are reached; it forwards connections and runs nothing.

Its host key is verified like those of the others. One connection to it carries all: sshd refuses a burst of new ones.
"""

from __future__ import annotations

import select
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import paramiko

from paictl.i18n import text
from paictl.remote.inventory import Host

_BLOCK: Final = 1 << 16


class ForwardError(Exception):
    """The bastion does not open a connection to a place."""


class Bastion:
    """An open connection to a bastion, `connection` of fabric; safe to use from many threads."""

    def __init__(self, host: Host, connection: Any, patience: float) -> None:
        self.host = host
        self._connection, self._patience = connection, patience

    @property
    def alive(self) -> bool:
        """Whether the connection is there, so far as is known."""
        return bool(self._connection.transport is not None and self._connection.transport.active)

    def channel(self, address: str, port: int) -> Any:
        """A connection from the bastion to a place, to be used as a socket; raises `ForwardError`."""
        try:
            return self._connection.transport.open_channel(
                "direct-tcpip", (address, port), ("127.0.0.1", 0), timeout=self._patience
            )
        except paramiko.ChannelException as error:
            raise ForwardError(error.text) from None
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise ForwardError(str(error) or text("the connection was cut")) from None

    def forward(self, address: str, port: int) -> int:
        """A port of this machine's loopback that leads to a place beyond the bastion, until the process ends."""

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *_: object) -> None:
                """A connection was cut, which the client sees."""

        server = Server(("127.0.0.1", 0), _handler(lambda: self.channel(address, port)))
        threading.Thread(target=server.serve_forever, name=f"forward-{address}", daemon=True).start()
        return int(server.server_address[1])

    def close(self) -> None:
        """End the connection, and all that goes through it."""
        self._connection.close()


def _handler(connect: Callable[[], Any]) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(ForwardError):  # the client sees its connection end, as if nothing listened there
                channel = connect()
                try:
                    _carry(self.request, channel)
                finally:
                    channel.close()

    return Handler


def _carry(client: socket.socket, other: Any) -> None:
    """Copy bytes in both directions until either end has no more."""
    with suppress(OSError, EOFError):
        while True:
            for source in select.select([client, other], [], [])[0]:
                data = source.recv(_BLOCK)
                if not data:
                    return
                (other if source is client else client).sendall(data)
