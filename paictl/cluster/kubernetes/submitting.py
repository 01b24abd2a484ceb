"""Jobs that are submitted to Kubernetes: judged by the configuration, then made as `PaiJob`s with what they need."""

from __future__ import annotations

import secrets as randomness
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from paictl.cluster.admission import admit_all, refuse_excess, without_secrets
from paictl.cluster.configured import ConfigSnapshot
from paictl.cluster.jobwords import name_taken, refuse_held, refuse_many_tasks
from paictl.cluster.kubernetes.connection import cluster_errors
from paictl.cluster.kubernetes.jobs import JobStore
from paictl.cluster.kubernetes.jobviews import view_of
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, labels
from paictl.cluster.kubernetes.paijob.names import labels_of, object_name, paijobs_path
from paictl.cluster.kubernetes.paijob.resource import manifest_of, secret_of, values_of
from paictl.cluster.kubernetes.sharing import KubernetesReservations, month_used
from paictl.cluster.pods.labels import EVERY_VC
from paictl.cluster.reservations import names_reservation
from paictl.cluster.values import ClusterError, ConfigVersion, JobRequest, JobView
from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, create, delete, path_of
from paictl.scheduler.wire import GRANTED

if TYPE_CHECKING:
    from paictl.workload.pods import JobPlan
    from paictl.workload.sharing import Sharing

GONE: Final = 410
MOST_TASKS: Final = 10_000
"""Tasks of a job: its status has to fit into an object."""


class JobTaker:
    """Takes jobs into a `JobStore`; the reservations are asked for where a job names one."""

    def __init__(self, client: KubeClient, jobs: JobStore, reservations: Callable[[], KubernetesReservations]) -> None:
        self._client = client
        self._jobs = jobs
        self._reservations = reservations

    def submit(self, requests: Sequence[JobRequest], version: ConfigVersion, now: datetime) -> list[JobView]:
        """Take jobs by a version of the configuration; none if something is wrong with one or its name is taken.

        Raises `ConflictError` for the first that another was faster with; those before it are taken.
        """
        configuration = ConfigSnapshot(version.number, version.files)
        if any(names_reservation(request) for request in requests):
            self._reservations().refuse(requests, configuration)
        refuse_excess(requests)
        plans = list(admit_all(requests, configuration))
        for plan in plans:
            _refuse_huge(plan)
        if configuration.sharing:
            self._refuse_held(configuration.sharing, plans, now)
        self._refuse_taken([plan.key for plan in plans])
        limits = configuration.sharing.task_limits
        refuse_many_tasks(limits, plans, self._tasks_of)
        at = datetime.now(UTC)
        made: list[JobView] = []
        made_at = ""
        for place, (request, plan) in enumerate(zip(requests, plans, strict=True)):
            job, made_at = self._make(request, plan, at + timedelta(microseconds=place))
            made.append(job)
        keys = [job.key for job in made]
        try:  # of clients at once each counts what was there when its own came: the first has room, all have an order
            with cluster_errors():
                refuse_many_tasks(limits, plans, lambda user: self._tasks_then(user, keys, made_at))
        except ClusterError as error:
            if left := self._take_back(keys):
                error.hint = text(
                    "{jobs} were accepted anyway; to stop each: paictl job stop USER~NAME", jobs=listed(left)
                )
            raise
        return made

    def _take_back(self, keys: Sequence[str]) -> list[str]:
        """Remove jobs that have just been made; those that could not be removed."""
        left = []
        for key in keys:
            try:
                delete(self._client, paijobs_path(object_name(key)))
            except PaictlError:
                left.append(key)
        return left

    def _tasks_then(self, user: str, besides: Collection[str], version: str) -> int:
        """The tasks of a user's other jobs at a version; those of now if the API server has forgotten how it was."""
        try:
            return self._tasks_of(user, besides, version)
        except KubeError as error:
            if error.status != GONE:
                raise
            return self._tasks_of(user, besides)

    def _tasks_of(self, user: str, besides: Collection[str] = (), version: str = "") -> int:
        """Tasks of a user's jobs that have not ended, without those of some keys; as they were at a `version`."""
        return sum(
            pai.tasks
            for pai in self._jobs.read_all(version)
            if pai.user == user and pai.key not in besides and (pai.record is None or not pai.record.status.state.final)
        )

    def _refuse_held(self, rules: Sharing, plans: Sequence[JobPlan], now: datetime) -> None:
        """Raise `ClusterError` for a job that a spent budget refuses or a limit for users excludes for good."""
        used = month_used(self._client, now) if rules.budgets else {}
        for plan in plans:
            refuse_held(rules, plan, used or {}, now)

    def _refuse_taken(self, keys: Sequence[str]) -> None:
        names: set[str] = set()
        known = {pai.key for pai in self._jobs.read_all()} if len(keys) > 1 else set()
        for key in keys:
            if key in names or key in known:
                raise name_taken(key)
            names.add(key)

    def _make(self, request: JobRequest, plan: JobPlan, now: datetime) -> tuple[JobView, str]:
        """Make one job: first what it needs, then itself, then it owns what it needs; and its first version.

        A process that is killed in between leaves a Secret that nobody reads or owns.
        """
        values = values_of(request.data)
        name = f"{object_name(plan.key)}-{randomness.token_hex(4)}" if values else ""
        if name:
            body = secret_of(name, values, {"namespace": JOBS_NAMESPACE, "labels": labels_of(object_name(plan.key))})
            self._create(path_of(JOBS_NAMESPACE, "secrets"), body)
        made = self._create(paijobs_path(), manifest_of(without_secrets(request), plan.job, now, name))
        if made is None:
            if name:
                delete(self._client, path_of(JOBS_NAMESPACE, "secrets", name))
            raise name_taken(plan.key)
        view = replace(view_of(self._jobs.noted(made), ()), devices=plan.devices, reason="")
        return view, str(made["metadata"]["resourceVersion"])

    def _create(self, path: str, body: Json) -> Json | None:
        try:
            return create(self._client, path, body)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
        space = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": JOBS_NAMESPACE,
                "labels": labels("jobs"),
                "annotations": {GRANTED: EVERY_VC},  # who may use which is checked when a job is submitted
            },
        }
        create(self._client, "/api/v1/namespaces", space)  # the first job of all
        try:
            return create(self._client, path, body)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            raise _no_resource() from None


def _no_resource() -> ClusterError:
    return ClusterError(
        text("this cluster cannot run jobs yet"),
        where="paijobs.paictl.io",
        hint=text("start the job controller: paictl service start -n frameworkcontroller"),
    )


def _refuse_huge(plan: JobPlan) -> None:
    if plan.tasks > MOST_TASKS:
        message = text(
            "{key} has {tasks:,} tasks; the limit for a job is {most:,}",
            key=plan.key,
            tasks=plan.tasks,
            most=MOST_TASKS,
        )
        raise ClusterError(message, hint=text("use fewer instances, or several jobs"))
