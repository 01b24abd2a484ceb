"""What becomes of a job when its tasks start and end: a pure state machine, driven by tables.

Status in, event in; new status and the pods to kill and to start out. Nothing here knows time or places.

Source: FrameworkController's `RetryPolicySpec` and `CompletionPolicySpec`, as OpenPAI's rest-server fills them in
(`models/v2/job/k8s.js`). In its words a *transient* end is one that is not the task's own doing. Two choices
are ours: of conditions that are met at once failure comes first, and then the order of the roles (the original
leaves it open); and a gang that loses a pod to preemption or to its node always starts again as a whole, even where its
completion policy tolerates failed tasks (the original then counts the preempted tasks as failed, and a job whose
``minFailedInstances`` is -1 has "succeeded" once all of its tasks were preempted). With ``extras.restart: member``
only the task starts again whose pod was lost; preemption takes the whole gang all the same (`docs/repair.md`).
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paictl.workload.job import Completion, Job, TaskRole


class RunState(StrEnum):
    """Of a task or a job."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    """Of a job: by its user. Of a task: because the job was over without it."""

    @property
    def final(self) -> bool:
        """Whether nothing follows."""
        return self not in LIVE


LIVE: Final = (RunState.WAITING, RunState.RUNNING)


class PodChange(StrEnum):
    """What may happen to a pod."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It ended by itself with an error."""
    PREEMPTED = "preempted"
    LOST = "lost"
    """Its node went away, or it was deleted."""


TRANSIENT: Final = frozenset({PodChange.PREEMPTED, PodChange.LOST})

_TASK: Final = {
    (RunState.WAITING, PodChange.STARTED): RunState.RUNNING,
    (RunState.WAITING, PodChange.FAILED): RunState.FAILED,
    (RunState.WAITING, PodChange.PREEMPTED): RunState.FAILED,
    (RunState.WAITING, PodChange.LOST): RunState.FAILED,
    (RunState.RUNNING, PodChange.SUCCEEDED): RunState.SUCCEEDED,
    (RunState.RUNNING, PodChange.FAILED): RunState.FAILED,
    (RunState.RUNNING, PodChange.PREEMPTED): RunState.FAILED,
    (RunState.RUNNING, PodChange.LOST): RunState.FAILED,
}
"""Where a task goes if it is not retried. What is not listed changes nothing: events may come twice."""


@frozen
class TaskRef:
    """One pod of a task: `incarnation` counts the pods that the task had before."""

    role: str
    index: int
    incarnation: int


@frozen
class TaskStatus:
    """One task. `retries` and `counted` belong to the job's present attempt; `counted` are held against the limit."""

    role: str
    index: int
    state: RunState = RunState.WAITING
    incarnation: int = 0
    retries: int = 0
    counted: int = 0

    @property
    def ref(self) -> TaskRef:
        """The task's present pod."""
        return TaskRef(self.role, self.index, self.incarnation)


@frozen
class JobStatus:
    """A job and its tasks, in the order of the file. `attempt` counts from 0."""

    state: RunState
    tasks: tuple[TaskStatus, ...]
    attempt: int = 0
    counted: int = 0
    """Attempts that were held against ``jobRetryCount``."""


@frozen
class Transition:
    """What follows from an event: the new status, pods to kill (first) and pods to start, in order."""

    status: JobStatus
    kill: tuple[TaskRef, ...] = ()
    start: tuple[TaskRef, ...] = ()


class RetryVerdict(StrEnum):
    """Of a retry policy."""

    FINAL = "final"
    RETRY = "retry"
    RETRY_COUNTED = "retry, counted"


@frozen
class RetryPolicy:
    """When to try again. `limit` counts retries; -1: after any failure; -2: after success, too."""

    limit: int
    free_if_transient: bool
    """Whether a transient end is always retried, without counting."""

    @property
    def endless(self) -> bool:
        """Whether every end is followed by a retry."""
        return self.limit == -2

    def verdict(self, end: PodChange, counted: int) -> RetryVerdict:
        """What follows an end after `counted` retries."""
        if self.free_if_transient and end in TRANSIENT:
            return RetryVerdict.RETRY
        failed = end is not PodChange.SUCCEEDED
        if self.endless or (failed and (self.limit == -1 or counted < self.limit)):
            return RetryVerdict.RETRY_COUNTED
        return RetryVerdict.FINAL


_AFTER: Final = {RetryVerdict.RETRY: 0, RetryVerdict.RETRY_COUNTED: 1}
"""What a retry adds to the count."""


def submit(job: Job) -> Transition:
    """The first status of a job: all tasks wait, and all of their pods are to be started."""
    tasks = tuple(TaskStatus(role.name, index) for role in job.roles for index in range(role.instances))
    return Transition(JobStatus(RunState.WAITING, tasks), start=tuple(task.ref for task in tasks))


def advance(job: Job, status: JobStatus, pod: TaskRef, what: PodChange) -> Transition:
    """What follows from something happening to a pod.

    Nothing does if the job is over, if the pod is not its task's present one, or if it has ended already.
    """
    position = _position(job, pod)
    if status.state.final:
        return Transition(status)
    tasks = list(status.tasks)
    step = _step(job, tasks, position, pod, what)
    if step is _Step.NOTHING:
        return Transition(status)
    status = replace(status, tasks=tuple(tasks), state=_live_state(status, tasks[position]))
    if step is _Step.AGAIN:
        return Transition(status, start=(tasks[position].ref,))
    end = what if what in TRANSIENT else _outcome(job.roles, _counted(tasks))
    return Transition(status) if step is _Step.STARTED or end is None else _end_attempt(job, status, end)


def catch_up(job: Job, status: JobStatus, news: Iterable[tuple[TaskRef, PodChange]]) -> JobStatus:
    """The status after all that was seen to happen to pods, in order; the same as to `advance` once for each.

    For a controller that looks at what there is, and at thousands of pods at once: it costs as much as there are news
    and tasks, not their product. Pods to kill and to start follow from the status: those of the present incarnations
    are wanted, all others are not.
    """
    tasks = list(status.tasks)
    counts = _counted(tasks)
    for pod, what in news:
        if status.state.final:
            break
        position = _position(job, pod)
        before = tasks[position].state
        step = _step(job, tasks, position, pod, what)
        if step is _Step.NOTHING:
            continue
        after = tasks[position].state
        counts[pod.role, before] -= 1
        counts[pod.role, after] = counts.get((pod.role, after), 0) + 1
        status = replace(status, state=_live_state(status, tasks[position]))
        if step is not _Step.ENDED:
            continue
        end = what if what in TRANSIENT else _outcome(job.roles, counts)
        if end is not None:
            status = _end_attempt(job, replace(status, tasks=tuple(tasks)), end).status
            tasks = list(status.tasks)
            counts = _counted(tasks)
    return replace(status, tasks=tuple(tasks))


class _Step(Enum):
    """What an event means to a task."""

    NOTHING = 0
    STARTED = 1
    AGAIN = 2
    """Its next pod is to be started."""
    ENDED = 3


def _step(job: Job, tasks: list[TaskStatus], position: int, pod: TaskRef, what: PodChange) -> _Step:
    """Put the task's next status into the list, and say what kind of step that was."""
    task = tasks[position]
    after = _TASK.get((task.state, what))
    if task.incarnation != pod.incarnation or after is None:
        return _Step.NOTHING
    if what is PodChange.STARTED:
        tasks[position] = replace(task, state=after)
        return _Step.STARTED
    repaired = job.repairs and what is PodChange.LOST
    verdict = RetryVerdict.RETRY if repaired else task_policy(job, pod.role).verdict(what, task.counted)
    if verdict is RetryVerdict.FINAL:
        tasks[position] = replace(task, state=after)
        return _Step.ENDED
    tasks[position] = replace(
        task,
        state=RunState.WAITING,
        incarnation=task.incarnation + 1,
        retries=task.retries + 1,
        counted=task.counted + _AFTER[verdict],
    )
    return _Step.AGAIN


def counted_retries(job: Job, status: JobStatus, pod: TaskRef) -> int:
    """How often the task of a pod was started again because it had ended by itself."""
    return status.tasks[_position(job, pod)].counted


def stop(status: JobStatus) -> Transition:
    """The user stops the job; nothing follows if it is over."""
    if status.state.final:
        return Transition(status)
    return _close(status, RunState.STOPPED)


def _position(job: Job, pod: TaskRef) -> int:
    """Place of a pod's task in the status; raises `KeyError` if the job has no such task."""
    start = 0
    for role in job.roles:
        if role.name == pod.role:
            if not 0 <= pod.index < role.instances:
                break
            return start + pod.index
        start += role.instances
    raise KeyError(f"job {job.name} has no task {pod.role}[{pod.index}]")


def _live_state(status: JobStatus, task: TaskStatus) -> RunState:
    """Of the job once a task has changed: it runs from the first start of a pod in an attempt on."""
    ran = status.state is RunState.RUNNING or task.state is not RunState.WAITING
    return RunState.RUNNING if ran else RunState.WAITING


def task_policy(job: Job, name: str) -> RetryPolicy:
    """OpenPAI never retries a single task of a gang, and takes notice of its retry count only without gangs."""
    if job.gang:
        return RetryPolicy(0, free_if_transient=False)
    return RetryPolicy(next(role.retry_count for role in job.roles if role.name == name), free_if_transient=True)


def _counted(tasks: Iterable[TaskStatus]) -> dict[tuple[str, RunState], int]:
    """Tasks by role and state."""
    counts: dict[tuple[str, RunState], int] = {}
    for task in tasks:
        counts[task.role, task.state] = counts.get((task.role, task.state), 0) + 1
    return counts


def _outcome(roles: Iterable[TaskRole], counts: Mapping[tuple[str, RunState], int]) -> PodChange | None:
    """How the attempt has ended by the roles' completion policies, None if it continues."""
    policies: list[tuple[str, Completion]] = [(role.name, role.completion) for role in roles]
    for name, policy in policies:
        if policy.min_failed is not None and counts.get((name, RunState.FAILED), 0) >= policy.min_failed:
            return PodChange.FAILED
    for name, policy in policies:
        if policy.min_succeeded is not None and counts.get((name, RunState.SUCCEEDED), 0) >= policy.min_succeeded:
            return PodChange.SUCCEEDED
    over = all(state.final for (_, state), number in counts.items() if number)
    return PodChange.SUCCEEDED if over else None


def _end_attempt(job: Job, status: JobStatus, end: PodChange) -> Transition:
    """The job is over, or starts again from the beginning; progress is lost."""
    verdict = RetryPolicy(job.retry_count, free_if_transient=True).verdict(end, status.counted)
    if verdict is RetryVerdict.FINAL:
        return _close(status, RunState.SUCCEEDED if end is PodChange.SUCCEEDED else RunState.FAILED)
    kill = tuple(task.ref for task in status.tasks if not task.state.final)
    tasks = tuple(TaskStatus(task.role, task.index, incarnation=task.incarnation + 1) for task in status.tasks)
    again = JobStatus(RunState.WAITING, tasks, status.attempt + 1, status.counted + _AFTER[verdict])
    return Transition(again, kill, tuple(task.ref for task in tasks))


def _close(status: JobStatus, state: RunState) -> Transition:
    kill = tuple(task.ref for task in status.tasks if not task.state.final)
    tasks = tuple(task if task.state.final else replace(task, state=RunState.STOPPED) for task in status.tasks)
    return Transition(replace(status, state=state, tasks=tasks), kill)
