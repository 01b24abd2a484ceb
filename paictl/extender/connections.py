"""Connections that say nothing: who is silent too long is given up, and gives way to those who ask.

uvicorn gives a connection that never sends a whole head all the time in the world, and counts it: so many of them
would leave no room for kube-scheduler.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from paictl.extender import bodies

CONNECTIONS: Final = 512
"""Kept at the same time; more are turned away."""
HEAD: Final = 64 << 10
"""Bytes of the head of a request."""
KEEP_ALIVE: Final = 100
"""Seconds that an idle connection stays open: Go's client drops its own after 90."""


CLIENT: Final = "paictl.client-certificate"
"""Extension of a request's scope: the caller has shown a certificate of the authority that is asked for."""

_TURNS = itertools.count()


class PatientProtocol(HttpToolsProtocol):
    """HTTP of uvicorn, with an end to waiting for the head of a request."""

    _head_due: asyncio.TimerHandle | None = None
    _head = 0
    _turn = 0
    """When it fell silent, among all others: a clock would have ties."""

    def connection_made(self, transport: Any) -> None:
        """A new connection; if there are too many, that one ends which has said nothing for longest."""
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) >= CONNECTIONS - 1:
            silent = [
                one
                for one in self.connections
                if isinstance(one, PatientProtocol) and one is not self and one.is_silent
            ]
            if silent:
                min(silent, key=lambda one: one._turn).give_up()

    @property
    def is_silent(self) -> bool:
        """Whether no request is being read or answered."""
        return getattr(self.cycle, "response_complete", True)  # there is no cycle before the first head

    def give_up(self) -> None:
        """End the connection."""
        if not self.transport.is_closing():
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is awaited any more."""
        self._heard_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; a head without end is none."""
        self._head = self._head + len(data) if self._head_due is not None else 0
        super().data_received(data)
        if self._head_due is not None and self._head > HEAD:
            self.give_up()

    def on_message_begin(self) -> None:
        """The first byte of a request: the rest of its head has to come soon."""
        super().on_message_begin()
        if self.transport.get_extra_info("peercert"):  # verified in the handshake, or there would be none
            self.scope["extensions"] = {CLIENT: {}}
        if self._head_due is None:
            self._await_head()

    def on_headers_complete(self) -> None:
        """The head is whole; its body has a limit of its own."""
        self._heard_head()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """Silent from now on."""
        self._turn = next(_TURNS)
        super().on_response_complete()

    def _await_head(self) -> None:
        self._turn = next(_TURNS)
        self._head_due = self.loop.call_later(bodies.PATIENCE, self.give_up)

    def _heard_head(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None


def serving(
    app: ASGIApp, host: str, port: int, certificate: Path | None = None, key: Path | None = None,
    client_authority: Path | None = None,
) -> uvicorn.Config:  # fmt: skip
    """How HTTP is served; with an authority clients may show a certificate, which then has to be one of its own.

    Raises `OSError` if a certificate or key cannot be used.
    """
    found = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=PatientProtocol,
        loop="uvloop",
        log_level="error",  # nonsense on the wire is no news
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=CONNECTIONS,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=3,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        ssl_ca_certs=None if client_authority is None else str(client_authority),
        ssl_cert_reqs=ssl.CERT_NONE if client_authority is None else ssl.CERT_OPTIONAL,
    )
    found.load()
    return found
