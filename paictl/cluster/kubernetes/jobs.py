"""Jobs on Kubernetes: `PaiJob`s are made, changed and read; everything else is the job controller's."""

from __future__ import annotations

import secrets as randomness
import socket
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from paictl.cluster.jobwords import name_taken, no_job, refuse_many_tasks, refuse_task
from paictl.cluster.kubernetes.errors import cluster_errors
from paictl.cluster.kubernetes.jobviews import in_order, view_of
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, labels
from paictl.cluster.kubernetes.paijob.names import (
    JOB,
    SELECTOR,
    SSH_HOST_KEY,
    TAGS,
    labels_of,
    object_name,
    paijobs_path,
    ssh_name,
)
from paictl.cluster.kubernetes.paijob.resource import PaiJob, manifest_of, read_paijob, secret_of, values_of
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, read_pod
from paictl.cluster.pods.labels import EVERY_VC
from paictl.cluster.values import (
    ClusterError,
    ConflictError,
    JobRequest,
    JobView,
    NotStartedError,
    SshAddress,
    TaskPlace,
)
from paictl.errors import PaictlError
from paictl.i18n import listed, text
from paictl.remote import Pipes
from paictl.remote.kube import podstreams
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.objects import CONFLICT, NOT_FOUND, create, delete, find, path_of
from paictl.scheduler.wire import GRANTED
from paictl.workload.tags import with_changes

if TYPE_CHECKING:
    from paictl.cluster.admission import AdmittedJob
    from paictl.cluster.configured import ConfigSnapshot
    from paictl.cluster.kubernetes.mirror import WatchedJobs
    from paictl.workload.sharing import Sharing

PODS: Final = path_of(JOBS_NAMESPACE, "pods")
BAD_REQUEST: Final = 400
GONE: Final = 410
_TRIES: Final = 5
"""A change of tags over another's, which writes of the job's status are, too."""
MOST_TASKS: Final = 10_000
"""Tasks of a job: its status has to fit into an object."""


class JobStore:
    """The `PaiJob`s of one cluster, as a client sees them; who looks often lets it see `watched`, too."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.watched: WatchedJobs | None = None

    # --- submitting

    def submit(self, requests: Sequence[JobRequest], configuration: ConfigSnapshot, now: datetime) -> list[JobView]:
        """Take jobs by a configuration; all or none are refused for what is wrong with them or a name that is taken.

        Raises `ConflictError` for the first that another was faster with; those before it are taken.
        """
        from paictl.cluster.admission import admit_all, refuse_excess  # late: who only looks takes nothing

        refuse_excess(requests)
        jobs = list(admit_all(requests, configuration))
        for taken in jobs:
            _refuse_huge(taken)
        if configuration.sharing:
            self._refuse_held(configuration.sharing, requests, jobs, now)
        self._refuse_taken([taken.key for taken in jobs])
        limits, plans = configuration.sharing.task_limits, [taken.plan for taken in jobs]
        refuse_many_tasks(limits, plans, self._tasks_of)
        at = datetime.now(UTC)
        made: list[JobView] = []
        version = ""
        for place, (request, taken) in enumerate(zip(requests, jobs, strict=True)):
            job, version = self._make(request, taken, at + timedelta(microseconds=place))
            made.append(job)
        keys = [job.key for job in made]
        try:  # of clients at once each counts what was there when its own came: the first has room, all have an order
            with cluster_errors():
                refuse_many_tasks(limits, plans, lambda user: self._tasks_then(user, keys, version))
        except ClusterError as error:
            if left := self._take_back(keys):
                error.hint = text(
                    "{jobs} were accepted all the same; to end each: paictl job stop USER~NAME", jobs=listed(left)
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
            for pai in self._all(version)
            if pai.user == user and pai.key not in besides and (pai.record is None or not pai.record.status.state.final)
        )

    def _refuse_held(
        self, rules: Sharing, requests: Sequence[JobRequest], jobs: Sequence[AdmittedJob], now: datetime
    ) -> None:
        """Raise `ClusterError` for a job that a spent budget refuses or a limit for users excludes for good."""
        from paictl.cluster.jobwords import refuse_held
        from paictl.cluster.kubernetes.sharing import month_used

        used = month_used(self._client, now) if rules.budgets else {}
        for request, taken in zip(requests, jobs, strict=True):
            refuse_held(rules, taken.plan, request.user, used or {}, now)

    def _refuse_taken(self, keys: Sequence[str]) -> None:
        names: set[str] = set()
        known = {pai.key for pai in self._all()} if len(keys) > 1 else set()
        for key in keys:
            if key in names or key in known:
                raise name_taken(key)
            names.add(key)

    def _make(self, request: JobRequest, taken: AdmittedJob, now: datetime) -> tuple[JobView, str]:
        """Make one job: first what it needs, then itself, then it owns what it needs; and its first version.

        Who is killed in between leaves a Secret that nobody reads or owns.
        """
        from paictl.cluster.admission import without_secrets

        values = values_of(request.data)
        name = f"{object_name(taken.key)}-{randomness.token_hex(4)}" if values else ""
        if name:
            body = secret_of(name, values, {"namespace": JOBS_NAMESPACE, "labels": labels_of(object_name(taken.key))})
            self._create(path_of(JOBS_NAMESPACE, "secrets"), body)
        made = self._create(paijobs_path(), manifest_of(without_secrets(request), taken.job, now, name))
        if made is None:
            if name:
                delete(self._client, path_of(JOBS_NAMESPACE, "secrets", name))
            raise name_taken(taken.key)
        devices = sum(group.leaves for group in taken.plan.groups.values())
        view = replace(view_of(self._noted(made), ()), devices=devices, reason="")
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

    def _noted(self, answer: Json) -> PaiJob:
        """What the API server made of a change of ours: whoever looks next sees it, even if the watch is late."""
        return self.watched.mirror.remember(answer) if self.watched else read_paijob(answer)

    # --- changing and looking

    def stop(self, key: str) -> None:
        """Have a job end; nothing to do for one that has."""
        pai = self.find(key)
        if pai.record is not None and pai.record.status.state.final:
            return
        try:
            wish = {"spec": {"stopped": True}}
            self._noted(self._client.request("PATCH", paijobs_path(pai.name), wish, kind=MERGE))
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            raise no_job([], key) from None

    def tag(self, key: str, add: Sequence[str], remove: Sequence[str]) -> tuple[str, ...]:
        """Change the tags of a job, over the version that they were read from."""
        for _ in range(_TRIES):
            pai = self.find(key)
            tags = with_changes(pai.tags, add, remove)
            wish = {"metadata": {"resourceVersion": pai.version, "annotations": {TAGS: ",".join(tags)}}}
            try:
                self._noted(self._client.request("PATCH", paijobs_path(pai.name), wish, kind=MERGE))
            except KubeError as error:
                if error.status not in (CONFLICT, NOT_FOUND):
                    raise
                continue
            return tags
        raise ConflictError(text("others keep changing {job}", job=key), hint=text("run the same command again"))

    def find(self, key: str) -> PaiJob:
        """One job; raises `ClusterError` with the names that come near if there is none."""
        body = find(self._client, paijobs_path(object_name(key)))
        if body is None or (pai := read_paijob(body)).key != key:
            raise no_job([pai.key for pai in in_order(self._all())], key)
        return pai

    def _all(self, version: str = "") -> Iterator[PaiJob]:
        """All jobs; as they were at a version of one of them if it is given."""
        then = {"resourceVersion": version, "resourceVersionMatch": "Exact"} if version else None
        try:
            for _, page in self._client.list(paijobs_path(), then):
                yield from map(read_paijob, page)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise  # no custom resource yet: no jobs

    def everything(self, subject: str | None = None) -> tuple[list[PaiJob], dict[str, list[PodSummary]]]:
        """Jobs in order of submission, and their pods by the name of the job's object; of one, ``job/KEY``, alone."""
        if subject is not None:
            kind, _, key = subject.partition("/")
            body = find(self._client, paijobs_path(object_name(key))) if kind == "job" else None
            if body is None or (pai := read_paijob(body)).key != key:
                return [], {}
            return [pai], {pai.name: list(self.pods(pai.name))}
        if self.watched and self.watched.current:
            return self.watched.everything()
        jobs, pods = in_order(self._all()), dict[str, list[PodSummary]]()
        if any(pai.record is not None and not pai.record.closed for pai in jobs):
            for pod in self.pods():
                pods.setdefault(pod.job, []).append(pod)
        return jobs, pods

    def pods(self, name: str = "") -> Iterator[PodSummary]:
        """The pods of one job (by the name of its object) or of all."""
        query = {"labelSelector": f"{SELECTOR},{JOB}={name}" if name else SELECTOR}
        for _, page in self._client.list(PODS, query):
            yield from filter(None, map(read_pod, page))

    def jobs(self, *, ended: bool) -> list[JobView]:
        """Jobs in order of submission, without tasks."""
        if self.watched and self.watched.current:
            views = self.watched.views()
        else:
            jobs, pods = self.everything()
            views = [view_of(pai, pods.get(pai.name, ()), place, tasks=False) for place, pai in enumerate(jobs, 1)]
        return [view for view in views if ended or not view.state.ended]

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        pai = self.find(key)
        return view_of(pai, self.pods(pai.name))

    # --- pods

    def output(self, key: str, task: TaskPlace, *, follow: bool, lines: int | None) -> Iterator[bytes]:
        """What a task's newest pod has written."""
        pai = self.find(key)
        pod = self._pod(pai, task)
        try:
            yield from podstreams.log(self._client, JOBS_NAMESPACE, pod.name, follow=follow, lines=lines)
        except KubeError as error:
            if error.status not in (BAD_REQUEST, NOT_FOUND):
                raise
            raise _silent(pai, task, pod.reason or error.message) from None

    def execute(self, key: str, task: TaskPlace, command: Sequence[str], pipes: Pipes) -> int:
        """Run a command in the container of a task."""
        pod = self._pod(self.find(key), task)
        if pod.phase != "Running":
            raise _does_not_run(key, task, pod.phase)
        return podstreams.execute(self._client, JOBS_NAMESPACE, pod.name, command, pipes)

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """A connection to a port of a task's pod, by the API server."""
        pod = self._pod(self.find(key), task)
        if pod.phase != "Running":
            raise _does_not_run(key, task, pod.phase)
        return podstreams.dial(self._client, JOBS_NAMESPACE, pod.name, port)

    def ssh_address(self, key: str, task: TaskPlace) -> SshAddress | None:
        """The port on the task's node that leads to its SSH server; None without the plugin."""
        pai = self.find(key)
        pod = self._pod(pai, task)
        if pod.phase != "Running":
            raise _does_not_run(key, task, pod.phase)
        name = ssh_name(pai.name, task.role, task.index)
        service = find(self._client, path_of(JOBS_NAMESPACE, "services", name))
        host = str(self._client.get(f"{PODS}/{pod.name}")["status"].get("hostIP", ""))
        ports = ((service or {}).get("spec") or {}).get("ports") or ()
        port = next((port["nodePort"] for port in ports if port.get("nodePort")), None)
        if service is None or port is None or not host:
            return None
        known = (service["metadata"].get("annotations") or {}).get(SSH_HOST_KEY, "")
        return SshAddress(host, int(port), str(known))

    def _pod(self, pai: PaiJob, task: TaskPlace) -> PodSummary:
        """The newest pod of a task, of an attempt before where the present one has none yet."""
        if pai.record is not None:
            refuse_task(pai.key, task, [(task.role, task.index) for task in pai.record.status.tasks])
        own = [pod for pod in self.pods(pai.name) if pod.owner == pai.uid and pod.place == (task.role, task.index)]
        started = [pod for pod in own if pod.change is not None]
        if not started:
            raise _silent(pai, task, own[0].reason if own else "")
        return max(started, key=lambda pod: (pod.attempt, pod.retry, not pod.over))


def _does_not_run(key: str, task: TaskPlace, phase: str) -> ClusterError:
    return (NotStartedError if phase == "Pending" else ClusterError)(
        text("task {task} of {job} is not running", task=task, job=key),
        hint=text("which tasks run: paictl job show {job}", job=key),
    )


def _silent(pai: PaiJob, task: TaskPlace, reason: str) -> ClusterError:
    message = text("task {task} of {job} has no container yet, so there is no output", task=task, job=pai.key)
    if reason:
        message = text(
            "task {task} of {job} has no container yet, so there is no output: {reason}",
            task=task,
            job=pai.key,
            reason=reason,
        )
    hint = text("it has not started, or its pod is gone; why it waits: paictl job explain {job}", job=pai.key)
    ended = pai.record is not None and pai.record.closed
    return (ClusterError if ended else NotStartedError)(message, hint=hint)


def _refuse_huge(taken: AdmittedJob) -> None:
    tasks = sum(role.instances for role in taken.job.roles)
    if tasks > MOST_TASKS:
        message = text(
            "{key} has {tasks:,} tasks; the limit for a job is {most:,}", key=taken.key, tasks=tasks, most=MOST_TASKS
        )
        raise ClusterError(message, hint=text("use fewer instances, or several jobs"))


def _no_resource() -> ClusterError:
    return ClusterError(
        text("this cluster cannot run jobs yet"),
        where="paijobs.paictl.io",
        hint=text("start the job controller: paictl service start -n frameworkcontroller"),
    )
