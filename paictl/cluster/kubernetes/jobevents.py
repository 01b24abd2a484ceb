"""The life of jobs as events, made of what is kept of them: records, and the pods that are there.

Nothing else is kept: of attempts before the present one it is known when they ended and why, not what each task did.
Numbers ascend with time and stay the same, save among events of one and the same second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from paictl.cluster.kubernetes.jobviews import view_of
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.paijob.seen import PodSeen
from paictl.cluster.values import Event, EventKind, JobState, TaskView

SECOND: Final = 1_000_000
"""Numbers that are kept for each second."""
_ENDS: Final = {
    JobState.SUCCEEDED: EventKind.SUCCEEDED,
    JobState.FAILED: EventKind.FAILED,
    JobState.STOPPED: EventKind.STOPPED,
}
_TASKS: Final = {
    JobState.SUCCEEDED.value: EventKind.FINISHED,
    JobState.FAILED.value: EventKind.FAILED,
    JobState.STOPPED.value: EventKind.KILLED,
}

_Row = tuple[datetime, int, int, str, int, EventKind, str, str, dict[str, Any]]
"""When, which job, which step of its life, role and index, then what the event says."""


def events_of(jobs: Sequence[PaiJob], pods: Mapping[str, Iterable[PodSeen]]) -> list[Event]:
    """The events of jobs in the order of their submission; `pods` by the name of the job's object."""
    rows = [row for place, pai in enumerate(jobs) for row in _rows(place, pai, pods.get(pai.name, ()))]
    rows.sort(key=lambda row: row[:5])
    found: list[Event] = []
    second, within = 0, 0
    for at, _, _, _, _, kind, key, message, data in rows:
        now = int(at.timestamp())
        second, within = (now, 0) if now != second else (second, within + 1)
        found.append(Event(now * SECOND + within, at, kind, f"job/{key}", message, data))
    return found


def _rows(place: int, pai: PaiJob, pods: Iterable[PodSeen]) -> Iterator[_Row]:
    view = view_of(pai, pods)
    data: dict[str, Any] = {"vc": view.vc, "priority": view.priority}
    if pai.record is not None:
        tasks: dict[str, int] = {}
        for task in pai.record.status.tasks:
            tasks[task.role] = tasks.get(task.role, 0) + 1
        data["tasks"] = tasks
        for line in pai.record.attempts:
            again = f"starts again from the beginning, attempt {line.number + 2}"
            said = f"{again}: {line.reason}" if line.reason else again
            more = {"next": line.number + 2, "reason": line.reason}
            yield line.ended, place, 3, "", line.number, EventKind.RETRIED, pai.key, said, more
    submitted = f"to {view.vc} as {view.priority}"
    yield view.submitted, place, 0, "", 0, EventKind.SUBMITTED, pai.key, submitted, data
    for shown in view.tasks:
        yield from _of_task(place, pai.key, shown, view.ended)
    if view.ended is not None and view.state in _ENDS:
        yield view.ended, place, 9, "", 0, _ENDS[view.state], pai.key, view.reason, {}


def _of_task(place: int, key: str, task: TaskView, over: datetime | None) -> Iterator[_Row]:
    if task.started is None:
        return
    pod = {"role": task.role, "index": task.index, "attempt": task.attempt}
    name, devices = f"{task.role}[{task.index}]", ",".join(map(str, task.devices))
    where = {**pod, "node": task.node, "devices": list(task.devices)}
    said = f"{name} runs on {task.node}, devices {devices}"
    yield task.started, place, 4, task.role, task.index, EventKind.STARTED, key, said, where
    kind = _TASKS.get(task.state)
    if kind is not None:
        at = max(task.ended or over or task.started, task.started)
        said = f"{name}: {task.reason}" if task.reason else name
        yield at, place, 5, task.role, task.index, kind, key, said, {**pod, "reason": task.reason}
