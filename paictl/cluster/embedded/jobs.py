"""Jobs that have not ended: what was asked, what became of their tasks, and where the pods run.

`workload.lifecycle` says what follows from what; this module keeps the facts around it (times, places, names) and how
they are written down.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from paictl.cluster.interface import JobRequest, JobState, JobView, TaskView
from paictl.scheduler.decision import BindInfo
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import bind_info_json, read_bind_info
from paictl.units import Millis
from paictl.workload.job import Job
from paictl.workload.lifecycle import JobStatus, State, TaskRef, TaskStatus
from paictl.workload.pods import GroupPlan, JobPlan, Pod
from paictl.workload.template import masked

_STATES = {
    State.WAITING: JobState.WAITING,
    State.RUNNING: JobState.RUNNING,
    State.SUCCEEDED: JobState.SUCCEEDED,
    State.FAILED: JobState.FAILED,
    State.STOPPED: JobState.STOPPED,
}

Place = tuple[str, int]
"""Role and index of a task."""


@dataclass(frozen=True, slots=True)
class Run:
    """A pod that was started: where, since when, until when and why it ended."""

    incarnation: int
    started: Millis
    info: BindInfo
    ended: Millis | None = None
    reason: str = ""


@dataclass(slots=True)
class LiveJob:
    """A job as the cluster knows it; `duration` of each task in milliseconds, None for ever."""

    key: str
    number: int
    data: Mapping[str, Any]
    """Protocol v2 as submitted, secrets masked, with the VC and class that the command line said."""
    job: Job
    plan: JobPlan
    durations: dict[str, Millis | None]
    submitted: Millis
    status: JobStatus
    started: Millis | None = None
    ended: Millis | None = None
    preemptions: int = 0
    runs: dict[Place, Run] = field(default_factory=dict)
    demoted_by: str = ""
    """Who took the guarantee of the job's cells (lazy preemption)."""

    _pods: dict[Place, Pod] = field(init=False, repr=False)
    """First pod of each task."""

    def __post_init__(self) -> None:
        """Index the pods."""
        self._pods = {(pod.role, pod.index): pod for pod in self.plan.pods}

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

    def current(self, task: TaskStatus) -> Run | None:
        """The run of a task's present pod, if it was started."""
        run = self.runs.get((task.role, task.index))
        return run if run is not None and run.incarnation == task.incarnation else None

    # --- for people

    def view(self, *, tasks: bool = True) -> JobView:
        """The job as the interface shows it."""
        return JobView(
            key=self.key,
            vc=self.job.vc,
            priority=self.job.priority_class,
            state=_STATES[self.status.state],
            submitted=self.submitted,
            devices=sum(group.leaves for group in self.plan.groups.values()),
            started=self.started,
            ended=self.ended,
            number=self.number,
            attempt=self.status.attempt,
            preemptions=self.preemptions,
            used=sum(len(run.info.devices) for _, run in self.running()),
            reason=f"runs without guarantee, lazily preempted by {self.demoted_by}" if self.demoted_by else "",
            tasks=tuple(map(self._task, self.status.tasks)) if tasks else (),
        )

    def _task(self, task: TaskStatus) -> TaskView:
        run = self.current(task)
        pod = self.pod(task.ref)
        return TaskView(
            role=task.role,
            index=task.index,
            state=_STATES[task.state].value,
            attempt=task.incarnation,
            pod=pod.name,
            node=run.info.node if run else "",
            devices=run.info.devices if run else (),
            started=run.started if run else None,
            ended=run.ended if run else None,
            reason=run.reason if run else "",
        )

    # --- for the disk

    def dump(self) -> dict[str, Any]:
        """The job as JSON values."""
        status = self.status
        return {
            "key": self.key,
            "number": self.number,
            "data": self.data,
            "plan": dump_plan(self.plan),
            "durations": self.durations,
            "submitted": self.submitted,
            "status": {
                "state": status.state.value, "attempt": status.attempt, "counted": status.counted,
                "tasks": [[t.role, t.index, t.state.value, t.incarnation, t.retries, t.counted] for t in status.tasks],
            },
            "started": self.started,
            "ended": self.ended,
            "preemptions": self.preemptions,
            "runs": [
                [*place, run.incarnation, run.started, bind_info_json(run.info), run.ended, run.reason]
                for place, run in self.runs.items()
            ],
            "demoted_by": self.demoted_by,
        }  # fmt: skip

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> LiveJob:
        """The inverse of `dump`."""
        status = data["status"]
        tasks = tuple(TaskStatus(row[0], row[1], State(row[2]), *row[3:]) for row in status["tasks"])
        return cls(
            key=data["key"],
            number=data["number"],
            data=data["data"],
            job=Job.from_mapping(data["data"]),
            plan=load_plan(data["plan"]),
            durations=data["durations"],
            submitted=Millis(data["submitted"]),
            status=JobStatus(State(status["state"]), tasks, status["attempt"], status["counted"]),
            started=data["started"],
            ended=data["ended"],
            preemptions=data["preemptions"],
            runs={
                (role, index): Run(incarnation, started, read_bind_info(info), ended, reason)
                for role, index, incarnation, started, info, ended, reason in data["runs"]
            },
            demoted_by=data["demoted_by"],
        )


def dump_view(view: JobView) -> dict[str, Any]:
    """A view without tasks as JSON values."""
    return asdict(view)


def view_from(data: Mapping[str, Any]) -> JobView:
    """The inverse of `dump_view`."""
    return JobView(**{**data, "state": JobState(data["state"]), "tasks": ()})


def dump_plan(plan: JobPlan) -> dict[str, Any]:
    """A plan as JSON values; kept because the configuration it was made with may change while the job runs."""
    return {
        "job": plan.job, "user": plan.user, "vc": plan.vc, "priority": plan.priority, "gang": plan.gang,
        "groups": [asdict(group) for group in plan.groups.values()],
        "pods": [[pod.name, pod.uid, pod.role, pod.index, pod.leaf_number, pod.group] for pod in plan.pods],
    }  # fmt: skip


def load_plan(data: Mapping[str, Any]) -> JobPlan:
    """The inverse of `dump_plan`."""
    groups = [GroupPlan(**{**row, "members": tuple(map(tuple, row["members"]))}) for row in data["groups"]]
    return JobPlan(
        data["job"], data["user"], data["vc"], data["priority"], data["gang"],
        {group.name: group for group in groups}, tuple(Pod(*row) for row in data["pods"]),
    )  # fmt: skip


def with_wishes(job: Job, vc: str | None, priority: str | None) -> Job:
    """The job with the virtual cluster and priority class of the command line."""
    return replace(job, vc=vc or job.vc, priority_class=priority or job.priority_class)


def as_taken(request: JobRequest, job: Job) -> dict[str, Any]:
    """The job's data as it is kept: secrets masked, VC and class as the command line said."""
    data = dict(request.data)
    secrets = data.get("secrets")
    if isinstance(secrets, Mapping):
        data["secrets"] = masked(secrets)
    defaults = {**_mapping(data.get("defaults")), "virtualCluster": job.vc}
    extras = _mapping(data.get("extras"))
    hived = {**_mapping(extras.get("hivedScheduler")), "jobPriorityClass": job.priority_class}
    return {**data, "defaults": defaults, "extras": {**extras, "hivedScheduler": hived}}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}
