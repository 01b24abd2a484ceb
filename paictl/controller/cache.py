"""What the API server has told: `PaiJob`s, their Jobs and pods, by job, in few words; and who has to be looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from paictl.cluster.kubernetes.jobs import OURS, PODS, JobMirror, Relay
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import SELECTOR
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, WorkSummary, read_pod, read_work
from paictl.controller.observation import JobObjects
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.informer import Informer, InformerTimes
from paictl.workload.lifecycle import JobStatus

WORKS: Final = f"/apis/batch/v1/namespaces/{JOBS_NAMESPACE}/jobs"


class Cache(JobMirror):
    """A mirror that keeps the Jobs, too, and how the pods that are gone ended, which no other object records."""

    def __init__(self, client: KubeClient, changed: Callable[[str], None], times: InformerTimes | None = None) -> None:
        super().__init__(client, changed, times)
        self._works: dict[str, dict[str, WorkSummary]] = {}
        self._works_home: dict[str, str] = {}
        """The job of each of them by name."""
        self._ghosts: dict[str, dict[str, PodSummary]] = {}
        jobs, pods = self.informers
        works = Informer(client, WORKS, Relay(self._work, self._work_gone), query=OURS, times=times)
        self.informers = (jobs, works, pods)

    def seen(self, pai: PaiJob, status: JobStatus) -> JobObjects:
        """The Jobs and pods of a job, those that ended and are gone among them."""
        with self._lock:
            works = [work for work in self._works.get(pai.name, {}).values() if work.owner == pai.uid]
            pods, gone = self._pods.get(pai.name, {}), self._ghosts.get(pai.name, {})
            own = [pod for pod in (*pods.values(), *gone.values()) if pod.owner == pai.uid]
        return JobObjects(pai.name, pai.job, status, works, own)

    def forget_ghosts(self, name: str, before: int) -> None:
        """Forget pods that are gone of the attempts before one: they are in the record."""
        with self._lock:
            ghosts = self._ghosts.get(name)
            if ghosts:
                self._ghosts[name] = {uid: ghost for uid, ghost in ghosts.items() if ghost.attempt >= before}

    # --- being told

    def _job_left(self, name: str) -> None:
        self._ghosts.pop(name, None)

    def _work(self, manifest: Json) -> None:
        work = read_work(manifest)
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

    def _pod_left(self, pod: PodSummary) -> None:
        if pod.over and pod.job in self._jobs:
            self._ghosts.setdefault(pod.job, {})[pod.uid] = pod


def ask(client: KubeClient, pai: PaiJob, status: JobStatus) -> JobObjects:
    """The Jobs and pods of a job as the API server has them now."""
    query = {"labelSelector": f"{SELECTOR},paictl.io/job={pai.name}"}

    def all_of(path: str) -> Iterator[Json]:
        for _, page in client.list(path, query):
            yield from page

    works = [work for work in map(read_work, all_of(WORKS)) if work is not None and work.owner == pai.uid]
    pods = [pod for pod in map(read_pod, all_of(PODS)) if pod is not None and pod.owner == pai.uid]
    return JobObjects(pai.name, pai.job, status, works, pods, sure=True)
