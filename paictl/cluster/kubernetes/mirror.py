"""`PaiJob`s and their pods as the API server has told of them, for a process that looks again and again.

A list of 10,000 jobs is 40 MB on the wire and a second of everybody's time; a watch tells of what has changed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from paictl.cluster.kubernetes.jobviews import in_order, view_of
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import SELECTOR, paijobs_path
from paictl.cluster.kubernetes.paijob.resource import PaiJob, read_paijob
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, read_pod
from paictl.cluster.values import JobView
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.informer import Informer, InformerTimes
from paictl.remote.kube.objects import path_of

PODS: Final = path_of(JOBS_NAMESPACE, "pods")
OURS: Final = {"labelSelector": SELECTOR}
REMEMBERED: Final = 10_000
"""Jobs that are remembered as gone: more than can go while one change is under way."""


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
