"""Jobs on Kubernetes: `PaiJob`s are made, changed and read; everything else is the job controller's."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from paictl.cluster.jobwords import no_job, refuse_task
from paictl.cluster.kubernetes.jobviews import in_order, view_of
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, job_of
from paictl.cluster.kubernetes.paijob.names import (
    JOB,
    SELECTOR,
    SSH_HOST_KEY,
    TAGS,
    object_name,
    paijobs_path,
    ssh_name,
)
from paictl.cluster.kubernetes.paijob.resource import PaiJob, read_paijob
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, read_pod
from paictl.cluster.maintenance import UNIX
from paictl.cluster.pods.times import promised_at
from paictl.cluster.values import (
    ClusterError,
    ConflictError,
    JobView,
    NotStartedError,
    PromisedStart,
    SshAddress,
    TaskPlace,
)
from paictl.i18n import text
from paictl.remote import Pipes
from paictl.remote.kube import pods
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.objects import CONFLICT, NOT_FOUND, find, path_of
from paictl.units import instant
from paictl.workload.tags import with_changes

if TYPE_CHECKING:
    from paictl.cluster.kubernetes.mirror import WatchedJobs

PODS: Final = path_of(JOBS_NAMESPACE, "pods")
BAD_REQUEST: Final = 400
_NOT_STARTED: Final = {"fieldSelector": "status.phase=Pending"}
_TRIES: Final = 5
"""A change of tags over another's, which writes of the job's status are, too."""


class JobStore:
    """The `PaiJob`s of one cluster, as a client sees them; who looks often lets it see `watched`, too."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self.watched: WatchedJobs | None = None

    # --- changing and looking

    def stop(self, key: str) -> None:
        """Have a job end; nothing to do for one that has."""
        pai = self.find(key)
        if pai.record is not None and pai.record.status.state.final:
            return
        try:
            wish = {"spec": {"stopped": True}}
            self.noted(self._client.request("PATCH", paijobs_path(pai.name), wish, kind=MERGE))
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
                self.noted(self._client.request("PATCH", paijobs_path(pai.name), wish, kind=MERGE))
            except KubeError as error:
                if error.status not in (CONFLICT, NOT_FOUND):
                    raise
                continue
            return tags
        raise ConflictError(text("others keep changing {job}", job=key), hint=text("run the same command again"))

    def noted(self, answer: Json) -> PaiJob:
        """What the API server made of a change of ours: whoever looks next sees it, even if the watch is late."""
        return self.watched.mirror.remember(answer) if self.watched else read_paijob(answer)

    def find(self, key: str) -> PaiJob:
        """One job; raises `ClusterError` with the names that come near if there is none."""
        body = find(self._client, paijobs_path(object_name(key)))
        if body is None or (pai := read_paijob(body)).key != key:
            raise no_job([pai.key for pai in in_order(self.read_all())], key)
        return pai

    def read_all(self, version: str = "") -> Iterator[PaiJob]:
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
        jobs, pods = in_order(self.read_all()), dict[str, list[PodSummary]]()
        if any(pai.record is not None and not pai.record.closed for pai in jobs):
            for pod in self.pods():
                pods.setdefault(pod.job, []).append(pod)
        return jobs, pods

    def pods(self, name: str = "") -> Iterator[PodSummary]:
        """The pods of one job (by the name of its object) or of all."""
        query = {"labelSelector": f"{SELECTOR},{JOB}={name}" if name else SELECTOR}
        for _, page in self._client.list(PODS, query):
            yield from filter(None, map(read_pod, page))

    def promised_starts(self) -> tuple[PromisedStart, ...]:
        """The gangs that wait and were promised a start: of each one pod says so."""
        promises = []
        for _, page in self._client.list("/api/v1/pods", _NOT_STARTED):
            for pod in page:
                at = None if pod["spec"].get("nodeName") else promised_at(pod)
                if at is not None:
                    about = pod["metadata"]
                    promises.append((at, job_of(pod) or f"{about.get('namespace', 'default')}/{about['name']}"))
        return tuple(PromisedStart(job, instant(UNIX, at)) for at, job in sorted(promises))

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
            yield from pods.log(self._client, JOBS_NAMESPACE, pod.name, follow=follow, lines=lines)
        except KubeError as error:
            if error.status not in (BAD_REQUEST, NOT_FOUND):
                raise
            raise _silent(pai, task, pod.reason or error.message) from None

    def execute(self, key: str, task: TaskPlace, command: Sequence[str], pipes: Pipes) -> int:
        """Run a command in the container of a task."""
        pod = self._pod(self.find(key), task)
        if pod.phase != "Running":
            raise _does_not_run(key, task, pod.phase)
        from paictl.remote.kube import podstreams  # late: few commands reach into a pod

        return podstreams.execute(self._client, JOBS_NAMESPACE, pod.name, command, pipes)

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """A connection to a port of a task's pod, by the API server."""
        pod = self._pod(self.find(key), task)
        if pod.phase != "Running":
            raise _does_not_run(key, task, pod.phase)
        from paictl.remote.kube import podstreams  # late, as in `execute`

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
