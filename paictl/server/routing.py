"""The table of what can be asked: method, path, who may, and what answers. The one place that decides who may."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.users.tokens import Caller, TokenKind
from paictl.server.calls import Answer, ApiError, Call

Handler = Callable[[Call], Answer]

BODY: Final = 64 * 1024
"""Bytes of a body, unless a route says otherwise."""


class Access(StrEnum):
    """Who may ask."""

    ANYBODY = "anybody"
    USER = "user"
    """Whoever is signed in; the answer is about what is that user's own."""
    OWNER = "owner"
    """The user that the path names, or an administrator."""
    ADMIN = "admin"


@frozen
class Operation:
    """What the description of the API says of a route; `answers` are the codes beside those that every route has."""

    summary: str
    tag: str = "page"
    answers: tuple[int, ...] = (200,)
    query: Mapping[str, str] = field(default_factory=dict)
    """Parameter → JSON type."""
    takes: Mapping[str, Any] = field(default_factory=dict)
    """Media type → JSON Schema of the body."""
    gives: str = "application/json"


@frozen
class Route:
    """One thing that can be asked; `jobs` says that an application's token may, `slow` that it costs processor time.

    Whatever reads or writes a whole job file is slow: half a megabyte of YAML takes a thread most of a second.
    """

    method: str
    path: str
    who: Access
    handle: Handler
    operation: Operation
    jobs: bool = False
    slow: bool = False
    size: int = BODY
    line: str = ""
    """In which line slow questions of strangers wait for their turn, as those of one account do; empty: none."""

    @property
    def page(self) -> bool:
        """Whether a browser shows the answer: errors are pages then, and who is not signed in is sent to sign in."""
        return not self.path.startswith(("/api/", "/openapi", "/health", "/metrics"))

    @property
    def reads_body(self) -> bool:
        """Whether there is a body to wait for."""
        return self.method in ("POST", "PUT", "PATCH", "DELETE")

    @property
    def changes(self) -> bool:
        """Whether something may be another than before, so that a browser must prove that a page of ours asks."""
        return self.method not in ("GET", "HEAD")


_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_WORD: Final = r"(?!\.{1,2}(?:/|\Z))[A-Za-z0-9_.-]{1,255}"
"""What can stand for a variable of a path: no slash, tilde or percent sign, not ``.`` or ``..``."""


class Router:
    """The routes by path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._plain: dict[str, dict[str, Route]] = {}
        self._patterns: list[tuple[re.Pattern[str], dict[str, Route]]] = []
        known: dict[str, dict[str, Route]] = {}
        for route in self.routes:
            if route.path not in known:
                methods: dict[str, Route] = {}
                known[route.path] = methods
                if _VARIABLE.search(route.path):
                    self._patterns.append((_pattern(route.path), methods))
                else:
                    self._plain[route.path] = methods
            if route.method in known[route.path]:
                raise ValueError(f"two routes for {route.method} {route.path}")
            known[route.path][route.method] = route

    def find(self, method: str, raw: bytes) -> tuple[Route, dict[str, str]]:
        """The route of a request and the variables of its path. Raises `ApiError`."""
        allowed: set[str] = set()
        for methods, variables in self._methods(_plain_path(raw)):
            if route := methods.get("GET" if method == "HEAD" else method):
                return route, variables
            allowed |= methods.keys()
        if not allowed:
            raise _nothing()
        error = ApiError(405, "NoApiError", text("{method} is not supported here", method=method[:20]))
        error.headers["Allow"] = ", ".join(sorted(allowed))
        raise error

    def _methods(self, path: str) -> Iterator[tuple[Mapping[str, Route], dict[str, str]]]:
        """The methods of every template that a path fits, the one without variables first."""
        if plain := self._plain.get(path):
            yield plain, {}
        for pattern, methods in self._patterns:
            if match := pattern.fullmatch(path):
                yield methods, match.groupdict()

    def __iter__(self) -> Iterator[Route]:
        return iter(self.routes)


def _pattern(path: str) -> re.Pattern[str]:
    parts = _VARIABLE.split(path)
    pieces = [re.escape(part) if number % 2 == 0 else f"(?P<{part}>{_WORD})" for number, part in enumerate(parts)]
    return re.compile("".join(pieces))


def _plain_path(raw: bytes) -> str:
    """A path decoded once, without the slash that some clients put at its end. Raises `ApiError` for a trick."""
    path = unquote_to_bytes(raw)
    if b"%2f" in raw.lower() or not path.isascii() or any(byte < 0x21 or byte in b'\x7f\\%"<>' for byte in path):
        raise _nothing()
    decoded = path.decode()
    return decoded[:-1] if decoded.startswith("/api/") and decoded.endswith("/") else decoded


def _nothing() -> ApiError:
    return ApiError(404, "NoApiError", text("no page at this address"))


def authorise(route: Route, caller: Caller | None, variables: Mapping[str, str]) -> None:
    """Raise `ApiError` unless a caller may ask for a route. Nothing else in this package decides that.

    What a user sees of answers about all (`Access.USER`) is the handler's to narrow down, by `Call.me`.
    """
    if route.who is Access.ANYBODY:
        return
    if caller is None:
        raise ApiError(401, "UnauthorizedUserError", text("sign in first"))
    if caller.token.kind == TokenKind.APPLICATION and not route.jobs:
        raise ApiError(403, "ForbiddenUserError", text("an application token can only be used for jobs"))
    allowed = caller.admin or route.who is Access.USER
    if route.who is Access.OWNER:
        allowed = allowed or variables["user"] == caller.name
    if not allowed:
        what = text("only administrators may do this")
        if route.who is Access.OWNER:
            what = text("only {user} and administrators may do this", user=variables["user"])
        raise ApiError(403, "ForbiddenUserError", what)
