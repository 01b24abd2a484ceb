"""Jobs: submitted, listed in pages, shown, stopped. Users see their own and submit where they were granted to."""

from __future__ import annotations

from typing import Any, Final

import yaml

from paictl.cluster.attempts import attempts_of
from paictl.cluster.interface import (
    ConflictError,
    JobRequest,
    JobView,
)
from paictl.cluster.jobpages import JobOrder, JobQuery, KeepsJobData, page_of
from paictl.i18n import text, translated
from paictl.operate import explaining
from paictl.operate.jobfiles import findings, job_in_text
from paictl.server.api import jobviews
from paictl.server.calls import Answer, ApiError, Call, bad, json_answer, message_answer, problem_data
from paictl.server.routing import Access, Operation, Route
from paictl.server.tenants import Tenants, request_for
from paictl.workload.tags import LONGEST_TAG

YAML: Final = 512 * 1024
"""Bytes of a job."""
MOST: Final = 5000
"""Jobs of a page."""
_DEFAULT: Final = 2000

_ORDERS: Final = {
    "submissionTime": JobOrder.SUBMITTED,
    "createdTime": JobOrder.SUBMITTED,
    "completionTime": JobOrder.ENDED,
    "jobName": JobOrder.NAME,
    "name": JobOrder.NAME,
    "username": JobOrder.USER,
    "vc": JobOrder.VC,
    "virtualCluster": JobOrder.VC,
    "state": JobOrder.STATE,
}
_STATES: Final = {name: state for state, name in jobviews.STATES.items()}
_UNKNOWN: Final = frozenset({"STOPPING", "UNKNOWN"})
"""States of OpenPAI's in which no job is here."""


def request_of(call: Call) -> JobRequest:
    """The job in a request, of whoever calls. Raises `RefusedFilesError` for findings, `ApiError` for another's VC."""
    return request_for(call, job_in_text(call.body, lambda _: None))


def submit_job(call: Call) -> JobView:
    """Take the job in a request. Raises `ApiError`; a name is taken once, so that asking again does no harm."""
    request = request_of(call)
    try:
        return call.cluster.submit([request])[0]
    except ConflictError as error:
        raise ApiError(409, "ConflictJobError", error.message) from None


def submit(call: Call) -> Answer:
    """Take a job."""
    name = submit_job(call).key.partition("~")[2]
    return message_answer(f"update job {name} successfully", 202)


def query_of(call: Call) -> JobQuery:
    """The page that the parameters ask for, of everybody's jobs for administrators only. Raises `ApiError`."""
    users = _words(call, "username")
    if not call.me.admin:
        if users - {call.me.name}:
            raise ApiError(403, "ForbiddenUserError", text("you can only see your own jobs"))
        users = frozenset({call.me.name})
    states = _words(call, "state")
    if unknown := states - _STATES.keys() - _UNKNOWN:
        raise bad(text("no state {state!r}", state=min(unknown)[:40]))
    field, _, direction = call.query.get("order", "submissionTime,DESC").partition(",")
    if field not in _ORDERS or direction not in ("ASC", "DESC", ""):
        raise bad(text("order must be FIELD,ASC or FIELD,DESC; FIELD is one of: {names}", names=", ".join(_ORDERS)))
    tags = _words(call, "tag") | _words(call, "tagsContain")
    known = frozenset(_STATES[state] for state in states - _UNKNOWN)
    return JobQuery(
        users,
        _words(call, "vc"),
        known,
        call.query.get("keyword", "")[:255],
        tags,
        _words(call, "tagsNotContain"),
        _ORDERS[field],
        direction != "ASC",
        number(call, "offset", 0, 10**9),
        0 if states and not known else number(call, "limit", _DEFAULT, MOST),
    )


def number(call: Call, name: str, default: int, most: int) -> int:
    """A whole number of the parameters, at most `most`. Raises `ApiError`."""
    given = call.query.get(name, str(default))
    if not (given.isascii() and given.isdigit() and len(given) < 12):
        raise bad(text("{name} must be an integer", name=name))
    return min(int(given), most)


def _words(call: Call, name: str) -> frozenset[str]:
    return frozenset(word for word in call.query.get(name, "").split(",") if word)


def jobs(call: Call) -> Answer:
    """A page of jobs, the newest first."""
    page = page_of(call.cluster, query_of(call))
    data = [jobviews.summary(job) for job in page.jobs]
    return json_answer({"totalCount": page.total, "data": data} if call.query.get("withTotalCount") == "true" else data)


def key_of(call: Call) -> str:
    """The job that the path names."""
    return f"{call.path['user']}~{call.path['job']}"


def found_job(call: Call) -> JobView:
    """The job that the path names. Raises `NoJobError` if there is none."""
    return call.cluster.job(key_of(call))


def job(call: Call) -> Answer:
    """A job with its tasks."""
    return json_answer(jobviews.detail(Tenants(call).job(found_job(call))))


def config_of(call: Call) -> str:
    """What a job was submitted with, as YAML, secrets masked. Raises `ApiError`."""
    view = found_job(call)
    if not isinstance(call.cluster, KeepsJobData):
        raise ApiError(404, "NoJobConfigError", text("this cluster does not keep submitted job files"))
    data = call.cluster.job_data(view.key)
    return str(yaml.safe_dump(dict(data), allow_unicode=True, sort_keys=False, width=120))


def config(call: Call) -> Answer:
    """What a job was submitted with."""
    return Answer(config_of(call).encode(), 200, "text/yaml")


def events(call: Call) -> Answer:
    """What happened to a job."""
    kind = call.query.get("type")
    if kind not in (None, "Normal", "Warning"):
        raise bad(text("type must be Normal or Warning"))
    key = found_job(call).key
    return json_answer(jobviews.events(key, Tenants(call).events(call.cluster.events(f"job/{key}")), kind))


def explain(call: Call) -> Answer:
    """Why a job waits."""
    explanation = Tenants(call).explanation(call.cluster.explain(found_job(call).key))
    return json_answer(explaining.data(explanation, call.language))


def execute(call: Call) -> Answer:
    """Stop a job; a second time does nothing."""
    wanted = call.fields().get("value")
    if wanted not in ("STOP", "START"):
        raise bad(text("value must be STOP or START"))
    view = found_job(call)
    if wanted == "START":
        if view.state.ended:
            said_no = text("a finished job cannot be restarted: submit it under another name")
            raise ApiError(501, "NotImplementedError", said_no)
    else:
        call.cluster.stop_job(view.key)
    return message_answer(f"execute job {call.path['job']} successfully", 202)


def add_tag(call: Call) -> Answer:
    """Add a tag to a job; a tag that it has stays."""
    return _tagged(call, "add")


def remove_tag(call: Call) -> Answer:
    """Remove a tag from a job; nothing to do for one that it does not have."""
    return _tagged(call, "remove")


def _tagged(call: Call, change: str) -> Answer:
    value = call.fields().get("value")
    if not isinstance(value, str):
        raise bad(text("value must be a tag"))
    call.cluster.tag_job(found_job(call).key, **{change: [value]})
    return message_answer(f"update tags of job {call.path['job']} successfully")


def attempts_health(call: Call) -> Answer:
    """Attempts are known of every job that is."""
    found_job(call)
    return message_answer("ok")


def attempts(call: Call) -> Answer:
    """The attempts of a job, the first one first."""
    return json_answer(_attempts(call))


def attempt(call: Call) -> Answer:
    """One attempt of a job."""
    for entry in _attempts(call):
        if str(entry["attemptIndex"]) == call.path["index"]:
            return json_answer(entry)
    raise ApiError(404, "NoJobError", text("the job has no attempt {index}", index=call.path["index"]))


def _attempts(call: Call) -> list[dict[str, Any]]:
    tenants = Tenants(call)
    view = tenants.job(found_job(call))
    return jobviews.attempts(attempts_of(view, tenants.events(call.cluster.events(f"job/{view.key}"))))


def check(call: Call) -> Answer:
    """What the validator says of a job, and what would become of it, without submitting it."""
    problems = [problem_data(finding) for finding in findings(call.body)]
    return json_answer({"problems": problems, **_foreseen(call, problems)})


def _foreseen(call: Call, problems: list[dict[str, Any]]) -> dict[str, Any]:
    """``explanation``: what would become of a job without errors, or why it would be refused."""
    if any(problem["severity"] == "error" for problem in problems):
        return {"explanation": None}
    explanation = Tenants(call).explanation(call.cluster.foresee(request_of(call)))
    lines = [translated(line, call.language) for line in explaining.lines(explanation)]
    return {"explanation": explaining.data(explanation, call.language), "lines": lines}


_BODY: Final = {"text/yaml": {"type": "object", "description": "A job of protocol version 2."}}
_VALUE: Final = {
    "application/json": {
        "type": "object",
        "required": ["value"],
        "properties": {"value": {"type": "string", "enum": ["STOP", "START"]}},
    }
}
_TAG: Final = {
    "application/json": {
        "type": "object",
        "required": ["value"],
        "properties": {"value": {"type": "string", "maxLength": LONGEST_TAG}},
    }
}
_LIST: Final = {
    "username": "string",
    "vc": "string",
    "state": "string",
    "keyword": "string",
    "order": "string",
    "tag": "string",
    "tagsContain": "string",
    "tagsNotContain": "string",
    "offset": "integer",
    "limit": "integer",
    "withTotalCount": "boolean",
}
_JOB: Final = "/api/v2/jobs/{user}~{job}"


def _spec(summary: str, *answers: int, **more: Any) -> Operation:
    return Operation(summary, "job", answers or (200, 404), **more)


ROUTES: Final = (
    Route(
        "POST",
        "/api/v2/jobs",
        Access.USER,
        submit,
        _spec("Submit a job", 202, 400, 409, 503, takes=_BODY),
        jobs=True,
        slow=True,
        size=YAML,
    ),
    Route("GET", "/api/v2/jobs", Access.USER, jobs, _spec("A page of jobs", 200, 400, query=_LIST), jobs=True),
    Route(
        "POST",
        "/api/v2/jobs/check",
        Access.USER,
        check,
        _spec("What would happen to a job", 200, 400, takes=_BODY),
        jobs=True,
        slow=True,
        size=YAML,
    ),
    Route("GET", _JOB, Access.OWNER, job, _spec("A job with its tasks"), jobs=True),
    Route(
        "GET",
        f"{_JOB}/config",
        Access.OWNER,
        config,
        _spec("What was submitted", gives="text/yaml"),
        jobs=True,
        slow=True,
    ),
    Route(
        "GET",
        f"{_JOB}/events",
        Access.OWNER,
        events,
        _spec("What happened to a job", 200, 400, 404, query={"type": "string"}),
        jobs=True,
    ),
    Route("GET", f"{_JOB}/explain", Access.OWNER, explain, _spec("Why a job waits"), jobs=True, slow=True),
    Route(
        "PUT",
        f"{_JOB}/executionType",
        Access.OWNER,
        execute,
        _spec("Stop a job", 202, 400, 404, takes=_VALUE),
        jobs=True,
    ),
    Route(
        "PUT", f"{_JOB}/tag", Access.OWNER, add_tag, _spec("Add a tag to a job", 200, 400, 404, takes=_TAG), jobs=True
    ),
    Route(
        "DELETE",
        f"{_JOB}/tag",
        Access.OWNER,
        remove_tag,
        _spec("Remove a tag from a job", 200, 400, 404, takes=_TAG),
        jobs=True,
    ),
    Route("GET", f"{_JOB}/job-attempts", Access.OWNER, attempts, _spec("The attempts of a job"), jobs=True),
    Route(
        "GET",
        f"{_JOB}/job-attempts/healthz",
        Access.OWNER,
        attempts_health,
        _spec("Whether attempts are known"),
        jobs=True,
    ),
    Route("GET", f"{_JOB}/job-attempts/{{index}}", Access.OWNER, attempt, _spec("One attempt of a job"), jobs=True),
)
