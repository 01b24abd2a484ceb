"""From a request to a job that the cluster takes, or the reason why it does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from paictl.cluster.embedded.configs import Configuration, Configurations
from paictl.cluster.embedded.jobs import LiveJob, as_taken, with_wishes
from paictl.cluster.embedded.services import READERS
from paictl.cluster.interface import ClusterError, JobRequest
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.units import FOREVER, Millis
from paictl.workload import lifecycle
from paictl.workload.duration import task_seconds
from paictl.workload.fields import JobError
from paictl.workload.job import Job
from paictl.workload.pods import plan_job

MOST_WAITING: Final = 100_000
"""Most tasks that may wait or run on a cluster on this machine at once."""

DEFAULT_SECONDS: Final = 60.0
"""How long a task runs whose commands do not say it."""


def refuse_excess(requests: Iterable[JobRequest]) -> None:
    """Raise `ClusterError` for more tasks than could ever be worked on; asked before anything is made of a request.

    Counts what a request says without reading it as a job, for every look at a billion tasks costs a billion. How many
    tasks one job may have is `workload.pods.check_number`'s to say, by the size of the cluster.
    """
    tasks = sum(_instances(role) for request in requests for role in _values(request.data.get("taskRoles")))
    if tasks > MOST_WAITING:
        raise ClusterError(
            text(
                "{tasks:,} tasks cannot be submitted together, at most {most_waiting:,} can",
                tasks=tasks,
                most_waiting=MOST_WAITING,
            ),
            hint="use fewer instances, or submit fewer jobs at a time",
        )


def _values(roles: object) -> Iterable[object]:
    return roles.values() if isinstance(roles, Mapping) else ()


def _instances(role: object) -> int:
    number = role.get("instances", 1) if isinstance(role, Mapping) else 1
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 1


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


def take(requests: Sequence[JobRequest], configs: Configurations, version: int | None, now: Millis) -> list[LiveJob]:
    """The jobs as they begin, by a version of the configuration; raises as `admitted` does.

    A refusal says so where the newest version, which is not loaded yet, would take them.
    """
    try:
        return [admitted(request, configs.get(version), now) for request in requests]
    except JobError as error:
        newest = configs.newest
        if newest not in (0, version) and _would_take(requests, configs.get(newest), now):
            services = " ".join(f"-n {name}" for name in READERS)
            error.hint = (
                f"version {newest} of the configuration would take it, but is not loaded: "
                f"paictl service refresh {services}"
            )
        raise


def _would_take(requests: Iterable[JobRequest], configuration: Configuration, now: Millis) -> bool:
    try:
        for request in requests:
            admitted(request, configuration, now)
    except PaictlError:
        return False
    return True
