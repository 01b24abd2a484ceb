"""Jobs that have not ended: what was asked, what became of their tasks, where the pods run; and all of it as JSON.

`workload.lifecycle` says what follows from what; this module keeps the facts around it: times, places, names. How a job
is shown is in `views`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from paictl.cluster.admission import admit_all, as_admitted, durations_of
from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.embedded.services import READERS, Configurations
from paictl.cluster.interface import EventKind, JobRequest
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import bind_info_json, isolation_text, read_bind_info
from paictl.units import Millis
from paictl.workload import lifecycle
from paictl.workload.fields import JobError
from paictl.workload.job import Job
from paictl.workload.lifecycle import JobStatus, PodChange, RunState, TaskRef, TaskStatus
from paictl.workload.pods import GroupPlan, JobPlan, Pod, RolePlan

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine

Place = tuple[str, int]
"""Role and index of a task."""


@frozen
class Run:
    """A pod that was started: where, since when, until when and why it ended."""

    incarnation: int
    started: Millis
    info: BindInfo
    ended: Millis | None = None
    reason: str = ""
    isolation: str = ""
    """What its containers get where devices are MIG instances (`TaskView.isolation`)."""


def isolation_of(engine: Engine | None, info: BindInfo) -> str:
    """What the containers of a pod get that a scheduler has placed where devices are MIG instances, else empty."""
    instances = 0 if engine is None else engine.spec.mig_instances(info.chain)
    return isolation_text(info.devices, instances) if instances else ""


@frozen
class TaskRepair:
    """A task that was lost while the others of its gang kept running; `back` once it runs again, on `node`."""

    role: str
    index: int
    lost: Millis
    before: str
    reason: str
    back: Millis | None = None
    node: str = ""


KEPT_REPAIRS: Final = 50
"""Repairs of a job that are kept, the last ones."""


@dataclass(slots=True)
class LiveJob:
    """A job as the cluster knows it; `duration` of each task in milliseconds, None for ever."""

    key: str
    number: int
    data: Mapping[str, Any]
    """Protocol v2 as submitted, secrets masked, with the VC and class that the command line said."""
    plan: JobPlan
    """With the job as read from `data`; once it was stored, without commands, of which every look would read all."""
    pods: tuple[Pod, ...]
    """The first of each task."""
    durations: dict[str, Millis | None]
    submitted: Millis
    status: JobStatus
    started: Millis | None = None
    ended: Millis | None = None
    preemptions: int = 0
    runs: dict[Place, Run] = field(default_factory=dict)
    demoted_by: str = ""
    """Who took the guarantee of the job's cells (lazy preemption)."""
    stopped_for: str = ""
    """Why the cluster stopped the job, where its user did not."""
    repairs: list[TaskRepair] = field(default_factory=list)
    """What was lost and came again while the others kept running, the last ones."""
    tags: tuple[str, ...] = ()
    """By what people find it again, as they are now."""

    groups: dict[str, GroupPlan] = field(init=False, repr=False)
    """By name, as the scheduler knows them."""
    _pods: dict[Place, Pod] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the pods and their groups."""
        self._pods = {(pod.role, pod.index): pod for pod in self.pods}
        self.groups = {pod.group.name: pod.group for pod in self.pods}

    @property
    def job(self) -> Job:
        """What its user wants."""
        return self.plan.job

    def pod(self, ref: TaskRef) -> Pod:
        """The pod of a task."""
        return self._pods[ref.role, ref.index].restarted(ref.incarnation)

    def request(self, ref: TaskRef) -> PodRequest:
        """What the scheduler is asked for a task."""
        return self.plan.request(self.pod(ref))

    def running(self) -> Iterator[tuple[TaskRef, Run]]:
        """The pods that run now."""
        for task in self.status.tasks:
            run = self.runs.get((task.role, task.index))
            if run is not None and run.incarnation == task.incarnation and run.ended is None:
                yield task.ref, run

    def note_lost(self, ref: TaskRef, at: Millis, reason: str) -> None:
        """A task is lost, and only it starts again."""
        run = self.runs.get((ref.role, ref.index))
        self.repairs.append(TaskRepair(ref.role, ref.index, at, run.info.node if run else "", reason))
        del self.repairs[:-KEPT_REPAIRS]

    def note_back(self, ref: TaskRef, at: Millis, node: str) -> TaskRepair | None:
        """A task runs; returns its repair if that is what it waited for."""
        for position, known in enumerate(self.repairs):
            if (known.role, known.index, known.back) == (ref.role, ref.index, None):
                self.repairs[position] = done = replace(known, back=at, node=node)
                return done
        return None

    def current(self, task: TaskStatus) -> Run | None:
        """The run of a task's present pod, if it was started."""
        run = self.runs.get((task.role, task.index))
        return run if run is not None and run.incarnation == task.incarnation else None


def repairs_on(node: str, jobs: Iterable[LiveJob]) -> bool:
    """Whether pods run on a node that are replaced alone if they are lost."""
    return any(run.info.node == node for job in jobs if job.job.repairs for _, run in job.running())


# --- what is to come of them, and what the job controller is to learn


class Timer(NamedTuple):
    """Something that will happen: a pod ends, a month begins, a minimum run time is over, a start promised for
    `detail` comes, pods of a failed node or of bad devices are given up (earlier those whose gangs are repaired), or
    a job that began at `detail` comes to its limit."""

    kind: str
    subject: str
    detail: int = 0


@frozen
class NewJob:
    """The job controller is to learn of a job that was submitted."""

    key: str


@frozen
class PodNews:
    """The job controller is to learn what happened to a pod of a job."""

    key: str
    ref: TaskRef
    what: PodChange


Notice: TypeAlias = NewJob | PodNews


ENDS: Final[Mapping[PodChange, EventKind]] = {
    PodChange.SUCCEEDED: EventKind.FINISHED,
    PodChange.PREEMPTED: EventKind.PREEMPTED,
    PodChange.LOST: EventKind.LOST,
}
"""How the end of a pod is told."""


# --- their beginning


def admitted(requests: Sequence[JobRequest], configuration: ConfigSnapshot, now: Millis) -> list[LiveJob]:
    """The jobs as they begin, without numbers yet; raises as `admission.admit_all` does."""
    return [
        LiveJob(
            key=plan.key,
            number=0,
            data=as_admitted(request, plan.job),
            plan=plan,
            pods=plan.pods(),
            durations=durations_of(plan.job, request.duration),
            submitted=now,
            status=lifecycle.submit(plan.job).status,
            tags=plan.job.tags,
        )
        for request, plan in zip(requests, admit_all(requests, configuration), strict=True)
    ]


def take(requests: Sequence[JobRequest], configs: Configurations, version: int | None, now: Millis) -> list[LiveJob]:
    """The jobs as they begin, by a version of the configuration; raises as `admitted` does.

    A refusal says so where the newest version, which is not loaded yet, would take them.
    """
    try:
        return admitted(requests, configs.get(version), now)
    except JobError as error:
        newest = configs.newest
        if newest not in (0, version) and _would_take(requests, configs.get(newest), now):
            services = " ".join(f"-n {name}" for name in READERS)
            error.hint = (
                f"version {newest} of the configuration would take it, but is not loaded: "
                f"paictl service refresh {services}"
            )
        raise


def _would_take(requests: Sequence[JobRequest], configuration: ConfigSnapshot, now: Millis) -> bool:
    try:
        admitted(requests, configuration, now)
    except PaictlError:
        return False
    return True


# --- as JSON


def dump_job(job: LiveJob) -> dict[str, Any]:
    """The job as JSON values."""
    status = job.status
    return {
        "key": job.key,
        "number": job.number,
        "data": job.data,
        "plan": _dump_plan(job),
        "durations": job.durations,
        "submitted": job.submitted,
        "status": {
            "state": status.state.value,
            "attempt": status.attempt,
            "counted": status.counted,
            "tasks": [[t.role, t.index, t.state.value, t.incarnation, t.retries, t.counted] for t in status.tasks],
        },
        "started": job.started,
        "ended": job.ended,
        "preemptions": job.preemptions,
        "runs": [
            [
                *place,
                run.incarnation,
                run.started,
                bind_info_json(run.info),
                run.ended,
                run.reason,
                *([run.isolation] if run.isolation else []),
            ]
            for place, run in job.runs.items()
        ],
        "demoted_by": job.demoted_by,
        **({"stopped_for": job.stopped_for} if job.stopped_for else {}),
        **({"repairs": [astuple(repair) for repair in job.repairs]} if job.repairs else {}),
        **({"tags": list(job.tags)} if job.tags else {}),
    }


def load_job(data: Mapping[str, Any]) -> LiveJob:
    """The inverse of `dump_job`."""
    status = data["status"]
    tasks = tuple(TaskStatus(row[0], row[1], RunState(row[2]), *row[3:]) for row in status["tasks"])
    job = Job.from_mapping(_in_order(data["data"], tasks), with_commands=False)
    plan, pods = _load_plan(job, data["plan"])
    return LiveJob(
        key=data["key"],
        number=data["number"],
        data=data["data"],
        plan=plan,
        pods=pods,
        durations=data["durations"],
        submitted=Millis(data["submitted"]),
        status=JobStatus(RunState(status["state"]), tasks, status["attempt"], status["counted"]),
        started=data["started"],
        ended=data["ended"],
        preemptions=data["preemptions"],
        runs={
            (role, index): Run(incarnation, started, read_bind_info(info), ended, reason, *isolation)
            for role, index, incarnation, started, info, ended, reason, *isolation in data["runs"]
        },
        demoted_by=data["demoted_by"],
        stopped_for=data.get("stopped_for", ""),
        repairs=[TaskRepair(*row) for row in data.get("repairs", ())],
        tags=tuple(data.get("tags", ())),
    )


def _in_order(data: Mapping[str, Any], tasks: Iterable[TaskStatus]) -> Mapping[str, Any]:
    """A job with its task roles in the order of its tasks: earlier versions stored them in that of the alphabet."""
    roles = data["taskRoles"]
    return {**data, "taskRoles": {**{task.role: roles[task.role] for task in tasks}, **roles}}


def _dump_plan(job: LiveJob) -> dict[str, Any]:
    """The plan of a job as JSON values; kept because the configuration that it was made with may change as it runs."""
    plan = job.plan
    return {
        "job": plan.job.name,
        "user": plan.user,
        "vc": plan.job.vc,
        "priority": plan.job.priority,
        "gang": plan.job.gang,
        "groups": [asdict(group) for group in job.groups.values()],
        "pods": [[pod.name, pod.uid, pod.role, pod.index, pod.leaf_number, pod.group.name] for pod in job.pods],
    }


def _load_plan(job: Job, data: Mapping[str, Any]) -> tuple[JobPlan, tuple[Pod, ...]]:
    """The inverse of `_dump_plan`."""
    rows = ({**row, "members": tuple(map(tuple, row["members"]))} for row in data["groups"])
    groups = {row["name"]: GroupPlan(**row) for row in rows}
    pods = tuple(
        Pod(name, uid, role, index, leaves, groups[group]) for name, uid, role, index, leaves, group in data["pods"]
    )
    tasks = Counter(pod.role for pod in pods)
    roles = tuple(
        RolePlan(pod.role, tasks[pod.role], pod.leaf_number, pod.name.rpartition("-")[0], pod.group)
        for pod in pods
        if pod.index == 0
    )
    return JobPlan(job, data["user"], roles), pods
