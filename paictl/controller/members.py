"""What becomes of members of a gang that are replaced alone, as the record of a job tells it (`docs/repair.md`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from paictl.cluster.kubernetes.paijob.record import KEPT_REPAIRS, JobRecord, RepairLine
from paictl.cluster.kubernetes.paijob.seen import PodSeen
from paictl.controller.observing import JobObjects, PodTransition
from paictl.workload.lifecycle import JobStatus, PodChange, RunState, TaskStatus


def repaired(
    record: JobRecord, before: JobStatus, news: Sequence[PodTransition], seen: JobObjects, now: datetime
) -> tuple[RepairLine, ...]:
    """The repairs of a job that has come from status `before` to that of its record.

    A repair that another attempt or the end of the job has overtaken is left out: nobody waits for it any more.
    """
    after = record.status
    if after.attempt != before.attempt or after.state.final:
        return tuple(line for line in record.repairs if line.back is not None)
    lines = list(record.repairs)
    reasons = {(one.ref.role, one.ref.index): one.reason for one in news if one.what is PodChange.LOST}
    for was, task in zip(before.tasks, after.tasks, strict=True):
        place = task.role, task.index
        if task.retries > was.retries and place in reasons:
            lines = [line for line in lines if (line.role, line.index) != place or line.back is not None]
            pod = _pod(seen, after.attempt, was)
            lines.append(RepairLine(*place, now, pod.node if pod is not None else "", reasons[place]))
        elif task.state is RunState.RUNNING and was.state is RunState.WAITING:
            lines = [_back(line, _pod(seen, after.attempt, task), now) if (line.role, line.index) == place else line
                     for line in lines]  # fmt: skip
    return tuple(lines[-KEPT_REPAIRS:])


def _pod(seen: JobObjects, attempt: int, task: TaskStatus) -> PodSeen | None:
    """The pod of a task's present try."""
    tries = (pod for pod in seen.pods if pod.attempt == attempt and pod.place == (task.role, task.index))
    return next((pod for pod in tries if pod.retry == task.retries), None)


def _back(line: RepairLine, pod: PodSeen | None, now: datetime) -> RepairLine:
    """A repair whose task runs again; one that has been back for long stays as it was."""
    if line.back is not None or pod is None:
        return line
    return replace(line, back=max(pod.started or now, line.lost), node=pod.node)
