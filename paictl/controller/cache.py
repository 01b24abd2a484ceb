"""What the API server has told: `PaiJob`s, their Jobs and pods, by job, in few words; and who has to be looked at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import SELECTOR, paijobs_path
from paictl.cluster.kubernetes.paijob.resource import PaiJob, read_paijob
from paictl.cluster.kubernetes.paijob.seen import PodSeen, WorkSeen, read_pod, read_work
from paictl.controller.observing import Seen
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.informer import Informer, Times

WORKS: Final = f"/apis/batch/v1/namespaces/{JOBS_NAMESPACE}/jobs"
PODS: Final = f"/api/v1/namespaces/{JOBS_NAMESPACE}/pods"
_OURS: Final = {"labelSelector": SELECTOR}


class Cache:
    """Three informers and what they have told. `changed` is called with the name of a `PaiJob`, from any thread."""

    def __init__(self, client: KubeClient, changed: Callable[[str], None], times: Times | None = None) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._jobs: dict[str, PaiJob] = {}
        self._works: dict[str, dict[str, WorkSeen]] = {}
        self._works_home: dict[str, str] = {}
        """The job of each of them by name."""
        self._pods: dict[str, dict[str, PodSeen]] = {}
        self._ghosts: dict[str, dict[str, PodSeen]] = {}
        """Pods that ended and are gone: how they ended is told by nobody else."""
        self._homes: dict[str, str] = {}
        """The job of each pod by uid."""
        self.informers = (
            Informer(client, paijobs_path(), _Listener(self, self._job, self._job_gone), times=times),
            Informer(client, WORKS, _Listener(self, self._work, self._work_gone), query=_OURS, times=times),
            Informer(client, PODS, _Listener(self, self._pod, self._pod_gone), query=_OURS, times=times),
        )
        for informer in self.informers:
            assert isinstance(informer.listener, _Listener)  # noqa: S101 - just made
            informer.listener.informer = informer

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

    def seen(self, pai: PaiJob) -> Seen:
        """The Jobs and pods of a job, those that ended and are gone among them."""
        with self._lock:
            works = {key: one for key, one in self._works.get(pai.name, {}).items() if one.owner == pai.uid}
            here, gone = self._pods.get(pai.name, {}), self._ghosts.get(pai.name, {})
            return Seen(works, [one for one in (*here.values(), *gone.values()) if one.owner == pai.uid])

    def remember(self, found: Json) -> PaiJob:
        """What the API server has answered to a change of ours, before the watch tells of it."""
        return self._job(found)

    def forget_ghosts(self, name: str, before: int) -> None:
        """Forget pods that are gone of the attempts before one: they are in the record."""
        with self._lock:
            ghosts = self._ghosts.get(name)
            if ghosts:
                self._ghosts[name] = {uid: one for uid, one in ghosts.items() if one.attempt >= before}

    # --- being told

    def _job(self, found: Json) -> PaiJob:
        pai = read_paijob(found)
        with self._lock:
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
                del self._jobs[name]
                self._ghosts.pop(name, None)
        self._changed(name)

    def _work(self, found: Json) -> None:
        work = read_work(found)
        if work is not None:
            with self._lock:
                self._works.setdefault(work.job, {})[work.name] = work
                self._works_home[work.name] = work.job
            self._changed(work.job)

    def _work_gone(self, key: str, uid: str) -> None:
        name = key.rpartition("/")[2]
        with self._lock:
            job = self._works_home.get(name, "")
            works = self._works.get(job, {})
            if name not in works or uid not in ("", works[name].uid):
                return
            del works[name], self._works_home[name]
            if not works:
                del self._works[job]
        self._changed(job)

    def _pod(self, found: Json) -> None:
        pod = read_pod(found)
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
            if pod.over and job in self._jobs:
                self._ghosts.setdefault(job, {})[uid] = pod
        self._changed(job)


def _newer(one: str, other: str) -> bool:
    """Whether a resource version is not older than another (they are numbers, and comparable since Kubernetes 1.35)."""
    return not (one.isdigit() and other.isdigit()) or int(one) >= int(other)


class _Listener:
    """What an informer tells goes to two functions."""

    def __init__(self, cache: Cache, changed: Callable[[Json], Any], gone: Callable[[str, str], None]) -> None:
        self.cache = cache
        self.informer: Informer | None = None
        self._changed = changed
        self._gone = gone

    def changed(self, thing: Json) -> None:
        self._changed(thing)

    def gone(self, key: str, uid: str) -> None:
        self._gone(key, uid)

    def synced(self) -> None:
        assert self.informer is not None  # noqa: S101 - set where it is made
        self.informer.ready.set()


def ask(client: KubeClient, pai: PaiJob) -> Seen:
    """The Jobs and pods of a job as the API server has them now."""
    query = {"labelSelector": f"{SELECTOR},paictl.io/job={pai.name}"}

    def all_of(path: str) -> Iterator[Json]:
        for _, page in client.list(path, query):
            yield from page

    works = [one for one in map(read_work, all_of(WORKS)) if one is not None and one.owner == pai.uid]
    pods = [one for one in map(read_pod, all_of(PODS)) if one is not None and one.owner == pai.uid]
    return Seen({work.name: work for work in works}, pods, sure=True)
