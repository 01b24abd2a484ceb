"""The pages and requests of a class at its server: the teacher sees everybody, a student what there is to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from paictl.cli import console
from paictl.errors import PaictlError
from paictl.lab import requests
from paictl.lab.classroom import LAB, REPORT_SIZE, Classroom, Standing, job_of, text_of
from paictl.lab.manifest import find_lab
from paictl.lab.requests import AskedRequest, is_worth_noting
from paictl.server.app import AnsweredRequest, Extension
from paictl.server.calls import Answer, ApiError, Call, bad, json_answer
from paictl.server.portal.rendering import fragment, page
from paictl.server.routing import Access, Operation, Route

_PAGE: Final = ("/class", "Class", False)
_SIGN_INS: Final = 256
"""A class signs in all at once when the lesson begins; each of them waits a second or two then."""


def extension_of(room: Classroom) -> Extension:
    """What the server of a class has beside the portal."""

    def answered(request: AnsweredRequest) -> None:
        if is_worth_noting(request.path):
            _note(room.folder, request)

    routes = (
        Route("GET", "/class", Access.USER, lambda call: _shown(room, call, live=False), Operation("The class")),
        Route(
            "GET",
            "/class/live",
            Access.USER,
            lambda call: _shown(room, call, live=True),
            Operation("What changes of the page"),
        ),
        Route(
            "GET",
            "/api/v2/class",
            Access.ADMIN,
            lambda call: json_answer(_data(room, call)),
            Operation("How far the students are"),
        ),
        Route(
            "PUT",
            "/api/v2/class/report",
            Access.USER,
            lambda call: _handed_in(room, call),
            Operation("Hand a report in"),
            size=REPORT_SIZE,
        ),
    )
    return Extension(routes, (_PAGE,), answered, _SIGN_INS)


def _note(folder: Path, request: AnsweredRequest) -> None:
    try:
        requests.append(folder, AskedRequest(request.user, f"{request.method} {request.path}", request.status))
    except PaictlError as problem:  # the request itself succeeded
        console.info(f"class: {problem}")


def _shown(room: Classroom, call: Call, *, live: bool) -> Answer:
    values = _everybody(room, call) if call.me.admin else _mine(room, call)
    if live:
        return fragment(call, "class-live.html", values)
    return page(call, "class.html", {"title": "Class", "here": "/class", **values})


def _everybody(room: Classroom, call: Call) -> dict[str, Any]:
    lab = find_lab(LAB)
    standings = room.standings(lab, call.cluster)
    return {
        "standings": standings,
        "heads": [(task.id, task.says.of(call.language)) for task in lab.in_class],
        "complete": sum(standing.complete for standing in standings),
        "tasks": None,
    }


def _mine(room: Classroom, call: Call) -> dict[str, Any]:
    lab = find_lab(LAB)
    standing = room.standing(lab, call.cluster, call.me.name)
    if standing is None:
        raise ApiError(404, "NoApiError", "you are not a student of this class")
    tasks = [
        {
            "id": task.id,
            "text": text_of(task, standing.student, call.language),
            "done": standing.done[task.id],
            "job": job_of(lab, task, standing.student),
        }
        for task in lab.in_class
    ]
    return {"tasks": tasks, "report": standing.report, "standings": ()}


def standing_data(standing: Standing) -> dict[str, Any]:
    """A student's standing as plain data."""
    report = standing.report
    return {
        "user": standing.student.user,
        "name": standing.student.name,
        "vc": standing.student.vc,
        "tasks": dict(standing.done),
        "jobs": {state.value: number for state, number in standing.jobs.items()},
        "report": None
        if report is None
        else {
            "at": report.at,
            "name": report.name,
            "labs": report.labs,
            "passed": report.passed,
            "checks": report.checks,
        },
        "complete": standing.complete,
    }


def _data(room: Classroom, call: Call) -> list[dict[str, Any]]:
    return [standing_data(standing) for standing in room.standings(find_lab(LAB), call.cluster)]


def _handed_in(room: Classroom, call: Call) -> Answer:
    """Keep the report in the body. Raises `ApiError` if the caller is not a student, or the body not a report."""
    if all(student.user != call.me.name for student in room.students):
        raise ApiError(403, "ForbiddenUserError", "only students of this class can hand in reports")
    try:
        written = call.body.decode("utf-8")
    except UnicodeDecodeError:
        raise bad("a report is UTF-8 text") from None
    report = room.hand_in(call.me.name, written)
    return json_answer({"labs": report.labs, "passed": report.passed, "checks": report.checks}, 201)
