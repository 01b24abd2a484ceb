"""A cluster in memory that runs jobs: an API server, Kubernetes' own job controller and kubelets, step by step."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from paictl.cluster.kubernetes.jobs import PODS
from paictl.cluster.kubernetes.paijob.record import numbers, ranges
from paictl.controller.cache import WORKS
from paictl.controller.loop import ControlLoop
from paictl.remote.kube.client import Json
from tests.unit.cluster.fakekube import START, FakeKube, _error, _selected, _stamp

SPACE = "/api/v1/namespaces/paictl-jobs"
JOBS = "/apis/paictl.io/v1alpha1/namespaces/paictl-jobs/paijobs"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED = "batch.kubernetes.io/job-index-ignored-failure-count"


class KilledError(BaseException):
    """The process dies here: nothing may catch it."""


class FakeJobs(FakeKube):
    """What `FakeKube` does, and jobs."""

    def __init__(self, objects: dict[str, Json] | None = None) -> None:
        super().__init__(objects)
        self.sent: Counter[str] = Counter()
        self.objects.setdefault(SPACE, {"metadata": {"name": "paictl-jobs"}})
        self.made: Counter[tuple[str, ...]] = Counter()
        """Pods by job, attempt, role, index and tries before: more than one is once too often."""
        self.overlaps: list[str] = []
        """Pods that were made while some of an attempt before went on."""
        self.serial = 0
        self.revision = 0
        self.past: dict[str, list[Json]] = {}
        """The jobs at each version at which one of them was written."""
        self.clock: Callable[[], str] = _stamp
        """The time at which pods start, and are rejected."""

    def _done(self, method: str, path: str, body: Any, query: dict[str, object]) -> Json:
        if method == "GET" and path == JOBS and query.get("resourceVersionMatch") == "Exact":
            return {"items": self.past[str(query["resourceVersion"])]}
        if method == "GET" and path in (JOBS, WORKS, PODS):
            found = [one for at, one in self.objects.items() if at.rpartition("/")[0] == path]
            return {"items": [one for one in found if _selected(one, str(query.get("labelSelector", "")))]}
        if method == "POST" and "metadata" in body:
            self.serial += 1
            body["metadata"].setdefault("uid", f"uid-{self.serial}")
        if method == "PUT" and path.endswith("/status"):
            known = self.objects.get(path.removesuffix("/status"))
            if known is None:
                raise _error(404, "is not there")
            if body["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"]:
                raise _error(409, "has been modified")
            return self._kept(path.removesuffix("/status"), {**known, "status": body["status"]})
        if method == "PATCH" and path in self.objects:
            return self._kept(path, _merged(self.objects[path], body))
        return super()._done(method, path, body, query)

    def _kept(self, path: str, body: Json) -> Json:
        kept = super()._kept(path, body)
        self.revision = max(self.revision + 1, int(kept["metadata"]["resourceVersion"]))
        kept["metadata"]["resourceVersion"] = str(self.revision)
        if path.startswith(f"{JOBS}/"):
            jobs = [job for at, job in self.objects.items() if at.startswith(f"{JOBS}/")]
            self.past[str(self.revision)] = copy.deepcopy(jobs)
        return kept

    # --- Kubernetes

    def run(self, dice: random.Random, ends: Mapping[str, int | None]) -> bool:
        """A step of the job controller and of the kubelets; whether anything has changed.

        `ends` has the exit codes of pods by role; None: they go on.
        """
        before = copy.deepcopy(self.objects)
        for path, work in list(self.objects.items()):
            if path.startswith(f"{WORKS}/"):
                self._control(work)
        for path, pod in list(self.objects.items()):
            if path.startswith(f"{PODS}/"):
                self._live(path, pod, dice, ends)
        return self.objects != before

    def _control(self, work: Json) -> None:
        status = work.setdefault("status", {})
        done, failed = set(numbers(status.get("completedIndexes", ""))), set(numbers(status.get("failedIndexes", "")))
        own = [pod for pod in self.pods() if pod["metadata"]["ownerReferences"][0]["uid"] == work["metadata"]["uid"]]
        limit = work["spec"]["backoffLimitPerIndex"]
        ignores = work["spec"]["podFailurePolicy"]["rules"][0]["action"] == "Ignore"
        for index in range(work["spec"]["completions"]):
            tries = [pod for pod in own if pod["metadata"]["annotations"][INDEX] == str(index)]
            if any(pod["status"]["phase"] == "Succeeded" for pod in tries):
                done.add(index)
            going = [pod for pod in tries if pod["status"]["phase"] in ("Pending", "Running")]
            if work["spec"].get("suspend"):
                for pod in going:
                    del self.objects[f"{PODS}/{pod['metadata']['name']}"]
                continue
            if going or index in done or index in failed:
                continue
            bad = [pod for pod in tries if pod["status"]["phase"] == "Failed"]
            ignored = sum(map(_is_disturbed, bad)) if ignores else 0
            if len(bad) - ignored > limit:
                failed.add(index)
            else:
                self._pod(work, index, len(bad) - ignored, ignored)
        status["completedIndexes"], status["failedIndexes"] = ranges(done), ranges(failed)
        if len(done | failed) == work["spec"]["completions"]:
            status["conditions"] = [{"type": "Failed" if failed else "Complete", "status": "True"}]

    def _pod(self, work: Json, index: int, failures: int, ignored: int) -> None:
        self.serial += 1
        template = copy.deepcopy(work["spec"]["template"])
        about = template["metadata"]
        about["annotations"] |= {INDEX: str(index), FAILURES: str(failures), IGNORED: str(ignored)}
        about |= {
            "name": f"{work['metadata']['name']}-{index}-{self.serial}",
            "namespace": "paictl-jobs",
            "uid": f"uid-{self.serial}",
            "ownerReferences": [{"uid": work["metadata"]["uid"]}],
            "creationTimestamp": _stamp(),
        }
        noted, labels = about["annotations"], about["labels"]
        task = noted.get("paictl.io/task", str(index))
        mine = [pod for pod in self.live() if pod["metadata"]["labels"]["paictl.io/job"] == labels["paictl.io/job"]]
        if any(pod["metadata"]["labels"]["paictl.io/attempt"] < labels["paictl.io/attempt"] for pod in mine):
            self.overlaps.append(about["name"])
        tries = failures + ignored + int(noted.get("paictl.io/retry", 0))
        self.made[labels["paictl.io/job"], labels["paictl.io/attempt"], noted["paictl.io/role"], task, str(tries)] += 1
        body = {"metadata": about, "spec": {**template["spec"], "nodeName": "n0"}, "status": {"phase": "Pending"}}
        self._kept(f"{PODS}/{about['name']}", body)

    def _live(self, path: str, pod: Json, dice: random.Random, ends: Mapping[str, int | None]) -> None:
        phase, code = pod["status"]["phase"], ends.get(pod["metadata"]["annotations"]["paictl.io/role"])
        if phase == "Pending":
            self._kept(path, {**pod, "status": {"phase": "Running", "startTime": self.clock()}})
        elif phase == "Running" and code is not None and dice.random() < 0.7:
            state = {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": _stamp()}}
            status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"state": state}]}
            self._kept(path, {**pod, "status": {**pod["status"], **status}})

    def disturb(self, name: str) -> None:
        """A pod is evicted, and gone before anybody looks."""
        path = f"{PODS}/{name}"
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "away"}
        pod = self.objects[path]
        self._kept(path, {**pod, "status": {**pod["status"], "phase": "Failed", "conditions": [condition]}})

    def reject(self, name: str, reason: str) -> None:
        """The kubelet does not admit a pod: it has failed, and none of its containers has a status."""
        path = f"{PODS}/{name}"
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.clock()}
        status = {
            "phase": "Failed",
            "reason": reason,
            "message": f"Pod was rejected: {reason}",
            "conditions": [bound],
        }
        self._kept(path, {**self.objects[path], "status": status})

    def pods(self) -> Iterator[Json]:
        return iter([one for path, one in self.objects.items() if path.startswith(f"{PODS}/")])

    def live(self) -> list[Json]:
        return [pod for pod in self.pods() if pod["status"]["phase"] in ("Pending", "Running")]


def _is_disturbed(pod: Json) -> bool:
    return any(one["type"] == "DisruptionTarget" for one in pod["status"].get("conditions") or ())


def _merged(known: Json, change: Json) -> Json:
    found = dict(known)
    for key, value in change.items():
        found[key] = _merged(known.get(key) or {}, value) if isinstance(value, dict) else value
    return found


class Bench:
    """A controller over such a cluster, whose informers are as new as the last `tell`."""

    def __init__(self, kube: FakeJobs) -> None:
        self.kube = kube
        self.now = START
        self.loop = ControlLoop(kube, lambda: 60.0, lambda _: None, clock=lambda: datetime.now(UTC) + self.ahead)
        self.ahead = timedelta()
        """How far the controller's clock is ahead: pauses pass by setting it."""
        self.told: set[str] = set()

    def tell(self) -> None:
        """What informers would have told by now."""
        cache, there = self.loop.cache, set(self.kube.objects)
        for path in self.told - there:
            known = path.rpartition("/")[2]
            if path.startswith(f"{WORKS}/"):
                cache._work_gone(f"paictl-jobs/{known}", "")
            elif path.startswith(f"{PODS}/"):
                for uid in [uid for pods in cache._pods.values() for uid, pod in pods.items() if pod.name == known]:
                    cache._pod_gone(f"paictl-jobs/{known}", uid)
        for path, one in list(self.kube.objects.items()):
            if path.startswith(f"{JOBS}/"):
                cache._job(one)
            elif path.startswith(f"{WORKS}/"):
                cache._work(one)
            elif path.startswith(f"{PODS}/"):
                cache._pod(one)
        self.told = there

    def look(self) -> None:
        """Every job is looked at once, with what has been told."""
        for path in [path for path in self.kube.objects if path.startswith(f"{JOBS}/")]:
            self.loop.look(path.rpartition("/")[2])
