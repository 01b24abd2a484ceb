"""Jobs of the embedded cluster as the interface shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.interface import ClusterError, ConflictError, JobState, JobView, TaskView
from paictl.i18n import text
from paictl.units import Millis, instant
from paictl.words import did_you_mean, listed
from paictl.workload.lifecycle import RunState, TaskStatus

MOST_COMPARED: Final = 400
"""How many of the latest jobs a name that no job has is compared with."""

STATES: Final = {
    RunState.WAITING: JobState.WAITING,
    RunState.RUNNING: JobState.RUNNING,
    RunState.SUCCEEDED: JobState.SUCCEEDED,
    RunState.FAILED: JobState.FAILED,
    RunState.STOPPED: JobState.STOPPED,
}


def view_of(job: LiveJob, epoch: datetime, *, tasks: bool = True) -> JobView:
    """A job as the interface shows it; without `tasks` the short form of lists."""
    return JobView(
        key=job.key,
        vc=job.job.vc,
        priority=job.job.priority_class,
        state=STATES[job.status.state],
        submitted=instant(epoch, job.submitted),
        devices=sum(group.leaves for group in job.plan.groups.values()),
        started=_when(epoch, job.started),
        ended=_when(epoch, job.ended),
        number=job.number,
        attempt=job.status.attempt,
        preemptions=job.preemptions,
        used=sum(len(run.info.devices) for _, run in job.running()),
        reason=f"runs without guarantee, lazily preempted by {job.demoted_by}" if job.demoted_by else "",
        tasks=tuple(_task_view(job, task, epoch) for task in job.status.tasks) if tasks else (),
    )


def _task_view(job: LiveJob, task: TaskStatus, epoch: datetime) -> TaskView:
    run = job.current(task)
    pod = job.pod(task.ref)
    return TaskView(
        role=task.role,
        index=task.index,
        state=STATES[task.state].value,
        attempt=task.incarnation,
        pod=pod.name,
        node=run.info.node if run else "",
        devices=run.info.devices if run else (),
        started=_when(epoch, run.started) if run else None,
        ended=_when(epoch, run.ended) if run else None,
        reason=run.reason if run else "",
    )


def _when(epoch: datetime, at: Millis | None) -> datetime | None:
    return None if at is None else instant(epoch, at)


def meant_job(keys: Sequence[str], key: str) -> str:
    """A hint for a key that no job has: the same name of another user, or a name that is nearly the same."""
    user, _, name = key.partition("~")
    others = [other for other in keys if other.partition("~")[2] == name]
    if others:
        return f"did you mean {listed(others, 3)}?"
    own = [other.partition("~")[2] for other in keys if other.startswith(f"{user}~")]
    return did_you_mean(name, own[-MOST_COMPARED:]) or "list them with: paictl job list"


def no_job(keys: Sequence[str], key: str) -> ClusterError:
    """What to raise for a key that no job has."""
    return ClusterError(text("there is no job {key!r}", key=key), hint=meant_job(keys, key))


def name_taken(key: str) -> ConflictError:
    """What to raise for a key that an ended job has."""
    return ConflictError(text("there was a job {key!r} already", key=key), hint="give it another name: --name NAME")
