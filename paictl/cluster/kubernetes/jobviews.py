"""Jobs of Kubernetes as the interface shows them, and their life as events: from records and pods.

Nothing else is kept: of attempts before the present one of a job with many tasks it is known when they ended and why,
not what each task did. Pods say only the second in which they began and ended, so what happened within one is put in
the order in which it must have been: jobs come, runs end, and then others begin. Numbers ascend with time and stay the
same, save among events of one and the same second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from enum import IntEnum
from typing import Any, Final

from paictl.cluster.jobwords import STATES, alike
from paictl.cluster.kubernetes.paijob.record import AttemptLine, JobRecord, LastRun, Place, RepairLine
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.paijob.summaries import PREEMPTED_BY, PodSummary, newest_of
from paictl.cluster.values import Event, EventKind, JobState, JobView, MemberRepair, TaskView
from paictl.frozen import frozen
from paictl.scheduler.wire import isolation_text
from paictl.workload.lifecycle import PodChange, RunState, TaskStatus

NOT_SEEN: Final = "the job controller has not handled it yet: paictl service status -n frameworkcontroller"
DAMAGED: Final = "its status cannot be read: it was edited by hand or written by a newer paictl"


def in_order(jobs: Iterable[PaiJob]) -> list[PaiJob]:
    """Jobs in order of submission."""
    return sorted(jobs, key=lambda job: (job.submitted, job.order))


def has_ended(pai: PaiJob) -> bool:
    """Whether the view of a job would say that it has ended."""
    return pai.stopped if pai.record is None else pai.record.status.state.final


def view_of(pai: PaiJob, pods: Iterable[PodSummary], number: int = 0, *, tasks: bool = True) -> JobView:
    """A job; `pods` are those of it that are there, `number` its place in the order of submission."""
    record = pai.record
    present = present_pods(pai, pods)
    view = JobView(
        key=pai.key,
        vc=pai.vc,
        priority=pai.priority,
        state=JobState.WAITING,
        submitted=pai.submitted,
        devices=pai.asked,
        number=number,
        pod=alike(pai.sizes),
        reason=DAMAGED if pai.damaged else NOT_SEEN,
        tags=pai.tags,
    )
    if record is None:
        return replace(view, state=JobState.STOPPED, reason="") if pai.stopped else view
    return replace(
        view,
        state=STATES[record.status.state],
        started=record.started,
        ended=record.ended,
        attempt=record.status.attempt,
        preemptions=record.preemptions,
        used=sum(len(pod.devices) for pod in present.values() if pod.node and not pod.over),
        reason=record.reason,
        tasks=tuple(_tasks(record, present)) if tasks else (),
        max_run_time=record.max_run_time,
        repairs=tuple(
            MemberRepair(repair.role, repair.index, repair.lost, repair.before, repair.reason, repair.back, repair.node)
            for repair in record.repairs
        ),
    )


def present_pods(pai: PaiJob, pods: Iterable[PodSummary]) -> Mapping[Place, PodSummary]:
    """The newest pod of each task in the present attempt."""
    attempt = pai.record.status.attempt if pai.record is not None else 0
    return newest_of((pod for pod in pods if pod.owner == pai.uid), attempt)


def _tasks(record: JobRecord, present: Mapping[Place, PodSummary]) -> Iterator[TaskView]:
    for task in record.status.tasks:
        place = (task.role, task.index)
        pod = present.get(place)
        run = record.runs.get(place) or (pod.run if pod is not None else LastRun(""))
        yield _task(task, run, pod)


def _task(task: TaskStatus, run: LastRun, pod: PodSummary | None) -> TaskView:
    waits = task.state is RunState.WAITING
    return TaskView(
        role=task.role,
        index=task.index,
        state=STATES[task.state].value,
        attempt=task.incarnation,
        pod=pod.name if pod else "",
        node=run.node,
        devices=run.devices,
        started=None if waits else run.started,
        ended=None if waits else run.ended,
        reason=(pod.reason if pod else "") if waits else run.reason,
        isolation=run.isolation,
    )


SECOND: Final = 1_000_000
"""Numbers that are kept for each second."""
_ENDS: Final = {
    JobState.SUCCEEDED: EventKind.SUCCEEDED,
    JobState.FAILED: EventKind.FAILED,
    JobState.STOPPED: EventKind.STOPPED,
}
_PAST: Final = {
    PodChange.SUCCEEDED: EventKind.FINISHED,
    PodChange.FAILED: EventKind.FAILED,
    PodChange.PREEMPTED: EventKind.PREEMPTED,
    PodChange.LOST: EventKind.LOST,
}
"""How a run of an attempt that is over ended; else it was killed."""
_TASKS: Final = {
    JobState.SUCCEEDED.value: EventKind.FINISHED,
    JobState.FAILED.value: EventKind.FAILED,
    JobState.STOPPED.value: EventKind.KILLED,
}


class _Turn(IntEnum):
    """What comes before what within a second."""

    COMES = 0
    ENDS = 1
    """A run that began before this second ends."""
    OVER = 2
    """So does its attempt, or the job."""
    BEGINS = 3
    ENDS_AT_ONCE = 4
    OVER_AT_ONCE = 5


@frozen
class _Row:
    """An event of the job of a `place` in the order of submission."""

    at: datetime
    turn: _Turn
    place: int
    kind: EventKind
    key: str
    message: str
    data: dict[str, Any] = field(default_factory=dict)
    role: str = ""
    index: int = 0

    @property
    def order(self) -> tuple[int, int, datetime, int, str, int]:
        """Where it stands among the others."""
        return _second(self.at), self.turn, self.at, self.place, self.role, self.index


def _second(at: datetime) -> int:
    return int(at.timestamp())


def events_of(jobs: Sequence[PaiJob], pods: Mapping[str, Iterable[PodSummary]]) -> list[Event]:
    """The events of jobs in the order of their submission; `pods` by the name of the job's object."""
    rows = [row for place, pai in enumerate(jobs) for row in _rows(place, pai, pods.get(pai.name, ()))]
    events: list[Event] = []
    second, within = 0, 0
    for row in sorted(rows, key=lambda row: row.order):
        now = _second(row.at)
        second, within = (now, 0) if now != second else (second, within + 1)
        at = max(row.at, events[-1].at) if events else row.at
        events.append(Event(now * SECOND + within, at, row.kind, f"job/{row.key}", row.message, row.data))
    return events


def _rows(place: int, pai: PaiJob, pods: Iterable[PodSummary]) -> Iterator[_Row]:
    view = view_of(pai, pods)
    data: dict[str, Any] = {"vc": view.vc, "priority": view.priority}
    if pai.record is not None:
        tasks: dict[str, int] = {}
        for task in pai.record.status.tasks:
            tasks[task.role] = tasks.get(task.role, 0) + 1
        data["tasks"] = tasks
        for line in pai.record.attempts:
            yield from _of_attempt(place, pai.key, line)
        for repair in pai.record.repairs:
            yield from _of_repair(place, pai.key, repair)
    submitted = f"to {view.vc} as {view.priority}"
    yield _Row(view.submitted, _Turn.COMES, place, EventKind.SUBMITTED, pai.key, submitted, data)
    for shown in view.tasks:
        yield from _of_task(place, pai.key, shown, view.ended)
    if view.ended is not None and view.state in _ENDS:
        turn = _turn(_Turn.OVER, view.ended, (task.started for task in view.tasks))
        yield _Row(view.ended, turn, place, _ENDS[view.state], pai.key, view.reason)


def _turn(turn: _Turn, at: datetime, starts: Iterable[datetime | None]) -> _Turn:
    """The turn of an end: a later one if what ends began in the same second."""
    at_once = any(start is not None and _second(start) == _second(at) for start in starts)
    return _Turn(turn + _Turn.ENDS_AT_ONCE - _Turn.ENDS) if at_once else turn


def _of_attempt(place: int, key: str, line: AttemptLine) -> Iterator[_Row]:
    """An attempt that is over: what its tasks did, if that is known, and that another follows."""
    for (role, index), run in sorted(line.runs.items()):
        if run.started is None:
            continue
        pod = {"role": role, "index": index, "attempt": line.number}
        yield _started(place, key, pod, run.started, run)
        kind = _PAST[PodChange(run.what)] if run.what in _PAST else EventKind.KILLED
        at = max(run.started, min(run.ended or line.ended, line.ended))
        more = {"by": run.reason.removeprefix(PREEMPTED_BY)} if run.reason.startswith(PREEMPTED_BY) else {}
        yield _ended(place, key, {**pod, "reason": run.reason, **more}, at, run.started, kind)
    again = f"starts again from the beginning, attempt {line.number + 2}"
    message = f"{again}: {line.reason}" if line.reason else again
    turn = _turn(_Turn.OVER, line.ended, (run.started for run in line.runs.values()))
    yield _Row(
        line.ended, turn, place, EventKind.RETRIED, key, message, {"next": line.number + 2, "reason": line.reason}
    )


def _of_repair(place: int, key: str, line: RepairLine) -> Iterator[_Row]:
    """A task that was lost and replaced alone, as far as it has been."""
    pod: dict[str, Any] = {"role": line.role, "index": line.index}
    yield _ended(place, key, {**pod, "reason": line.reason}, line.lost, line.lost, EventKind.LOST)
    if line.back is not None:
        seconds = (line.back - line.lost).total_seconds()
        data = {**pod, "node": line.node, "before": line.before, "seconds": seconds}
        where = f"{line.node} instead of {line.before}" if line.before not in (None, "", line.node) else line.node
        message = f"{line.role}[{line.index}] runs on {where}, {seconds:g} s after it was lost"
        yield _Row(line.back, _Turn.ENDS_AT_ONCE, place, EventKind.REPAIRED, key, message, data, line.role, line.index)


def _of_task(place: int, key: str, task: TaskView, over: datetime | None) -> Iterator[_Row]:
    if task.started is None:
        return
    pod = {"role": task.role, "index": task.index, "attempt": task.attempt}
    yield _started(place, key, pod, task.started, task)
    kind = _TASKS.get(task.state)
    if kind is not None:
        at = max(task.ended or over or task.started, task.started)
        yield _ended(place, key, {**pod, "reason": task.reason}, at, task.started, kind)


def _started(place: int, key: str, pod: Mapping[str, Any], at: datetime, run: LastRun | TaskView) -> _Row:
    devices = run.isolation or isolation_text(run.devices)
    message = f"{pod['role']}[{pod['index']}] runs on {run.node}, devices {devices}"
    data = {**pod, "node": run.node, "devices": list(run.devices)}
    if run.isolation:
        data["isolation"] = run.isolation
    return _Row(at, _Turn.BEGINS, place, EventKind.STARTED, key, message, data, pod["role"], pod["index"])


def _ended(place: int, key: str, data: dict[str, Any], at: datetime, started: datetime, kind: EventKind) -> _Row:
    name = f"{data['role']}[{data['index']}]"
    message = f"{name}: {data['reason']}" if data["reason"] else name
    return _Row(at, _turn(_Turn.ENDS, at, [started]), place, kind, key, message, data, data["role"], data["index"])
