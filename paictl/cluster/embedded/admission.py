"""From a request to a job that the cluster takes, or the reason why it does not."""

from __future__ import annotations

from typing import Final

from paictl.cluster.embedded.configs import Configuration
from paictl.cluster.embedded.jobs import LiveJob, as_taken, with_wishes
from paictl.cluster.interface import JobRequest
from paictl.units import FOREVER, Millis
from paictl.workload import lifecycle
from paictl.workload.duration import task_seconds
from paictl.workload.job import Job
from paictl.workload.pods import plan_job

DEFAULT_SECONDS: Final = 60.0
"""How long a task runs whose commands do not say it."""


def admitted(request: JobRequest, configuration: Configuration, now: Millis) -> LiveJob:
    """The job as it begins, without a number yet.

    Raises `JobError` for one that cannot be read, asks for what the configuration does not have, or can never run.
    """
    job = with_wishes(Job.from_mapping(request.data), request.vc, request.priority)
    plan = plan_job(job, configuration.supply, request.user)
    refusal = configuration.judge.refusal(plan)
    if refusal is not None:
        raise refusal.error()
    told = None if request.duration is None else FOREVER if request.duration < 0 else request.duration / 1000
    seconds = {role.name: task_seconds(role.commands, default=DEFAULT_SECONDS, told=told) for role in job.roles}
    return LiveJob(
        key=f"{request.user}~{job.name}",
        number=0,
        data=as_taken(request, job),
        job=job,
        plan=plan,
        durations={role: None if s == FOREVER else Millis(round(s * 1000)) for role, s in seconds.items()},
        submitted=now,
        status=lifecycle.submit(job).status,
    )
