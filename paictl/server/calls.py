"""What a handler gets and gives, errors as answers included; no network in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson

from paictl.cluster.interface import (
    ClusterError,
    ConflictError,
    NoJobError,
    StoreError,
    UnreachableError,
    UnsupportedError,
)
from paictl.config.reading.problem import Problem
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import in_language, joined, sayable, text
from paictl.operate import RefusedFilesError

if TYPE_CHECKING:
    from paictl.cluster.interface import Cluster
    from paictl.operate.users.tokens import Caller


NavigationEntry = tuple[str, str, bool]
"""Address, name (a key of the catalogue), and whether only administrators see it."""


class ApiError(Exception):
    """An answer that is no success: `code` is a word of OpenPAI's for programs, `message` is for people."""

    def __init__(self, status: int, code: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more
        self.headers: dict[str, str] = {}


def bad(message: str) -> ApiError:
    """The error for a request that cannot be understood."""
    return ApiError(400, "InvalidParametersError", message)


@frozen
class Call:
    """A request whose sender is known and may ask this; `path` holds the variable parts of the address."""

    cluster: Cluster
    caller: Caller | None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)
    media: str = ""
    address: str = ""
    secure: bool = False
    language: str = "en"
    theme: str = ""
    session: str = field(default="", repr=False)
    """The token of the cookie, empty for a program."""
    host: str = ""
    """Under which name (and port) the server was reached."""
    cookies: Mapping[str, str] = field(default_factory=dict, repr=False)
    pages: tuple[NavigationEntry, ...] = ()
    """What the navigation has beside the portal's own."""

    @property
    def me(self) -> Caller:
        """Who asks; there is somebody wherever the table of routes wants one."""
        if self.caller is None:
            raise ApiError(401, "UnauthorizedUserError", text("sign in first"))
        return self.caller

    def fields(self) -> Mapping[str, Any]:
        """The body as named values, from a form or from JSON. Raises `ApiError`."""
        if self.media == "application/json":
            try:
                data = orjson.loads(self.body or b"{}")
            except orjson.JSONDecodeError as error:
                raise bad(text("the body is not valid JSON: {error}", error=error)) from None
            if not isinstance(data, dict):
                raise bad(text("the body must be a JSON object"))
            return data
        if self.media in ("application/x-www-form-urlencoded", ""):
            return form_of(self.body)
        raise ApiError(415, "InvalidParametersError", text("send JSON or a form, not {media}", media=self.media[:80]))


def form_of(body: bytes) -> dict[str, str]:
    """A form of a page or of a query, the last of several values of a name. Raises `ApiError` if it is malformed."""
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=500, errors="strict"))
    except ValueError:
        raise bad(text("the form cannot be read")) from None


@frozen
class Answer:
    """What goes back."""

    body: bytes = b""
    status: int = 200
    media: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cookies: tuple[str, ...] = ()
    """Values of ``Set-Cookie``."""


def json_answer(data: object, status: int = 200, **headers: str) -> Answer:
    """JSON."""
    return Answer(orjson.dumps(data), status, headers=headers)


def message_answer(message: str, status: int = 200) -> Answer:
    """A success of which there is no more to tell than that; in English, because OpenPAI's clients may look for it."""
    return json_answer({"message": message}, status)


def redirect(where: str, *cookies: str) -> Answer:
    """Another page of ours, to be loaded with GET."""
    return Answer(b"", 303, "text/plain", {"Location": where}, cookies)


def answer_to(error: PaictlError) -> ApiError:
    """An error of the cluster or of a use case, as an answer; handlers answer themselves where they know better."""
    more: dict[str, Any] = {"hint": error.hint} if error.hint else {}
    message = text("{where}: {message}", where=error.where, message=error.message) if error.where else error.message
    match error:
        case RefusedFilesError():
            problems = [problem_data(problem) for problem in error.report.problems]
            return ApiError(400, "InvalidProtocolError", _with_findings(message, error), problems=problems, **more)
        case StoreError():  # its place and what to do are for whoever runs the server
            return ApiError(503, "UnavailableError", error.message)
        case UnreachableError():
            return ApiError(503, "UnavailableError", message, **more)
        case UnsupportedError():
            return ApiError(501, "NotImplementedError", message, **more)
        case NoJobError():
            return ApiError(404, "NoJobError", message)
        case ConflictError():
            return ApiError(409, "ConflictError", message, **more)
        case ClusterError():
            return ApiError(400, "InvalidParametersError", message, **more)
    return ApiError(400, "InvalidParametersError", message, **more)


def _with_findings(message: str, error: RefusedFilesError) -> str:
    """OpenPAI's clients show the message and nothing else, so that everything is in it."""
    lines = [
        text(
            "{line}:{column}: {severity} {rule}: {message}{hint}",
            line=problem.place.line,
            column=problem.place.column,
            severity=text(problem.severity.value),
            rule=problem.rule,
            message=sayable(problem.message),
            hint=text(" ({hint})", hint=sayable(problem.hint)) if problem.hint else "",
        )
        for problem in error.report.problems
    ]
    return joined("\n", [sayable(message), *lines])


def problem_data(problem: Problem, language: str = "en") -> dict[str, Any]:
    """A finding of the validator; for programs in English."""
    place = problem.place
    return {
        "rule": problem.rule,
        "name": problem.name,
        "severity": problem.severity.value,
        "message": in_language(problem.message, language),
        "hint": in_language(problem.hint or "", language),
        "line": place.line,
        "column": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def error_data(error: ApiError, language: str) -> dict[str, Any]:
    """An error as it goes to a program."""
    more = {
        name: in_language(value, language) if isinstance(value, str) else value for name, value in error.more.items()
    }
    return {"code": error.code, "message": in_language(error.message, language), **more}
