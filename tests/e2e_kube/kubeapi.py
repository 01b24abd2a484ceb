"""The API server as the tests see it: plain JSON over HTTPS, nothing of paictl, so that no mistake hides itself."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import yaml

from tests.e2e_kube.controlplane import ControlPlane

Json = dict[str, Any]

MARKER = "hivedscheduler.microsoft.com/pod-scheduling-enable"
PLUGIN = "nvidia.com/gpu"
SPEC = "hivedscheduler.microsoft.com/pod-scheduling-spec"
ISOLATION = "hivedscheduler.microsoft.com/pod-leaf-cell-isolation"
INFO = "hivedscheduler.microsoft.com/pod-bind-info"
GATED: Json = {"schedulerName": "default-scheduler", "schedulingGates": [{"name": "paictl.io/cells"}]}
"""How a pod says that the placer is to place it."""


class ApiError(AssertionError):
    """An answer outside 2xx."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"{status} {body[:500]}")
        self.status = status


class KubeApi:
    """Requests as an administrator."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._own = threading.local()
        self.plugin = False
        """Whether nodes have their devices as `PLUGIN`: then pods that would ask by the marker ask for these."""
        self.gated = False
        """Whether the placer places: then pods that would ask the extender carry its gate."""

    def _connection(self) -> http.client.HTTPSConnection:
        if getattr(self._own, "connection", None) is None:
            host = self.plane.server.removeprefix("https://")
            self._own.connection = http.client.HTTPSConnection(host, context=self.plane.context, timeout=120)
        return self._own.connection  # type: ignore[no-any-return]

    def call(self, method: str, path: str, body: object = None, kind: str = "application/json", user: str = "") -> Any:
        """The answer as JSON, to `user` if one is given; raises `ApiError`. A broken connection is opened once more."""
        headers = {"Content-Type": kind, **({"Impersonate-User": user} if user else {})}
        data = None if body is None else json.dumps(body)
        for last in (False, True):
            connection = self._connection()
            try:
                connection.request(method, path, data, headers)
                reply = connection.getresponse()
                text = reply.read().decode()
                break
            except (OSError, http.client.HTTPException):
                connection.close()
                self._own.connection = None
                if last:
                    raise
        if reply.status >= 300:
            raise ApiError(reply.status, text)
        return json.loads(text)

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def patch(self, path: str, body: object) -> Any:
        return self.call("PATCH", path, body, "application/merge-patch+json")

    def apply(self, manifest: Mapping[str, Any], path: str) -> Any:
        """Server-side apply; a field that the API server does not know is an error."""
        query = "?fieldManager=test&force=true&fieldValidation=Strict"
        return self.call("PATCH", f"{path}{query}", manifest, "application/apply-patch+yaml")

    # --- nodes

    def add_nodes(self, names: Iterable[str], **capacity: str) -> None:
        """Nodes that kwok keeps ready; capacity beside CPU and memory, ``__`` in a name stands for a slash."""
        extra = {name.replace("__", "/").replace("_", "."): value for name, value in capacity.items()}
        amount = {"cpu": "96", "memory": "768Gi", "pods": "256", MARKER: "256", **extra}
        amount.pop(MARKER)

        def add(name: str) -> None:
            labels = {"type": "kwok", "kubernetes.io/hostname": name}
            status = {"capacity": amount, "allocatable": amount}
            self.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(add, names))

    def add_master(self, name: str) -> None:
        """A node for which no pod is meant."""
        labels = {"type": "kwok", "kubernetes.io/hostname": name, "node-role.kubernetes.io/control-plane": ""}
        taint = {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}
        amount = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        status = {"capacity": amount, "allocatable": amount}
        node = {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}, "status": status}
        self.call("POST", "/api/v1/nodes", node)

    def set_address(self, node: str, address: str) -> None:
        """Say where a node is, once kwok has made it ready: with that it says the same of all."""
        until(lambda: _ready(self.get(f"/api/v1/nodes/{node}")), 120, f"node {node}")
        addresses = [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": node}]
        self.patch(f"/api/v1/nodes/{node}/status", {"status": {"addresses": addresses}})

    def await_nodes(self, number: int, seconds: float = 120) -> None:
        """Until so many nodes are ready and take pods."""
        until(lambda: sum(map(_usable, self.get("/api/v1/nodes")["items"])) >= number, seconds, f"{number} nodes")

    # --- pods

    def pods(self, namespace: str = "default") -> list[Json]:
        found: list[Json] = self.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return found

    def pod(self, name: str, namespace: str = "default") -> Json | None:
        try:
            found: Json = self.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def create(self, pod: Mapping[str, Any]) -> Json:
        namespace = pod["metadata"].get("namespace", "default")
        asked = _by_plugin(pod) if self.plugin else pod
        if self.gated:
            asked = {**asked, "spec": {**asked["spec"], **GATED}}
        made: Json = self.call("POST", f"/api/v1/namespaces/{namespace}/pods", asked)
        return made

    def delete(self, name: str, namespace: str = "default", grace: int = 0) -> None:
        """Gone or already gone."""
        try:
            self.call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}?gracePeriodSeconds={grace}")
        except ApiError as error:
            if error.status != 404:
                raise

    def delete_all(self, namespace: str = "default") -> None:
        try:
            self.call("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        except ApiError as error:
            if error.status != 504:  # thousands of pods on a busy machine: it goes on without us
                raise
        until(lambda: not self.pods(namespace), 120, "all pods are gone")
        self.call("DELETE", f"/api/v1/namespaces/{namespace}/events")  # what is said later is about other pods

    def delete_workloads(self, namespace: str) -> None:
        """All of a namespace that makes pods, and these pods."""
        # ReplicaSets, too: the garbage collector may be behind for minutes after an API server that was away, and a
        # ReplicaSet that is left makes each pod anew.
        for kind in ("deployments", "replicasets", "statefulsets", "daemonsets", "jobs"):
            with contextlib.suppress(ApiError):  # nobody has made the namespace yet
                group = "batch" if kind == "jobs" else "apps"
                path = f"/apis/{group}/v1/namespaces/{namespace}/{kind}"
                self.call("DELETE", f"{path}?propagationPolicy=Background")

        def gone() -> bool:
            pods = self.pods(namespace)
            for pod in pods:  # at once: the node of one may be gone, and then no kubelet says that it has ended
                self.delete(pod["metadata"]["name"], namespace)
            return not pods

        until(gone, 60, lambda: f"still there: {[(p['metadata'], p['status']) for p in self.pods(namespace)]}")

    def node_of(self, name: str, namespace: str = "default") -> str:
        """Where a pod is bound; empty if it is not."""
        found = self.pod(name, namespace)
        return str(found["spec"].get("nodeName", "")) if found else ""

    def phase(self, name: str, namespace: str = "default") -> str:
        """What a pod's status says; empty if there is none of that name."""
        found = self.pod(name, namespace)
        return str(found["status"].get("phase", "")) if found else ""

    def await_bound(self, names: Iterable[str], seconds: float = 30) -> dict[str, Json]:
        """The pods once all of them are bound."""
        wanted = set(names)
        found: dict[str, Json] = {}

        def done() -> bool:
            found.update({p["metadata"]["name"]: p for p in self.pods() if p["spec"].get("nodeName")})
            return wanted <= found.keys()

        until(done, seconds, lambda: f"bound: {sorted(wanted - found.keys())}\n{self.plight(wanted - found.keys())}")
        return {name: found[name] for name in wanted}

    def plight(self, names: Iterable[str]) -> str:
        """What is said about pods that are not where they should be."""
        said = []
        for name in sorted(names)[:8]:
            pod = self.pod(name)
            if pod is None:
                said.append(f"{name}: is not there")
                continue
            condition: Json = next((c for c in pod["status"].get("conditions", []) if c["type"] == "PodScheduled"), {})
            said.append(f"{name}: {condition.get('reason')}: {condition.get('message')}")
            said += [f"  {event['reason']}: {event.get('message')}" for event in self.events(name)]
        return "\n".join(said)

    def events(self, name: str, namespace: str = "default") -> list[Json]:
        selector = f"involvedObject.name={name}"
        found: list[Json] = self.get(f"/api/v1/namespaces/{namespace}/events?fieldSelector={selector}")["items"]
        return found


def hived_pod(name: str, spec: Mapping[str, Any], *, scheduler: str = "hivedscheduler", **more: Any) -> Json:
    """A pod as HiveD's users write it: the annotation, the marker, and the devices handed on by a field reference."""
    isolation = {"fieldRef": {"fieldPath": f"metadata.annotations['{ISOLATION}']"}}
    container = {
        "name": "main",
        "image": "none",
        "resources": {"limits": {MARKER: 1}},
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": isolation}],
    }
    metadata = {"name": name, "annotations": {SPEC: json.dumps(spec)}, **more.pop("metadata", {})}
    body = {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 1, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body}


def _by_plugin(pod: Mapping[str, Any]) -> Json:
    """The pod as its user writes it on nodes with a device plugin."""
    asked: Json = json.loads(json.dumps(pod))
    spec = yaml.safe_load(asked["metadata"].get("annotations", {}).get(SPEC, "{}"))
    for container in asked["spec"]["containers"]:
        limits = container.get("resources", {}).get("limits", {})
        if limits.pop(MARKER, None):
            limits[PLUGIN] = spec["leafCellNumber"]
    return asked


def devices(pod: Mapping[str, Any]) -> list[int]:
    """The devices that a bound pod was given."""
    return [int(part) for part in pod["metadata"]["annotations"][ISOLATION].split(",")]


def until(condition: Callable[[], object], seconds: float, what: str | Callable[[], str]) -> None:
    """Wait until something holds: the seconds of a calm machine, thrice where two suites share two cores."""
    end = time.monotonic() + 3 * seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {3 * seconds:g} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.1)


def bystander(name: str) -> Json:
    """A pod for which nobody here decides anything."""
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "none"}]},
    }


def await_denied(attempt: Callable[[], object], what: str) -> None:
    """Until the API server refuses something, as it does a while after it was given a policy."""

    def denied() -> bool:
        try:
            attempt()
        except ApiError:
            return True
        return False

    until(denied, 30, f"{what} is refused")


def dies(api: KubeApi, node: str) -> None:
    """A node's kubelet ends and nobody stands in for it: it is not Ready, and its pods stay as they are."""
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"type": "dead"}}})
    status: Json = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "Dead"}]}}
    api.call("PATCH", f"/api/v1/nodes/{node}/status", status, "application/strategic-merge-patch+json")


def _ready(node: Json) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))


def _usable(node: Json) -> bool:
    return _ready(node) and not node["spec"].get("taints")
