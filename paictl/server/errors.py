"""What goes wrong below, as answers: status, a code of OpenPAI's, and a message that says what to do next."""

from __future__ import annotations

from typing import Any

from paictl.cluster.interface import ClusterError, ConflictError, UnreachableError, UnsupportedError
from paictl.config.reading.problem import Problem
from paictl.errors import PaictlError
from paictl.i18n import in_language, text
from paictl.operate.errors import RefusedFilesError
from paictl.server.calls import ApiError


def answer_to(error: PaictlError) -> ApiError:
    """An error of the cluster or of a use case, as an answer; handlers answer themselves where they know better."""
    more: dict[str, Any] = {"hint": error.hint} if error.hint else {}
    said = text("{where}: {message}", where=error.where, message=error.message) if error.where else error.message
    match error:
        case RefusedFilesError():
            problems = [problem_data(one) for one in error.report.problems]
            return ApiError(400, "InvalidProtocolError", _with_findings(said, error), problems=problems, **more)
        case UnreachableError():
            return ApiError(503, "UnavailableError", said, **more)
        case UnsupportedError():
            return ApiError(501, "NotImplementedError", said, **more)
        case ConflictError():
            return ApiError(409, "ConflictError", said, **more)
        case ClusterError():
            return ApiError(400, "InvalidParametersError", said, **more)
    return ApiError(400, "InvalidParametersError", said, **more)


def _with_findings(said: str, error: RefusedFilesError) -> str:
    """OpenPAI's clients show the message and nothing else, so that everything is in it."""
    lines = [
        f"{one.place.line}:{one.place.column}: {one.severity.value} {one.rule}: {one.message}"
        + (f" ({one.hint})" if one.hint else "")
        for one in error.report.problems
    ]
    return "\n".join([said, *lines])


def problem_data(problem: Problem) -> dict[str, Any]:
    """A finding of the validator for programs."""
    place = problem.place
    return {
        "rule": problem.rule, "name": problem.name, "severity": problem.severity.value, "message": problem.message,
        "hint": problem.hint or "", "line": place.line, "column": place.column, "endLine": place.end_line,
        "endColumn": place.end_column,
    }  # fmt: skip


def error_data(error: ApiError, language: str) -> dict[str, Any]:
    """An error as it goes to a program."""
    more = {name: in_language(one, language) if isinstance(one, str) else one for name, one in error.more.items()}
    return {"code": error.code, "message": in_language(error.message, language), **more}
