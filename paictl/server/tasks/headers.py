"""Which headers of a request reach a task, which of its answer reach the browser, and which requests are forged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

Header = tuple[bytes, bytes]

OURS: Final = (b"paictl", b"__host-paictl")
"""How the names of our cookies begin."""
_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-authentication-info proxy-connection te "
    b"trailer trailers upgrade".split()
)
"""Headers that are about one connection."""
_NOT_FOR_TASKS: Final = _HOP | frozenset(
    b"authorization expect forwarded x-forwarded-for x-forwarded-host x-forwarded-proto x-forwarded-port x-real-ip "
    b"x-csrf-token".split()
)
_NOT_FOR_BROWSERS: Final = _HOP | {b"alt-svc", b"clear-site-data", b"strict-transport-security"}
"""Beside those of a connection what would have an effect beyond the task's own host name."""


def as_mapping(headers: Iterable[Header]) -> dict[str, str]:
    """Headers by lower-case name; several of the same name are joined by commas."""
    mapping: dict[str, str] = {}
    for name, value in headers:
        key, content = name.decode("latin-1").lower(), value.decode("latin-1")
        mapping[key] = f"{mapping[key]},{content}" if key in mapping else content
    return mapping


def is_websocket(headers: Mapping[str, str]) -> bool:
    """Whether a request asks for a WebSocket."""
    words = [word.strip().lower() for word in headers.get("connection", "").split(",")]
    return "upgrade" in words and headers.get("upgrade", "").strip().lower() == "websocket"


def is_forged(method: str, headers: Mapping[str, str], origin: str) -> bool:
    """Whether a page of another host made a browser send a request, be it the portal or another task.

    A link to a task may be followed from anywhere; whatever else comes has to come from its own pages.
    """
    if is_websocket(headers):
        return headers.get("origin", origin) != origin  # browsers always say where it comes from
    site = headers.get("sec-fetch-site")
    if site is None:
        return headers.get("origin", origin) != origin
    if site in ("same-origin", "none"):
        return False
    link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not (link and method in ("GET", "HEAD"))


def for_task(headers: Iterable[Header], scheme: str, *, websocket: bool) -> list[Header]:
    """The headers of a request as the task gets them: without anything of ours, or that proxies said."""
    rows = list(headers)
    dropped = _NOT_FOR_TASKS | _named_by_connection(rows)
    kept = [(name, value) for name, value in rows if name.lower() not in dropped and name.lower() != b"cookie"]
    cookies = b"; ".join(_own_cookies(value for name, value in rows if name.lower() == b"cookie"))
    kept += [(b"Cookie", cookies)] if cookies else []
    kept.append((b"X-Forwarded-Proto", scheme.encode()))
    return kept + ([(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")] if websocket else [])


def for_browser(headers: Iterable[Header], *, websocket: bool = False) -> list[Header]:
    """The headers of a task's answer as the browser gets them; no other page may put it in a frame."""
    rows = list(headers)
    dropped = _NOT_FOR_BROWSERS | _named_by_connection(rows)
    kept = [
        (name, value)
        for name, value in rows
        if name.lower() not in dropped and not (name.lower() == b"set-cookie" and _reaches_further(value))
    ]
    if websocket:
        return [*kept, (b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    return [*kept, (b"Content-Security-Policy", b"frame-ancestors 'self'")]


def _named_by_connection(rows: Iterable[Header]) -> frozenset[bytes]:
    """Headers that the sender says are about the connection only; the body's length is not one of them."""
    words = {
        word.strip().lower() for name, value in rows if name.lower() == b"connection" for word in value.split(b",")
    }
    return frozenset(words - {b"content-length", b"transfer-encoding", b"host", b"cookie"})


def _own_cookies(values: Iterable[bytes]) -> Iterator[bytes]:
    for value in values:
        for pair in value.split(b";"):
            if pair.strip() and not pair.strip().lower().startswith(OURS):
                yield pair.strip()


def _reaches_further(cookie: bytes) -> bool:
    """Whether a cookie would be sent to other hosts, or has a name of ours."""
    attributes = [part.strip().lower() for part in cookie.split(b";")]
    return attributes[0].startswith(OURS) or any(part.partition(b"=")[0] == b"domain" for part in attributes[1:])
