"""What happened to every task, told by the events alone.

An attempt begins with ``Started`` and ends with ``Finished``, ``Failed``, ``Preempted``, ``Lost`` or ``Killed``, all of
which name the task (role, index, attempt) in their data. A pod that is killed because its gang starts again shares the
fate of the one that brought the gang down: whoever looks at the picture wants to see a preempted job, not one
preempted pod among stopped ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from paictl.cluster.picture import Attempt, JobLine, NodeMark, TaskLine, Timeline
from paictl.cluster.values import ENDS, AttemptOutcome, Event, EventKind

_FALLS: Final = (AttemptOutcome.PREEMPTED, AttemptOutcome.LOST, AttemptOutcome.FAILED)
"""Ends that bring a gang down."""
_NOTES: Final = (EventKind.DEMOTED, EventKind.RETRIED)
_OVER: Final = (EventKind.SUCCEEDED, EventKind.FAILED, EventKind.STOPPED)

Task = tuple[str, int]


@dataclass(slots=True)
class _Task:
    """A task on the way through the events; `since` is when it began to wait, None while it does not."""

    since: datetime | None
    start: Event | None = None
    attempts: list[Attempt] = field(default_factory=list)
    waits: list[tuple[datetime, datetime | None]] = field(default_factory=list)


@dataclass(slots=True)
class _Job:
    """A job on the way through the events; `fall` is the last end that can have brought its gang down."""

    submitted: datetime
    tasks: dict[Task, _Task] = field(default_factory=dict)
    notes: list[tuple[datetime, str]] = field(default_factory=list)
    fall: tuple[datetime, AttemptOutcome, str] | None = None

    def task(self, event: Event) -> _Task:
        """The task that an event is about."""
        place = (str(event.data["role"]), int(event.data["index"]))
        return self.tasks.setdefault(place, _Task(self.submitted))


def timeline(events: Iterable[Event], now: datetime) -> Timeline:
    """The timeline of all jobs of which the submission is among `events` (in order), as it is at `now`."""
    jobs: dict[str, _Job] = {}
    marks: list[NodeMark] = []
    for event in events:
        kind, _, name = event.subject.partition("/")
        if kind == "node":
            marks.append(NodeMark(event.at, name, event.kind))
        elif kind == "job" and event.kind is EventKind.SUBMITTED:
            jobs[name] = _submitted(event)
        elif kind == "job" and name in jobs:
            _tell(jobs[name], event)
    return Timeline(tuple(_line(key, job, now) for key, job in jobs.items()), tuple(marks))


def _submitted(event: Event) -> _Job:
    """A new job: all of its tasks wait."""
    roles: Mapping[str, int] = event.data.get("tasks", {})
    tasks = {(role, index): _Task(event.at) for role, number in roles.items() for index in range(number)}
    return _Job(event.at, tasks)


def _tell(job: _Job, event: Event) -> None:
    """Go on with a job's story by one event."""
    if "role" in event.data:
        if event.kind is EventKind.STARTED:
            _start(job, event)
        elif event.kind in ENDS:
            _end(job, event)
    elif event.kind in _NOTES:
        job.notes.append((event.at, event.message))
        if event.kind is EventKind.RETRIED:  # as a whole: tasks that were done already begin to wait, too
            for task in job.tasks.values():
                if task.start is None and task.since is None:
                    task.since = event.at
    elif event.kind in _OVER:
        for task in job.tasks.values():
            _stop_waiting(task, event.at)


def _start(job: _Job, event: Event) -> None:
    task = job.task(event)
    _stop_waiting(task, event.at)
    task.start = event


def _stop_waiting(task: _Task, at: datetime) -> None:
    if task.since is not None and at > task.since:
        task.waits.append((task.since, at))
    task.since = None


def _end(job: _Job, event: Event) -> None:
    task, outcome, reason = job.task(event), ENDS[event.kind], str(event.data.get("reason", ""))
    if outcome in _FALLS:
        job.fall = (event.at, outcome, reason)
    restarted = bool(event.data.get("restarts"))
    if outcome is AttemptOutcome.STOPPED and restarted and job.fall is not None and job.fall[0] == event.at:
        _, outcome, reason = job.fall
    if task.start is not None:
        task.attempts.append(_attempt(task.start, event.at, outcome, reason))
        task.start = None
    task.since = event.at if restarted or outcome in _FALLS else None


def _attempt(start: Event, end: datetime | None, outcome: AttemptOutcome, reason: str) -> Attempt:
    devices = tuple(int(device) for device in start.data.get("devices", ()))
    node, isolation = str(start.data.get("node", "")), str(start.data.get("isolation", ""))
    return Attempt(start.at, end, outcome, node, devices, reason, isolation)


def _line(key: str, job: _Job, now: datetime) -> JobLine:
    return JobLine(key, tuple(_task_line(place, task, now) for place, task in job.tasks.items()), tuple(job.notes))


def _task_line(place: Task, task: _Task, now: datetime) -> TaskLine:
    attempts, waits = list(task.attempts), list(task.waits)
    if task.start is not None:
        attempts.append(_attempt(task.start, None, AttemptOutcome.RUNNING, ""))
    elif task.since is not None and task.since <= now:
        waits.append((task.since, None))
    return TaskLine(*place, tuple(attempts), tuple(waits))
