"""Bodies of requests as they arrive: in time, none too large, and never too many bytes of all together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from paictl.extender import wire

PATIENCE: Final = 10.0
"""Seconds in which a request must have arrived whole, and the head of one likewise."""
SMALL: Final = 256 << 10
"""Bytes of a body that count for nothing: ordinary questions are answered whatever others send."""
IN_FLIGHT: Final = 3 * wire.MAX_BODY
"""Bytes beyond `SMALL` that all bodies together may have while they arrive."""


class HttpError(Exception):
    """An answer that is no success; the message is for the user."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


@dataclass(slots=True)
class Bodies:
    """Reads bodies in one event loop."""

    held: int = 0
    """Bytes of large bodies that are arriving now."""

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, but no more than kube-scheduler would send.

        Raises `HttpError` (413 too large, 408 too slow, 503 too many bytes at once) and `ClientDisconnect`.
        """
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if length.isdigit() and int(length) > wire.MAX_BODY:
            raise HttpError(413, f"the body has {int(length)} bytes, at most {wire.MAX_BODY} are read")
        parts: list[bytes] = []
        counted = 0
        try:
            async with asyncio.timeout(PATIENCE):
                size, more = 0, True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    more, chunk = message.get("more_body", False), message.get("body", b"")
                    size += len(chunk)
                    self.held += max(0, size - SMALL) - counted
                    counted = max(0, size - SMALL)
                    self._check(size)
                    parts.append(chunk)
        except TimeoutError:
            raise HttpError(408, f"the request took more than {PATIENCE:g} s to arrive") from None
        finally:
            self.held -= counted
        return b"".join(parts)

    def _check(self, size: int) -> None:
        if size > wire.MAX_BODY:
            raise HttpError(413, f"the body has more than {wire.MAX_BODY} bytes")
        if size > SMALL and self.held > IN_FLIGHT:
            raise HttpError(503, f"more than {IN_FLIGHT} bytes are being sent at once: ask again")
