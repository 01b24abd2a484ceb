"""A job as its user wrote it (OpenPAI protocol v2), read, checked and with its templates filled in.

Checked here is what the rest of this package relies on. `paictl config validate` says all of it and more, with lines
and columns; this module is for data that did not come through it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.units import Millis, span_text
from paictl.workload.fields import Fields, JobError, kind, suggestion
from paictl.workload.plugins import callbacks_of, commands_around
from paictl.workload.runlimits import limit_of
from paictl.workload.tags import tags_of
from paictl.workload.template import MOST_EXPANDED, Leftover, Values, masked, too_large

PRIORITIES: Final = {"oppo": -1, "test": 10, "prod": 100, "crit": 120}
"""HiveD's priority by OpenPAI's class; -1 is opportunistic. ``crit`` is in OpenPAI's code, but not in its schema."""

DEFAULT_PRIORITY_CLASS: Final = "test"
DEFAULT_VC: Final = "default"

SAVE_ON_SIGTERM: Final = "saveOnSigterm"
LONGEST_GRACE: Final = Millis(300_000)
"""How long a preempted task may take to save its work: the doors wait for its devices no longer by default."""
NEVER: Final = -1
"""A completion policy that is never met, as written in a job."""

_JOB_NAME = re.compile(r"[a-zA-Z0-9_-]{1,255}")
_ROLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_JOB_KEYS = frozenset(
    {
        "protocolVersion",
        "name",
        "type",
        "version",
        "contributor",
        "description",
        "prerequisites",
        "parameters",
        "secrets",
        "jobRetryCount",
        "taskRoles",
        "deployments",
        "defaults",
        "extras",
    }
)
_ROLE_KEYS = frozenset(
    {
        "protocolVersion",
        "instances",
        "completion",
        "taskRetryCount",
        "dockerImage",
        "data",
        "output",
        "script",
        "prerequisites",
        "extraContainerOptions",
        "resourcePerInstance",
        "commands",
    }
)
_RESOURCE_KEYS = frozenset({"cpu", "memoryMB", "gpu", "ports"})
_COMPLETION_KEYS = frozenset({"minFailedInstances", "minSucceededInstances"})
_PREREQUISITES: Final = {"dockerImage": "dockerimage", "script": "script", "data": "data", "output": "output"}
"""Type of the prerequisite that each field of a task role names."""


class Restart(StrEnum):
    """What starts again once a task of a gang is lost (`docs/repair.md`)."""

    GANG = "gang"
    MEMBER = "member"
    """Only that task; the others keep running."""


@frozen
class Resources:
    """What one task asks for: devices, cores, and memory in MiB (the protocol's ``memoryMB`` is MiB too)."""

    gpu: int
    cpu: int
    memory: int


@frozen
class Completion:
    """How many tasks of a role must fail, or succeed, to end the whole job; None: however many, they do not."""

    min_failed: int | None
    min_succeeded: int | None


@frozen
class HivedExtras:
    """What a task role asks of HiveD, from ``extras.hivedScheduler``."""

    sku_type: str | None = None
    pinned_id: str | None = None
    affinity_group: str | None = None
    lazy_preemption: bool = False
    ignore_suggested: bool = True


@frozen
class TaskRole:
    """Tasks that run the same commands. `commands` come with those of the job's deployment, templates filled in."""

    name: str
    instances: int
    resources: Resources
    image: str
    commands: tuple[str, ...]
    completion: Completion
    retry_count: int
    """-1: any number of retries after failures; -2: also after successes (FrameworkController's meaning)."""
    wishes: HivedExtras


@frozen
class Job:
    """One job; `roles` in the order of the file."""

    name: str
    vc: str
    priority_class: str
    roles: tuple[TaskRole, ...]
    retry_count: int
    gang: bool
    max_run_time: Millis | None = None
    """How long an attempt of the job runs at most, from its first running task on; None: without a limit."""
    reservation: str = ""
    """The reservation whose cells the job uses; empty: it uses none that are reserved."""
    restart: Restart = Restart.GANG
    checkpoint_every: Millis | None = None
    """How often the job saves its work: so much of it is lost at most when it has to start again; None: all."""
    save_on_sigterm: Millis | None = None
    """How long the job needs to save its work when it gets SIGTERM; None: it does not then."""
    tags: tuple[str, ...] = ()
    """By what people find it again, as submitted (`workload.tags`)."""
    leftovers: tuple[Leftover, ...] = ()
    """Templates that name nothing. OpenPAI runs such a job all the same, with the template in its commands."""

    @property
    def checkpoints(self) -> Millis | None:
        """How often the job saves its work for stops by the scheduler: 0 if it does whenever it is asked to stop."""
        return self.checkpoint_every if self.save_on_sigterm is None else Millis(0)

    @property
    def priority(self) -> int:
        """HiveD's priority."""
        return PRIORITIES[self.priority_class]

    @property
    def opportunistic(self) -> bool:
        """Whether the job runs outside its VC's quota."""
        return self.priority < 0

    @property
    def repairs(self) -> bool:
        """Whether a lost task of the job's gang is replaced while the others keep running."""
        return self.gang and self.restart is Restart.MEMBER

    @classmethod
    def from_mapping(
        cls, data: Mapping[str, object], *, reveal_secrets: bool = False, with_commands: bool = True
    ) -> Job:
        """Read a job of protocol v2.

        Secrets appear in `commands` as a mask unless `reveal_secrets`, for whoever really runs them. Who needs none
        reads a job `with_commands` False: they can be 200,000, and take most of the time. Raises `JobError` naming the
        path of the first field at fault.
        """
        fields = Fields(data, "", _JOB_KEYS)
        _check_head(fields)
        reader = _RoleReader(fields, reveal_secrets, with_commands)
        names = fields.required("taskRoles").values
        if not names:
            raise fields.error("taskRoles", "a job needs at least one task role")
        hived = fields.mapping("extras").mapping("hivedScheduler")
        wishes = hived.mapping("taskRoles")
        for role in wishes.values:
            if role not in names:
                raise JobError(
                    wishes.at(role), "no such task role", hint=suggestion(str(role), map(str, names), "roles")
                )
        roles = tuple(
            reader.role(name, Fields(value, f"taskRoles.{name}", _ROLE_KEYS)) for name, value in names.items()
        )
        return cls(
            name=fields.text("name"),
            vc=fields.mapping("defaults").text("virtualCluster", DEFAULT_VC),
            priority_class=_priority_class(hived),
            roles=roles,
            retry_count=fields.whole("jobRetryCount", 0, 0),
            gang=fields.mapping("extras").flag("gangAllocation", default=True),
            max_run_time=_span(fields.mapping("extras"), "maxRunTime"),
            reservation=fields.mapping("extras").text("reservation", ""),
            restart=_restart(fields.mapping("extras")),
            checkpoint_every=_span(fields.mapping("extras"), "checkpointEvery"),
            save_on_sigterm=_grace(fields.mapping("extras")),
            tags=tags_of(fields.mapping("extras").values),
            leftovers=tuple(reader.leftovers),
        )


def _check_head(fields: Fields) -> None:
    if fields.get("protocolVersion") not in (2, "2") or isinstance(fields.get("protocolVersion"), bool):
        raise fields.error("protocolVersion", text("must be 2, is {kind}", kind=kind(fields.get("protocolVersion"))))
    if fields.get("type") != "job":
        raise fields.error("type", "must be the word job")
    if not _JOB_NAME.fullmatch(fields.text("name")):
        raise fields.error("name", "must be 1 to 255 letters, digits, - and _")


def _priority_class(hived: Fields) -> str:
    name = hived.text("jobPriorityClass", DEFAULT_PRIORITY_CLASS)
    if name not in PRIORITIES:
        raise hived.error(
            "jobPriorityClass",
            text("no priority class {name}", name=name),
            hint=suggestion(name, PRIORITIES, "priority classes"),
        )
    return name


def _restart(extras: Fields) -> Restart:
    word = extras.text("restart", Restart.GANG)
    if word not in list(Restart):
        raise extras.error(
            "restart", text("must be gang or member, not {word}", word=word), hint=suggestion(word, Restart, "values")
        )
    return Restart(word)


def _span(extras: Fields, key: str) -> Millis | None:
    value = extras.get(key)
    try:
        return None if value is None else limit_of(value)
    except PaictlError as error:
        raise extras.error(key, error.message, hint=error.hint) from None


def _grace(extras: Fields) -> Millis | None:
    span = _span(extras, SAVE_ON_SIGTERM)
    if span is not None and (refused := grace_refusal(span)):
        raise extras.error(SAVE_ON_SIGTERM, refused[0], hint=refused[1])
    return span


def grace_refusal(span: Millis) -> tuple[Text, str] | None:
    """(message, hint) if a job wants more time to save its work than any gets; None: it may have it."""
    if span <= LONGEST_GRACE:
        return None
    message = text(
        "{span} is more than {most}, after which a preempted task is killed",
        span=span_text(span),
        most=span_text(LONGEST_GRACE),
    )
    return message, "save less at once, or save regularly and say how often: checkpointEvery"


class _RoleReader:
    """Reads task roles; holds what they share: prerequisites, values for templates, the default deployment."""

    def __init__(self, job: Fields, reveal_secrets: bool, with_commands: bool) -> None:
        self.job = job
        self.with_commands = with_commands
        self.leftovers: list[Leftover] = []
        self.hived = job.mapping("extras").mapping("hivedScheduler")
        self.prerequisites = _prerequisites(job)
        self.secrets = job.mapping("secrets").values
        self.shown = self.secrets if reveal_secrets else masked(self.secrets)
        self.parameters = job.mapping("parameters").values
        self.room = MOST_EXPANDED
        self.deployment = _deployment(job)

    def role(self, name: object, fields: Fields) -> TaskRole:
        if not isinstance(name, str) or not _ROLE_NAME.fullmatch(name):
            raise JobError(
                fields.path, "the name of a task role must be letters, digits and _, and must not begin with a digit"
            )
        instances = fields.whole("instances", 1, 1)
        image = self._prerequisite(fields, "dockerImage")
        if image is None:
            raise fields.error("dockerImage", "expected the name of a prerequisite, found nothing")
        return TaskRole(
            name=name,
            instances=instances,
            resources=_resources(fields.required("resourcePerInstance", _RESOURCE_KEYS)),
            image=image.text("uri"),
            commands=self._commands(name, fields) if self.with_commands else (),
            completion=_completion(fields.mapping("completion", _COMPLETION_KEYS), instances),
            retry_count=fields.whole("taskRetryCount", -2, 0),
            wishes=self._wishes(name),
        )

    def _prerequisite(self, fields: Fields, key: str) -> Fields | None:
        name = fields.optional_text(key)
        if name is None:
            return None
        candidates = self.prerequisites[_PREREQUISITES[key]]
        if name not in candidates:
            hint = suggestion(name, candidates, text("prerequisites of type {type}", type=_PREREQUISITES[key]))
            raise fields.error(key, text("no prerequisite {name}", name=name), hint=hint)
        return candidates[name]

    def _commands(self, name: str, fields: Fields) -> tuple[str, ...]:
        """The role's commands between those of the deployment and of plugins, templates filled in."""
        around = self.deployment.mapping(name)
        if not fields.items("commands"):
            raise fields.error("commands", "expected at least one command")
        named = {key: self._prerequisite(fields, key) for key in ("script", "data", "output")}
        values = {"parameters": self.parameters, **{key: fields.values for key, fields in named.items() if fields}}
        real, shown = Values({**values, "secrets": self.secrets}), Values({**values, "secrets": self.shown})
        own = {
            f"{source.at(key)}[{i}]": command
            for source, key in ((around, "preCommands"), (fields, "commands"), (around, "postCommands"))
            for i, command in enumerate(source.texts(key))
        }
        every, callbacks = commands_around(callbacks_of(self.job, name, fields.texts("prerequisites")), own)
        out: list[str] = []
        for path, command in every.items():
            self.room -= max(real.size(command), shown.size(command))  # a mask may be longer than its secret
            if self.room < 0:
                raise too_large(path)
            text, leftovers = shown.render(command, path)
            self.leftovers += leftovers
            text = text.strip()
            out.append(callbacks[path].shell(text) if path in callbacks else text)
        return tuple(out)

    def _wishes(self, name: str) -> HivedExtras:
        """Wishes of one role. The flags stand one level higher, for all roles: rest-server reads them nowhere else."""
        own = self.hived.mapping("taskRoles").mapping(name)
        wishes = HivedExtras(
            sku_type=own.optional_text("skuType"),
            pinned_id=own.optional_text("pinnedCellId"),
            affinity_group=own.optional_text("affinityGroupName"),
            lazy_preemption=self.hived.flag("lazyPreemptionEnable", default=False),
            ignore_suggested=self.hived.flag("ignoreK8sSuggestedNodes", default=True),
        )
        if wishes.sku_type is not None and wishes.pinned_id is not None:
            raise own.error("pinnedCellId", "skuType is given, too; only one of the two is allowed")
        return wishes


def _prerequisites(job: Fields) -> dict[str, dict[str, Fields]]:
    """Prerequisites by type and name."""
    by_type: dict[str, dict[str, Fields]] = {named: {} for named in _PREREQUISITES.values()}
    for i, item in enumerate(job.items("prerequisites")):
        fields = Fields(item, f"prerequisites[{i}]")
        name, type_ = fields.text("name"), fields.text("type")
        if type_ not in by_type:
            raise fields.error("type", text("no type {type}", type=type_), hint=suggestion(type_, by_type, "types"))
        if name in by_type[type_]:
            raise fields.error("name", text("another {type} is called {name} too", type=type_, name=name))
        by_type[type_][name] = fields
    return by_type


def _deployment(job: Fields) -> Fields:
    """Commands by task role of the default deployment; empty if there is none."""
    wanted = job.mapping("defaults").optional_text("deployment")
    by_name: dict[str, Fields] = {}
    for i, item in enumerate(job.items("deployments")):
        fields = Fields(item, f"deployments[{i}]")
        name = fields.text("name")
        if name in by_name:
            raise fields.error("name", text("another deployment is called {name} too", name=name))
        by_name[name] = fields.required("taskRoles")
    if wanted is None:
        return Fields({}, "deployments")
    if wanted not in by_name:
        raise JobError(
            "defaults.deployment",
            text("no deployment {name}", name=wanted),
            hint=suggestion(wanted, by_name, "deployments"),
        )
    return by_name[wanted]


def _resources(fields: Fields) -> Resources:
    resources = Resources(fields.whole("gpu", 0), fields.whole("cpu", 0), fields.whole("memoryMB", 0))
    if resources == Resources(0, 0, 0):
        raise JobError(fields.path, "the task asks for nothing, so no cell can hold it", hint="ask for cpu, at least")
    return resources


def _completion(fields: Fields, instances: int) -> Completion:
    """OpenPAI's defaults: nothing, null and 0 mean 1 for failures and all instances for successes; -1 means never."""

    def read(key: str, default: int) -> int | None:
        count = fields.whole(key, NEVER, 0) or default
        return None if count == NEVER else count

    return Completion(read("minFailedInstances", 1), read("minSucceededInstances", instances))
