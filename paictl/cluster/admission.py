"""From a request to a job that a cluster takes, by a version of the configuration, or the reason why it does not.

Who reaches the tasks of a job by SSH, too: the keys of the user's account, and what is refused without any.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.values import ClusterError, JobRequest
from paictl.i18n import text
from paictl.units import FOREVER, Millis
from paictl.workload.duration import task_seconds
from paictl.workload.fields import Fields, JobError
from paictl.workload.job import Job
from paictl.workload.pods import JobPlan, plan_job, why_so_many_cells
from paictl.workload.ssh import ssh_of
from paictl.workload.template import MASK, masked

if TYPE_CHECKING:
    from paictl.cluster.configured import ConfigSnapshot
    from paictl.cluster.interface import Users


MOST_WAITING: Final = 100_000
"""Most tasks that may wait or run on a cluster on this machine at once."""

MOST_OF_USER: Final = 20_000
"""Tasks of one user that may wait or run there, unless `task-limits` says more: each command of anybody reads all."""

MOST_TOGETHER: Final = 32_000_000
"""Characters that the commands of jobs submitted together may have, templates filled in: all are held at once."""

MOST_KEPT: Final = 16_000_000
"""Characters that the jobs of one user may have together that wait or run on a cluster on this machine: each command of
anybody reads and stores all of them."""

DEFAULT_SECONDS: Final = 60.0
"""How long a task runs whose commands do not say it."""


def admit(request: JobRequest, configuration: ConfigSnapshot) -> JobPlan:
    """The job of a request, which can be run.

    Raises `JobError` for one that cannot be read, asks for what the configuration does not have, or can never run.
    """
    job = configuration.sharing.run_times.limited(
        with_wishes(Job.from_mapping(request.data), request.vc, request.priority)
    )
    plan = plan_job(job, configuration.supply, request.user)
    refusal = configuration.judge.refusal(plan)
    if refusal is not None:
        error = refusal.error()
        if why := why_so_many_cells(job, configuration.supply, refusal.roles):
            error.hint = text("{why}; ask for less of it", why=why)
        raise error
    return plan


def admit_all(requests: Iterable[JobRequest], configuration: ConfigSnapshot) -> Iterator[JobPlan]:
    """The jobs of requests that are submitted together, one by one.

    Raises as `admit` does, and `ClusterError` as soon as their commands are more than `MOST_TOGETHER`.
    """
    room = MOST_TOGETHER
    for number, request in enumerate(requests):
        try:
            plan = admit(request, configuration)
        except JobError as error:
            error.request = number
            raise
        room -= sum(len(command) for role in plan.job.roles for command in role.commands)
        if room < 0:
            raise ClusterError(
                text(
                    "with templates filled in, the commands of these jobs have more than {most:,} characters together",
                    most=MOST_TOGETHER,
                ),
                hint="submit fewer jobs at a time",
            )
        yield plan


def durations_of(job: Job, duration: Millis | None) -> dict[str, Millis | None]:
    """How long tasks run by role, in milliseconds, None for ever; `duration` is what the user told.

    Otherwise it is as long as their commands sleep, or the default. Only machines that are imagined go by it.
    """
    length = None if duration is None else FOREVER if duration < 0 else duration / 1000
    seconds = {role.name: task_seconds(role.commands, default=DEFAULT_SECONDS, given=length) for role in job.roles}
    return {role: None if s == FOREVER else Millis(round(s * 1000)) for role, s in seconds.items()}


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


def refuse_much_text(user: str, jobs: Iterable[Mapping[str, object]]) -> None:
    """Raise `ClusterError` if the data of a user's jobs have more than `MOST_KEPT` characters."""
    size = sum(len(json.dumps(data, ensure_ascii=False)) for data in jobs)
    if size > MOST_KEPT:
        raise ClusterError(
            text(
                "the files of user {user}'s waiting and running jobs would have {size:,} characters together; "
                "at most {most:,} are allowed",
                user=user,
                size=size,
                most=MOST_KEPT,
            ),
            hint="wait until some have ended, or stop them; put large scripts into a storage or an image",
        )


def _values(roles: object) -> Iterable[object]:
    return roles.values() if isinstance(roles, Mapping) else ()


def _instances(role: object) -> int:
    number = role.get("instances", 1) if isinstance(role, Mapping) else 1
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 1


def with_wishes(job: Job, vc: str | None, priority: str | None) -> Job:
    """The job with the virtual cluster and priority class of the command line."""
    return replace(job, vc=vc or job.vc, priority_class=priority or job.priority_class)


def as_admitted(request: JobRequest, job: Job) -> dict[str, Any]:
    """The job's data as it is kept: secrets masked, VC, class and limit as command line and configuration say."""
    data = dict(request.data)
    secrets = data.get("secrets")
    if isinstance(secrets, Mapping):
        data["secrets"] = masked(secrets)
    defaults = {**_mapping(data.get("defaults")), "virtualCluster": job.vc}
    extras = _mapping(data.get("extras"))
    hived = {**_mapping(extras.get("hivedScheduler")), "jobPriorityClass": job.priority_class}
    limit = {} if job.max_run_time is None else {"maxRunTime": f"{job.max_run_time / 1000:g}s"}
    return {**data, "defaults": defaults, "extras": {**extras, "hivedScheduler": hived, **limit}}


def _mapping(value: object) -> dict[str, Any]:
    return dict(value) if isinstance(value, Mapping) else {}


def without_secrets(request: JobRequest) -> JobRequest:
    """A request with stars for the job's secrets and for the passwords of the registries of its images."""
    data: dict[str, object] = dict(request.data)
    if isinstance(secrets := data.get("secrets"), Mapping):
        data["secrets"] = masked(secrets)
    if isinstance(images := data.get("prerequisites"), list):
        data["prerequisites"] = [_without_password(image) for image in images]
    return replace(request, data=data)


def _without_password(image: object) -> object:
    auth = image.get("auth") if isinstance(image, Mapping) else None
    if not isinstance(image, Mapping) or not isinstance(auth, Mapping) or "password" not in auth:
        return image
    word = auth["password"]
    shown = word if isinstance(word, str) and word.lstrip().startswith("<%") else MASK
    return {**image, "auth": {**auth, "password": shown}}


# --- jobs whose tasks people reach by SSH


def with_account_keys(requests: Sequence[JobRequest], users: Users) -> list[JobRequest]:
    """The requests with the keys of their users' accounts where the jobs let them in.

    Raises `JobError` for a wrong parameter of the plugin, and for a user without a key in a job without one.
    """
    return list(_with_keys(requests, users))


def _with_keys(requests: Sequence[JobRequest], users: Users) -> Iterator[JobRequest]:
    for number, request in enumerate(requests):
        try:
            access = ssh_of(Fields(request.data, ""))
            if access is None or not access.people:
                yield request
                continue
            account = users.account(request.user)
            keys = account.ssh_keys if account is not None else ()
            if not keys and not access.keys:
                raise JobError(
                    access.where,
                    text("user {user} has no SSH key, so no one could sign in", user=request.user),
                    hint=text(
                        "add one: paictl user key add {user} ~/.ssh/id_ed25519.pub; or put it in userssh.value",
                        user=request.user,
                    ),
                )
            yield replace(request, ssh_keys=keys)
        except JobError as error:
            error.request = number
            raise
