"""Bodies of requests as they arrive: in time, none too large, and never too many bytes of all together."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from paictl.i18n import text

MAX_BODY: Final = 32 << 20
"""Bytes of a request: kube-scheduler's names of 16,384 nodes are 0.4 MB; one that sends whole nodes may need 20."""
PATIENCE: Final = 10.0
"""Seconds in which a request must have arrived whole, and the head of one likewise."""
LEAST: Final = 2.0
"""Seconds that a sender has in any case once the body is read: it need not pay for our own delay."""
BEGAN: Final = "paictl.began"
"""In a scope: when the first byte of a request came, by the clock of the event loop."""
SMALL: Final = 256 << 10
"""Bytes of a body that count for nothing: ordinary questions are answered whatever others send."""
IN_FLIGHT: Final = 3 * MAX_BODY
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

    async def read(self, scope: Scope, receive: Receive, most: int = MAX_BODY) -> bytes:
        """The whole body of at most `most` bytes, by default no more than anybody has a reason to send.

        The time for it counts from the first byte of the request, whoever has been asked about its sender meanwhile.
        Raises `HttpError` (413 too large, 408 too slow, 503 too many bytes at once) and `ClientDisconnect`.
        """
        length = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not length.isdigit() or int(length) > most:
            raise _too_large(most)
        now = asyncio.get_running_loop().time()
        end = max(scope.get(BEGAN, now) + PATIENCE, now + LEAST)
        parts: list[bytes] = []
        counted = 0
        try:
            async with asyncio.timeout_at(end):
                size, more = 0, True
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    more, chunk = message.get("more_body", False), message.get("body", b"")
                    size += len(chunk)
                    self.held += max(0, size - SMALL) - counted
                    counted = max(0, size - SMALL)
                    self._check(size, most)
                    parts.append(chunk)
        except TimeoutError:
            raise HttpError(
                408, text("the request took longer than {seconds:g} s to arrive", seconds=PATIENCE)
            ) from None
        finally:
            self.held -= counted
        return b"".join(parts)

    def _check(self, size: int, most: int) -> None:
        if size > most:
            raise _too_large(most)
        if size > SMALL and self.held > IN_FLIGHT:
            raise HttpError(503, text("more than {most} bytes are being sent at once: ask again", most=IN_FLIGHT))


def _too_large(most: int) -> HttpError:
    return HttpError(413, text("the limit is {most} bytes", most=most))
