"""Jobs on Kubernetes: `PaiJob`s are made, changed, read and watched; everything else is the job controller's.

A list of 10,000 jobs is 40 MB on the wire and a second of everybody's time. To a process that looks again and again a
watch tells of what has changed.
"""

from __future__ import annotations

import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

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
from paictl.remote.kube.informer import Informer, InformerTimes
from paictl.remote.kube.objects import CONFLICT, NOT_FOUND, find, path_of
from paictl.units import instant
from paictl.workload.tags import with_changes

PODS: Final = path_of(JOBS_NAMESPACE, "pods")
OURS: Final = {"labelSelector": SELECTOR}
REMEMBERED: Final = 10_000
"""Jobs that are remembered as gone: more than can go while one change is under way."""
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
        pod = self._running_pod(self.find(key), task)
        from paictl.remote.kube import podstreams  # late: few commands reach into a pod

        return podstreams.execute(self._client, JOBS_NAMESPACE, pod.name, command, pipes)

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """A connection to a port of a task's pod, by the API server."""
        pod = self._running_pod(self.find(key), task)
        from paictl.remote.kube import podstreams  # late, as in `execute`

        return podstreams.dial(self._client, JOBS_NAMESPACE, pod.name, port)

    def ssh_address(self, key: str, task: TaskPlace) -> SshAddress | None:
        """The port on the task's node that leads to its SSH server; None without the plugin."""
        pai = self.find(key)
        pod = self._running_pod(pai, task)
        name = ssh_name(pai.name, task.role, task.index)
        service = find(self._client, path_of(JOBS_NAMESPACE, "services", name))
        host = str(self._client.get(f"{PODS}/{pod.name}")["status"].get("hostIP", ""))
        ports = ((service or {}).get("spec") or {}).get("ports") or ()
        port = next((port["nodePort"] for port in ports if port.get("nodePort")), None)
        if service is None or port is None or not host:
            return None
        known = (service["metadata"].get("annotations") or {}).get(SSH_HOST_KEY, "")
        return SshAddress(host, int(port), str(known))

    def _running_pod(self, pai: PaiJob, task: TaskPlace) -> PodSummary:
        """The newest pod of a task; raises `ClusterError` unless it runs."""
        pod = self._pod(pai, task)
        if pod.phase != "Running":
            raise (NotStartedError if pod.phase == "Pending" else ClusterError)(
                text("task {task} of {job} is not running", task=task, job=pai.key),
                hint=text("which tasks run: paictl job show {job}", job=pai.key),
            )
        return pod

    def _pod(self, pai: PaiJob, task: TaskPlace) -> PodSummary:
        """The newest pod of a task, of an attempt before where the present one has none yet."""
        if pai.record is not None:
            refuse_task(pai.key, task, [(task.role, task.index) for task in pai.record.status.tasks])
        own = [pod for pod in self.pods(pai.name) if pod.owner == pai.uid and pod.place == (task.role, task.index)]
        started = [pod for pod in own if pod.change is not None]
        if not started:
            raise _silent(pai, task, own[0].reason if own else "")
        return max(started, key=lambda pod: (pod.attempt, pod.retry, not pod.over))


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


# --- watched


class Relay:
    """What an informer tells goes to two functions."""

    def __init__(self, changed: Callable[[Json], Any], gone: Callable[[str, str], None]) -> None:
        self.changed = changed
        self.gone = gone

    def synced(self) -> None:
        """Whether all has been told, the informer knows."""


class JobMirror:
    """Two informers and what they have told. `changed` is called with the name of a `PaiJob`, from any thread."""

    def __init__(self, client: KubeClient, changed: Callable[[str], None], times: InformerTimes | None = None) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._jobs: dict[str, PaiJob] = {}
        self._pods: dict[str, dict[str, PodSummary]] = {}
        self._homes: dict[str, str] = {}
        """The job of each pod by uid."""
        self._gone: OrderedDict[str, None] = OrderedDict()
        """Jobs that are gone, by uid: an answer about one that comes later must not bring it back."""
        self.informers: tuple[Informer, ...] = (
            Informer(client, paijobs_path(), Relay(self._job, self._job_gone), times=times),
            Informer(client, PODS, Relay(self._pod, self._pod_gone), query=OURS, times=times),
        )

    def start(self) -> None:
        """Begin to listen."""
        for informer in self.informers:
            informer.start()

    def stop(self) -> None:
        """Listen no longer."""
        for informer in self.informers:
            informer.stop()

    @property
    def ready(self) -> bool:
        """Whether everything that was there has been told once."""
        return all(informer.ready.is_set() for informer in self.informers)

    @property
    def problem(self) -> str:
        """Why some of it is not told; empty while all is well."""
        return next((informer.problem for informer in self.informers if informer.problem), "")

    # --- looking

    def job(self, name: str) -> PaiJob | None:
        """A `PaiJob`, as new as anybody has told."""
        with self._lock:
            return self._jobs.get(name)

    def jobs(self) -> list[PaiJob]:
        """All of them."""
        with self._lock:
            return list(self._jobs.values())

    def pods(self) -> dict[str, list[PodSummary]]:
        """The pods that are there, by the name of their job's object."""
        with self._lock:
            return {job: list(pods.values()) for job, pods in self._pods.items()}

    def remember(self, body: Json) -> PaiJob:
        """What the API server has answered to a change of ours, before the watch tells of it."""
        return self._job(body, told=False)

    # --- being told

    def _job(self, body: Json, *, told: bool = True) -> PaiJob:
        pai = read_paijob(body)
        with self._lock:
            if not told and pai.uid in self._gone:
                return pai
            known = self._jobs.get(pai.name)
            if known is None or known.uid != pai.uid or _newer(pai.version, known.version):
                self._jobs[pai.name] = known = pai
        self._changed(pai.name)
        return known

    def _job_gone(self, key: str, uid: str) -> None:
        name = key.rpartition("/")[2]
        with self._lock:
            known = self._jobs.get(name)
            if known is not None and uid in ("", known.uid):
                uid = known.uid
                del self._jobs[name]
                self._job_left(name)
            self._gone[uid] = None
            while len(self._gone) > REMEMBERED:
                self._gone.popitem(last=False)
        self._changed(name)

    def _pod(self, body: Json) -> None:
        pod = read_pod(body)
        if pod is not None:
            with self._lock:
                self._pods.setdefault(pod.job, {})[pod.uid] = pod
                self._homes[pod.uid] = pod.job
            self._changed(pod.job)

    def _pod_gone(self, key: str, uid: str) -> None:  # noqa: ARG002 - another pod may have the name
        with self._lock:
            job = self._homes.pop(uid, None)
            pods = self._pods.get(job or "", {})
            pod = pods.pop(uid, None)
            if job is None or pod is None:
                return
            if not pods:
                del self._pods[job]
            self._pod_left(pod)
        self._changed(job)

    def _job_left(self, name: str) -> None:
        """A job is gone; called with the lock held."""

    def _pod_left(self, pod: PodSummary) -> None:
        """A pod is gone; called with the lock held."""


class _Shown(NamedTuple):
    number: int
    view: JobView


class WatchedJobs:
    """A mirror and the views of its jobs, of which only those are made anew that have changed."""

    def __init__(self, client: KubeClient, times: InformerTimes | None = None) -> None:
        self._lock = threading.Lock()
        self._marking = threading.Lock()
        self._stale: set[str] = set()
        self._shown: dict[str, _Shown] = {}
        self._views: list[JobView] | None = None
        """Of `_shown`; None until they were made once."""
        self.mirror = JobMirror(client, self._has_changed, times)

    @property
    def current(self) -> bool:
        """Whether it can stand in for the API server: all was told, and nothing keeps it from being told more."""
        return self.mirror.ready and not self.mirror.problem

    def everything(self) -> tuple[list[PaiJob], dict[str, list[PodSummary]]]:
        """Jobs in order of submission, and their pods."""
        return in_order(self.mirror.jobs()), self.mirror.pods()

    def views(self) -> list[JobView]:
        """All jobs in order of submission, without tasks; the same list until a job changes."""
        with self._lock:
            with self._marking:  # before looking: what changes now is made anew next time
                stale, self._stale = self._stale, set()
            if not stale and self._views is not None:
                return self._views
            jobs, pods = self.everything()
            before, self._shown = self._shown, {}
            for number, pai in enumerate(jobs, 1):
                known = before.get(pai.name)
                if known is None or pai.name in stale or known.number != number:
                    known = _Shown(number, view_of(pai, pods.get(pai.name, ()), number, tasks=False))
                self._shown[pai.name] = known
            self._views = [shown.view for shown in self._shown.values()]
            return self._views

    def _has_changed(self, name: str) -> None:
        with self._marking:
            self._stale.add(name)


def _newer(version: str, other: str) -> bool:
    """Whether a resource version is not older than another (they are numbers, and comparable since Kubernetes 1.35)."""
    return not (version.isdigit() and other.isdigit()) or int(version) >= int(other)
