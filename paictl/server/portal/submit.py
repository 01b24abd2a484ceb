"""The page on which a job is written: a form, the YAML that comes of it, and what would become of the job.

Each button asks the server the same that a script asks as one types: the page works without one. A template fills it;
the page of the templates is here, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final
from urllib.parse import urlencode

import yaml

from paictl.cluster.interface import ConflictError, JobRequest, Port
from paictl.cluster.jobpages import JobQuery, KeepsJobData, page_of
from paictl.cluster.templates import EVERY_VC, JobTemplate, TemplateLibrary
from paictl.config.reading.problem import Problem
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import in_language, text
from paictl.operate import RefusedFilesError, explaining
from paictl.operate.cloning import clone, free_name
from paictl.operate.jobfiles import findings_in, job_in_text
from paictl.server.api.templates import found_template, visible
from paictl.server.calls import Answer, ApiError, Call, answer_to, json_answer, problem_data, redirect
from paictl.server.portal.rendering import granted, page, path_of
from paictl.server.routing import Access, Operation, Route
from paictl.server.tenants import Tenants, request_for
from paictl.workload.job import PRIORITIES


def templates(call: Call) -> Answer:
    """The templates that the caller may use."""
    libraries = visible(call)
    values = {"title": "Templates", "here": "/templates", "libraries": libraries, "start": _start, "every": EVERY_VC}
    return page(call, "templates.html", values)


def _start(library: TemplateLibrary, template: JobTemplate) -> str:
    """The page that a template fills."""
    return f"/submit?{urlencode({'template': library.name, 'file': template.path})}"


SIZE: Final = 512 * 1024
"""Maximum size in bytes of a job written in a browser."""
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@frozen
class SubmitForm:
    """The common case: one task role."""

    name: str = ""
    vc: str = ""
    priority: str = "test"
    image: str = ""
    command: str = ""
    instances: str = "1"
    gpu: str = "1"
    cpu: str = "4"
    memory: str = "8192"
    retries: str = "0"
    gang: str = "on"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> SubmitForm:
        """What was sent; what was not is empty, as a browser leaves out a box that is not ticked."""
        return cls(**{entry.name: str(given.get(entry.name, ""))[:20_000] for entry in fields(cls)})

    @classmethod
    def saying(cls, data: Mapping[str, Any]) -> SubmitForm | None:
        """The form that says just what a job says; None for a job that says anything else or more."""
        roles, extras = _mapping(data.get("taskRoles")), _mapping(data.get("extras"))
        role = _mapping(roles.get("worker"))
        each, uses = _mapping(role.get("resourcePerInstance")), data.get("prerequisites")
        image = _mapping(uses[0]).get("uri", "") if isinstance(uses, list) and uses else ""
        commands = role.get("commands")
        words = (
            str(data.get("name", "")),
            str(_mapping(data.get("defaults")).get("virtualCluster", "")),
            str(_mapping(extras.get("hivedScheduler")).get("jobPriorityClass", "")),
            str(image),
            "\n".join(map(str, commands)) if isinstance(commands, list) else "",
            str(role.get("instances", "")),
            *(str(each.get(name, "")) for name in ("gpu", "cpu", "memoryMB")),
            str(data.get("jobRetryCount", 0)),
            "on" if extras.get("gangAllocation") else "",
        )
        made = cls(**dict(zip((entry.name for entry in fields(cls)), words, strict=True)))
        return made if made.data() == {"jobRetryCount": 0, **data} else None

    def yaml(self) -> str:
        """The job as people would write it by hand."""
        written: str = yaml.safe_dump(self.data(), sort_keys=False, allow_unicode=True, width=1000)
        return written

    def data(self) -> dict[str, Any]:
        """The job."""
        return {
            "protocolVersion": 2,
            "name": self.name,
            "type": "job",
            "jobRetryCount": _number(self.retries),
            "prerequisites": [{"name": "image", "type": "dockerimage", "uri": self.image}],
            "taskRoles": {
                "worker": {
                    "instances": _number(self.instances),
                    "dockerImage": "image",
                    "resourcePerInstance": {
                        "gpu": _number(self.gpu),
                        "cpu": _number(self.cpu),
                        "memoryMB": _number(self.memory),
                    },
                    "commands": [line.rstrip() for line in self.command.splitlines() if line.strip()],
                }
            },
            "defaults": {"virtualCluster": self.vc},
            "extras": {"gangAllocation": bool(self.gang), "hivedScheduler": {"jobPriorityClass": self.priority}},
        }


def _number(word: str) -> int | str:
    """A number where it is one; else what was written, for the validator to say what is wrong with it."""
    return int(word) if _NUMBER.fullmatch(word) else word


@dataclass(slots=True)
class Checked:
    """Findings about a job that is being written."""

    findings: list[Problem] = field(default_factory=list)
    forecast: list[str] = field(default_factory=list)
    """What would become of it, line by line."""
    refusal: str = ""
    """Why it would not be taken, beside the findings."""
    status: int = 400
    """How an attempt to submit it is answered then."""

    @property
    def sound(self) -> bool:
        """Whether it would be taken."""
        return not self.refusal and not any(finding.severity.value == "error" for finding in self.findings)


def checked(call: Call, written: str) -> Checked:
    """Everything that can be said of a job before it is submitted."""
    result = Checked()
    try:
        request = _request(call, written, result)
        if _is_taken(call, request.user, str(request.data["name"])):
            result.refusal, result.status = _TAKEN, 409
        elif Port.SCHEDULING not in call.cluster.lacks:
            result.forecast = explaining.lines(Tenants(call).explanation(call.cluster.foresee(request)))
    except RefusedFilesError as error:
        result.findings = list(error.report.problems)
    except (PaictlError, ApiError) as error:
        result.refusal = str(error) if isinstance(error, PaictlError) else error.message
        result.status = (answer_to(error) if isinstance(error, PaictlError) else error).status
    return result


_TAKEN: Final = text("you already have a job of this name: choose another name")


def _is_taken(call: Call, user: str, name: str) -> bool:
    """Whether a job of the user has this name, as far as a quick look tells; to submit it tells for certain."""
    named = page_of(call.cluster, JobQuery(frozenset({user}), keyword=name, limit=50)).jobs
    return f"{user}~{name}" in {job.key for job in named}


def _request(call: Call, written: str, result: Checked) -> JobRequest:
    """The request that a text is; raises what `job_in_text` and `request_for` raise."""
    return request_for(call, job_in_text(written.encode(), result.findings.append))


def form(call: Call) -> Answer:
    """The page: empty, or with ``?clone=USER~NAME`` the YAML of a job under another name.

    ``template=LIBRARY`` and ``file=PATH`` give the text of a template, in a virtual cluster that the caller may use.
    ``priority`` is the class that the clone shall have, ``instances`` and ``gpu`` the size of its only task role;
    ``replace=yes`` offers to stop the job that was cloned once the clone is submitted.
    """
    vcs = granted(call)
    empty = SubmitForm(vc=vcs[0] if vcs else "")
    key = call.query.get("clone", "")
    if call.query.get("template"):
        typed = _from_template(call, vcs)
        return _page(call, None, typed, checked(call, typed))
    if not key:
        return _page(call, empty, "", None)
    copy = _cloned(call, key)
    made = SubmitForm.saying(copy)
    typed = made.yaml() if made else _yaml(copy)
    waits = call.query.get("replace") == "yes" and not call.cluster.job(key).state.ended
    return _page(call, made, typed, checked(call, typed), replaces=key if waits else "")


def _from_template(call: Call, vcs: list[str]) -> str:
    """The text of a template, its job under a name that is free and in a virtual cluster of the caller's.

    It stays as it was written, comments and all, unless something has to be changed. A text with errors stays, too.
    """
    library, template = found_template(call, call.query["template"], call.query.get("file", ""))
    problems, job = findings_in(template.path, template.text.encode())
    if not job or any(problem.severity.value == "error" for problem in problems):
        return template.text
    changed, defaults = dict(job), _mapping(job.get("defaults"))
    own = [vc for vc in vcs if library.is_for([vc])] or vcs
    if own and str(defaults.get("virtualCluster", "")) not in vcs:
        changed["defaults"] = {**defaults, "virtualCluster": own[0]}
    if _is_taken(call, call.me.name, str(job["name"])):
        changed["name"] = free_name(call.cluster, call.me.name, str(job["name"]))
    return template.text if changed == job else _yaml(changed)


def _yaml(data: Mapping[str, Any]) -> str:
    typed: str = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=1000)
    return typed


def _cloned(call: Call, key: str) -> dict[str, Any]:
    """What a job was submitted with, under a name that is free. Raises `ApiError` for a job of another user."""
    user = key.partition("~")[0]
    if user != call.me.name and not call.me.admin:
        raise ApiError(403, "ForbiddenUserError", text("only {user} and administrators may do this", user=user[:64]))
    if not isinstance(call.cluster, KeepsJobData):
        raise ApiError(404, "NoJobConfigError", text("this cluster does not keep submitted job files"))
    data: dict[str, Any] = {**clone(call.cluster, call.cluster.job(key), call.me.name).data}
    priority = call.query.get("priority", "")
    if priority in PRIORITIES:
        extras = _mapping(data.get("extras"))
        data["extras"] = {
            **extras,
            "hivedScheduler": {**_mapping(extras.get("hivedScheduler")), "jobPriorityClass": priority},
        }
    roles = _mapping(data.get("taskRoles"))
    if len(roles) == 1:
        ((name, role),) = roles.items()
        data["taskRoles"] = {name: _resized(_mapping(role), call.query)}
    return data


def _resized(role: Mapping[str, Any], query: Mapping[str, str]) -> dict[str, Any]:
    """A task role with other numbers of tasks, or of devices of each, where a query has some."""
    changed = dict(role)
    if _NUMBER.fullmatch(query.get("instances", "")):
        changed["instances"] = int(query["instances"])
    if _NUMBER.fullmatch(query.get("gpu", "")):
        changed["resourcePerInstance"] = {**_mapping(role.get("resourcePerInstance")), "gpu": int(query["gpu"])}
    return changed


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def written(call: Call) -> Answer:
    """What a button of the page asks: YAML from the form, a check, or to submit."""
    given = call.fields()
    action, made = str(given.get("wish", "check")), SubmitForm.of(given)
    typed = str(given.get("yaml", "")).replace("\r\n", "\n")
    if action == "draft" or not typed.strip():
        typed = made.yaml()
    result, old = checked(call, typed), str(given.get("replaces", ""))
    status = result.status if action == "submit" else 200
    if action == "submit" and result.sound:
        try:
            new = call.cluster.submit([_request(call, typed, Checked())])[0].key
            if given.get("stop") and _may_stop(call, old):
                call.cluster.stop_job(old)
            return redirect(path_of(new))
        except ConflictError:
            result.refusal, status = _TAKEN, 409
        except PaictlError as error:
            result.refusal, status = error.message, answer_to(error).status
    return _page(call, made, typed, result, status=status, replaces=old if _may_stop(call, old) else "")


def _may_stop(call: Call, key: str) -> bool:
    """Whether the job that a clone replaces is there, still to be stopped, and the caller's to stop."""
    if not key or (key.partition("~")[0] != call.me.name and not call.me.admin):
        return False
    try:
        return not call.cluster.job(key).state.ended
    except PaictlError:  # it was deleted meanwhile
        return False


def _page(
    call: Call, made: SubmitForm | None, typed: str, result: Checked | None, *, status: int = 200, replaces: str = ""
) -> Answer:
    values = {
        "title": "Submit",
        "here": "/submit",
        "form": asdict(made or SubmitForm()),
        "fits": made is not None,
        "yaml": typed,
        "checked": result,
        "vcs": granted(call),
        "priorities": list(PRIORITIES),
        "replaces": replaces,
    }
    return page(call, "submit.html", values, status=status)


def draft(call: Call) -> Answer:
    """The YAML of a form, for the script."""
    return json_answer({"yaml": SubmitForm.of(call.fields()).yaml()})


def check(call: Call) -> Answer:
    """What there is to say about a text, for the script."""
    result = checked(call, str(call.fields().get("yaml", "")))
    return json_answer(
        {
            "findings": [problem_data(finding, call.language) for finding in result.findings],
            "forecast": [in_language(line, call.language) for line in result.forecast],
            "refusal": in_language(result.refusal, call.language),
            "sound": result.sound,
        }
    )


ROUTES: Final = (
    Route("GET", "/templates", Access.USER, templates, Operation("Job templates")),
    Route("GET", "/submit", Access.USER, form, Operation("Write a job"), slow=True),
    Route(
        "POST",
        "/submit",
        Access.USER,
        written,
        Operation("Check or submit a job", answers=(200, 303, 400, 403)),
        size=SIZE,
        slow=True,
    ),
    Route("POST", "/submit/draft", Access.USER, draft, Operation("The YAML of a form"), size=SIZE, slow=True),
    Route("POST", "/submit/check", Access.USER, check, Operation("Findings about a job"), size=SIZE, slow=True),
)
