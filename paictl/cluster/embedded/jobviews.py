"""Jobs of the embedded cluster as the interface shows them."""

from __future__ import annotations

from typing import Final

from paictl.cluster.embedded.jobs import LiveJob
from paictl.cluster.interface import JobState, JobView, TaskView
from paictl.workload.lifecycle import State, TaskStatus

STATES: Final = {
    State.WAITING: JobState.WAITING,
    State.RUNNING: JobState.RUNNING,
    State.SUCCEEDED: JobState.SUCCEEDED,
    State.FAILED: JobState.FAILED,
    State.STOPPED: JobState.STOPPED,
}


def view_of(job: LiveJob, *, tasks: bool = True) -> JobView:
    """A job as the interface shows it; without `tasks` the short form of lists."""
    return JobView(
        key=job.key,
        vc=job.job.vc,
        priority=job.job.priority_class,
        state=STATES[job.status.state],
        submitted=job.submitted,
        devices=sum(group.leaves for group in job.plan.groups.values()),
        started=job.started,
        ended=job.ended,
        number=job.number,
        attempt=job.status.attempt,
        preemptions=job.preemptions,
        used=sum(len(run.info.devices) for _, run in job.running()),
        reason=f"runs without guarantee, lazily preempted by {job.demoted_by}" if job.demoted_by else "",
        tasks=tuple(_task_view(job, task) for task in job.status.tasks) if tasks else (),
    )


def _task_view(job: LiveJob, task: TaskStatus) -> TaskView:
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
        started=run.started if run else None,
        ended=run.ended if run else None,
        reason=run.reason if run else "",
    )
