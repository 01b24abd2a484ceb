"""Logs, states and events for a problem report: what is read, within which bounds, and what is said of the rest."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paictl.cluster.capabilities import Diagnostics, LogLimits
from paictl.cluster.kubernetes.diagnostics import read_diagnostics
from paictl.cluster.kubernetes.services.port import KubeServices
from paictl.cluster.kubernetes.store import VersionStore
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from tests.unit.cluster.fakekube import FakeKube

OURS, SYSTEM = "/api/v1/namespaces/paictl-system", "/api/v1/namespaces/kube-system"
FOR_A_MINUTE = time.monotonic() + 3600


class Logging(FakeKube):
    """A server whose containers have written something, by ``NAMESPACE/POD/CONTAINER``, with ``-`` for previous."""

    def __init__(self) -> None:
        super().__init__()
        self.logs: dict[str, bytes | Exception] = {}
        self.asked: list[tuple[str, int]] = []
        self.refused: dict[str, Exception] = {}

    def get(self, path: str, *, query: Mapping[str, object] | None = None, timeout: float = 1.0) -> Json:
        if path in self.refused:
            raise self.refused[path]
        if path.endswith("/events"):
            return {"items": self._listed(path, {})}
        return super().get(path, query=query, timeout=timeout)

    def _listed(self, path: str, query: dict[str, object]) -> list[Json]:
        found = super()._listed(path, query if not str(query.get("labelSelector", "")).startswith("!") else {})
        if str(query.get("labelSelector", "")).startswith("!"):
            return [one for one in found if "paictl.io/record" not in (one["metadata"].get("labels") or {})]
        return found

    def open(self, path: str, query: Mapping[str, object], read: float) -> Any:  # noqa: ARG002
        _, _, _, _, namespace, _, pod, _ = path.split("/")
        name = f"{namespace}/{pod}/{query['container']}{'-' if query.get('previous') else ''}"
        self.asked.append((name, int(str(query["tailLines"]))))
        found = self.logs.get(name, KubeError("no log", status=404))
        if isinstance(found, Exception):
            raise found
        return _Chunks(b"".join(found.splitlines(keepends=True)[-int(str(query["tailLines"])) :]))


class _Chunks:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def chunks(self) -> Iterator[bytes]:
        for at in range(0, len(self.data), 1 << 16):
            yield self.data[at : at + (1 << 16)]


def add_pod(
    kube: Logging, path: str, name: str, owner: str, *, restarts: int = 0, waiting: str = "", log: bytes | None = b"x\n"
) -> None:
    state = {"waiting": {"reason": waiting, "message": "not there"}} if waiting else {"running": {"startedAt": "t"}}
    status: Json = {"name": "main", "restartCount": restarts, "state": state, "image": "i", "ready": not restarts}
    if restarts:
        status["lastState"] = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    namespace = path.rpartition("/")[2]
    kube.objects[f"{path}/pods/{name}"] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "ownerReferences": [{"kind": "ReplicaSet", "name": owner}],
            "labels": {"paictl.io/service": owner},
            "annotations": {"a": "planted-annotation"},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "K", "value": "planted-env"}],
                    "resources": {"limits": {"memory": "1Gi"}},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [status],
            "conditions": [{"type": "Ready", "status": "False" if restarts or waiting else "True"}],
        },
    }
    if log is not None:
        kube.logs[f"{namespace}/{name}/main"] = log


def read(kube: Logging, **limits: Any) -> Diagnostics:
    return read_diagnostics(kube, LogLimits(**{"until": FOR_A_MINUTE, **limits}), lambda _: None)


def texts(found: Diagnostics) -> dict[str, str]:
    return {f"{one.namespace}/{one.pod}/{one.container}{'-' if one.previous else ''}": one.text for one in found.logs}


def test_both_namespaces_are_read_and_the_container_before_a_restart() -> None:
    kube = Logging()
    add_pod(kube, OURS, "rest-1", "rest", restarts=2, log=b"now\n")
    kube.logs["paictl-system/rest-1/main-"] = b"before\n"
    add_pod(kube, SYSTEM, "kube-apiserver-m1", "m1", log=b"api\n")
    add_pod(kube, "/api/v1/namespaces/paictl-jobs", "job-0", "job", log=b"a tenant's\n")
    at = "2026-11-22T05:00:00Z"
    about = {"kind": "Pod", "name": "rest-1", "namespace": "paictl-system"}
    kube.objects[f"{OURS}/events/e"] = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "lastTimestamp": at,
        "reason": "BackOff",
        "message": "m",
    }
    found = read(kube)
    assert texts(found) == {
        "paictl-system/rest-1/main": "now\n",
        "paictl-system/rest-1/main-": "before\n",
        "kube-system/kube-apiserver-m1/main": "api\n",
    }
    assert found.missing == {}
    (state,) = (one for one in found.pods if one["name"] == "rest-1")
    (container,) = state["containers"]
    assert (container["restarts"], container["last_state"]["terminated"]["reason"]) == (2, "OOMKilled")
    assert (state["node"], state["service"], container["resources"]["limits"]) == ("n1", "rest", {"memory": "1Gi"})
    assert "planted" not in json.dumps([dict(one) for one in found.pods])
    assert [(one["at"], one["reason"], one["object"]) for one in found.events] == [(at, "BackOff", "Pod/rest-1")]
    assert not any("paictl-jobs" in path for _, path in kube.requests), "pods of jobs are not even listed"


def test_what_cannot_be_read_is_named_and_keeps_nothing_away() -> None:
    kube = Logging()
    add_pod(kube, OURS, "grafana-1", "grafana", waiting="ImagePullBackOff", log=None)
    add_pod(kube, OURS, "rest-1", "rest")
    add_pod(kube, OURS, "gone-1", "gone", log=None)
    add_pod(kube, OURS, "far-1", "far", log=None)
    kube.logs["paictl-system/far-1/main"] = NoAnswerError("timed out")
    for kind in ("pods", "events"):
        kube.refused[f"{SYSTEM}/{kind}"] = KubeError(f"{kind} is forbidden", status=403)
    kube.refused[f"{OURS}/secrets"] = KubeError("secrets is forbidden", status=403)
    found = read(kube)
    assert list(texts(found)) == ["paictl-system/rest-1/main"]
    assert dict(found.missing) == {
        "values of Secrets": "secrets is forbidden",
        "pods of kube-system": "pods is forbidden",
        "events of kube-system": "events is forbidden",
        "log paictl-system/grafana-1/main": "has not started: ImagePullBackOff: not there",
        "log paictl-system/gone-1/main": "no log",
        "log paictl-system/far-1/main": "does not answer: timed out",
    }


def test_a_large_log_keeps_its_newest_whole_lines() -> None:
    kube = Logging()
    lines = [f"{number:07d} {'x' * 91}\n".encode() for number in range(3000)]
    add_pod(kube, OURS, "rest-1", "rest", log=b"".join(lines))
    (log,) = read(kube, lines=2000, container_bytes=1050).logs
    assert log.text == b"".join(lines[-10:]).decode()
    assert log.cut
    (log,) = read(kube, lines=5).logs
    assert (log.text, log.cut) == (b"".join(lines[-5:]).decode(), False)


def test_lines_beyond_measure_are_asked_for_again_and_fewer() -> None:
    """The server gives the oldest first, so the newest come only if few enough are asked for."""
    kube = Logging()
    lines = [f"{number} {'x' * (64 << 10)}\n".encode() for number in range(200)]
    add_pod(kube, OURS, "rest-1", "rest", log=b"".join(lines))
    (log,) = read(kube).logs
    assert [asked for _, asked in kube.asked] == [2000, 250, 31]
    assert log.text.splitlines()[-1].startswith("199 ")
    assert log.cut
    assert len(log.text) <= 256 << 10


def test_one_pod_of_each_workload_comes_first_and_those_in_trouble_before_others() -> None:
    kube = Logging()
    for number in range(9):
        add_pod(kube, OURS, f"exporter-{number}", "exporter", restarts=int(number == 5))
    add_pod(kube, OURS, "rest-1", "rest")
    add_pod(kube, SYSTEM, "etcd-m1", "m1")
    kube.logs["paictl-system/exporter-5/main-"] = b"crashed\n"
    found = read(kube, containers=4)
    assert list(texts(found)) == [
        "paictl-system/exporter-5/main",
        "paictl-system/exporter-5/main-",
        "paictl-system/rest-1/main",
        "kube-system/etcd-m1/main",
    ]
    assert len(found.missing) == 8
    assert set(found.missing.values()) == {"only the logs of 4 containers are collected"}


def test_size_and_time_are_bounded() -> None:
    kube = Logging()
    for number in range(8):
        add_pod(kube, OURS, f"rest-{number}", f"rest-{number}", log=b"y" * 99 + b"\n")
    found = read(kube, total_bytes=300)
    assert sum(len(one.text) for one in found.logs) == 300
    assert len(found.missing) == 5
    late = read(kube, until=time.monotonic() - 1)
    assert (late.logs, late.pods) == ([], [])
    assert set(late.missing.values()) == {"timed out; raise --timeout"}


def coded_login() -> str:
    return base64.b64encode(b"user:planted-login").decode()


def test_secrets_are_known_by_value_and_accounts_are_left_out() -> None:
    kube = Logging()

    def keep(name: str, data: dict[str, str], labels: Mapping[str, str] | None = None) -> None:
        coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        kube.objects[f"{OURS}/secrets/{name}"] = {"metadata": {"name": name, "labels": labels or {}}, "data": coded}

    keep("configuration", {"k1": "str:planted-password"})
    keep("regsecret", {".dockerconfigjson": json.dumps({"auths": {"r": {"password": "planted-registry"}}})})
    keep("tls", {"tls.key": "-----BEGIN\n" + "k" * 64 + "\n", "ca.crt": "public-certificate", "namespace": "paictl"})
    keep("file", {"password": "planted-file\n", "list": "pass-word\nshort1\nlog:\n"})
    keep("neutral", {"a.json": json.dumps({"x": {"y": ["planted-leaf"]}, "auth": coded_login()}), "lone": '"\\ud800"'})
    keep("address", {"uri": "postgres://u:planted%2Durl@h/db"})
    keep("user", {"record": "planted-hash"}, {"paictl.io/record": "account"})
    secrets = read(kube).secrets
    assert {"planted-password", "planted-registry", "k" * 64} <= secrets
    assert {"planted-file", "pass-word", "short1", "planted-leaf", "planted-login"} <= secrets
    assert {"planted-url", "planted%2Durl"} <= secrets
    assert not {"public-certificate", "paictl", "planted-hash"} & secrets
    assert "planted" not in repr(read(kube))


def test_services_of_printed_manifests_are_found_by_what_runs() -> None:
    kube = Serving()
    labels = {"app.kubernetes.io/part-of": "paictl", "app.kubernetes.io/version": "1.2"}
    kube.workloads = {
        "deployments": [
            workload("hivedscheduler-extender", {**labels, "app.kubernetes.io/name": "hivedscheduler-extender"}, 2),
            workload("prometheus", {**labels, "paictl.io/service": "prometheus"}, 0),
        ],
        "daemonsets": [],
        "statefulsets": [],
    }
    services = KubeServices(kube, VersionStore(kube), lambda: "pai")
    found = {one.name: one for one in services.unrecorded()}
    assert list(found) == ["hivedscheduler", "prometheus"]
    assert (found["hivedscheduler"].ready, found["hivedscheduler"].version) == (True, "1.2")
    assert found["prometheus"].running
    assert found["prometheus"].reason == "Deployment prometheus: 0 of 2 pods are ready"
    assert list(services.services()) == [], "nobody has started them from here"


class Serving(Logging):
    workloads: Mapping[str, Sequence[Json]] = {}

    def get(self, path: str, *, query: Mapping[str, object] | None = None, timeout: float = 1.0) -> Json:
        kind = path.rpartition("/")[2]
        if path.startswith("/apis/apps/v1/namespaces/paictl-system/") and kind in self.workloads:
            return {"items": list(self.workloads[kind])}
        return (
            {"items": []}
            if path == "/api/v1/pods" or kind == "events"
            else super().get(path, query=query, timeout=timeout)
        )


def workload(name: str, labels: Mapping[str, str], ready: int) -> Json:
    about = {
        "name": name,
        "namespace": "paictl-system",
        "labels": dict(labels),
        "uid": name,
        "creationTimestamp": "2026-11-22T05:00:00Z",
    }
    status = {"updatedReplicas": 2, "availableReplicas": ready, "readyReplicas": ready, "replicas": 2}
    return {"metadata": about, "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}}, "status": status}
