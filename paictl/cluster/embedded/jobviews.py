"""Jobs of the embedded cluster as the interface shows them."""

from __future__ import annotations

from datetime import datetime

from paictl.cluster.embedded.jobs import LiveJob, TaskRepair
from paictl.cluster.interface import JobView, MemberRepair, TaskView
from paictl.cluster.jobwords import STATES, alike
from paictl.units import Millis, instant
from paictl.workload.lifecycle import TaskStatus


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
        pod=alike(pod.leaf_number for pod in job.plan.pods),
        attempt=job.status.attempt,
        preemptions=job.preemptions,
        used=sum(len(run.info.devices) for _, run in job.running()),
        reason=job.stopped_for
        or (f"runs without guarantee, lazily preempted by {job.demoted_by}" if job.demoted_by else ""),
        tasks=tuple(_task_view(job, task, epoch) for task in job.status.tasks) if tasks else (),
        max_run_time=job.job.max_run_time,
        repairs=tuple(_repair(one, epoch) for one in job.repairs),
    )


def _repair(known: TaskRepair, epoch: datetime) -> MemberRepair:
    return MemberRepair(
        known.role, known.index, instant(epoch, known.lost), known.before, known.reason, _when(epoch, known.back),
        known.node,
    )  # fmt: skip


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
