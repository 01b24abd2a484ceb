"""Connections that send nothing, or the head of a request byte by byte: closed after a while, and few of one sender.

uvicorn waits for ever for the head of a request; a body is waited for by `app`.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD: float = 10.0
"""Seconds in which the head of a request must have arrived."""


class PatientProtocol(H11Protocol):
    """uvicorn's protocol of one connection, with a deadline for the head; use a subclass made by `protocol_with`."""

    most: ClassVar[int] = 0
    """Connections of one address at once; 0 for any number."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection: the time runs."""
        super().connection_made(transport)
        if self.most and self.client:
            same = sum(other.client is not None and other.client[0] == self.client[0] for other in self._others())
            if same > self.most:
                transport.close()
                return
        self._wait()

    def _others(self) -> list[H11Protocol]:
        return [one for one in self.connections if isinstance(one, H11Protocol)]

    def connection_lost(self, exc: Exception | None) -> None:
        """The end of it."""
        self._arrived()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Bytes: a head that began has its time, one that is whole has no more of it to lose."""
        if self._deadline is None and self.conn.their_state is h11.IDLE:
            self._wait()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._arrived()

    def _wait(self) -> None:
        self._deadline = self.loop.call_later(HEAD, self._too_late)

    def _arrived(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()


def protocol_with(most: int) -> type[PatientProtocol]:
    """The protocol with a limit on the connections of one address."""
    return type("LimitedProtocol", (PatientProtocol,), {"most": most})
