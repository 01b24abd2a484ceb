"""The extender over real HTTP, with the API server played by the test."""

from __future__ import annotations

import http.client
import json
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from paictl.cells.spec import ClusterSpec
from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors.binder import Binder
from paictl.doors.callers import Guard
from paictl.doors.core import Binding, DoorCore, DoorOptions
from paictl.doors.metrics import DoorMetrics
from paictl.doors.pod_events import PodEvent
from paictl.doors.reconciler import Reconciler
from paictl.doors.table import pod_ref
from paictl.extender.server import ExtenderApi
from paictl.extender.verbs import bind, filter_nodes
from paictl.extender.wire import BindArgs, FilterArgs, FilterResult
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.scheduler.wire import SCHEDULING_SPEC
from paictl.serving.connections import serving


def pod(name: str, spec: object, uid: str = "", namespace: str = "default", **about: Any) -> Json:
    """A pod object; `spec` is the scheduling spec, a text stands as it is."""
    text = spec if isinstance(spec, str) else json.dumps(spec)
    noted = {} if spec is None else {SCHEDULING_SPEC: text}
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", "annotations": noted, **about}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {"phase": "Pending"}}


def gang(name: str, pods: int, leaves: int, vc: str = "A", priority: int = 0, **more: Any) -> list[Json]:
    """All pods of an affinity group."""
    members = [{"podNumber": pods, "leafCellNumber": leaves}]
    asked = {
        "virtualCluster": vc,
        "priority": priority,
        "leafCellNumber": leaves,
        "affinityGroup": {"name": f"default/{name}", "members": members},
        **more,
    }
    return [pod(f"{name}-{i}", asked) for i in range(pods)]


class FakeServer:
    """Pods by name; what `paictl.remote.kube.pods` does to them happens here."""

    where = "test"

    def __init__(self) -> None:
        self.pods: dict[str, Json] = {}
        self.calls: list[str] = []
        self._bodies: list[Json] = []
        self.locked: Callable[[], bool] = lambda: False
        self.refuse: dict[str, KubeError | NoAnswerError] = {}
        """Answers by the last part of the path (``binding``, ``eviction``), and by that and a pod's name."""
        self.budgets: list[Json] = []
        self.noted_nodes: dict[str, Json] = {}
        """Annotations by node."""
        self.asked_nodes = 0

    def get(self, path: str, **_: object) -> Json:
        return self.request("GET", path)

    def sent(self, call: str) -> list[Json]:
        """The bodies of calls that begin so."""
        return [body for made, body in zip(self.calls, self._bodies, strict=True) if made.startswith(call)]

    def list(self, path: str) -> Iterator[tuple[str, list[Json]]]:
        assert not self.locked(), "nobody waits for the network in the lock"
        assert path.endswith("/poddisruptionbudgets")
        yield "1", self.budgets

    def request(self, method: str, path: str, body: Any = None, **_: object) -> Json:
        assert not self.locked(), "nobody waits for the network in the lock"
        parts = path.split("/")
        if parts[3] == "nodes":
            return self._note_node(parts[4], body)
        namespace, name, part = parts[4], parts[6], parts[7] if len(parts) > 7 else ""
        only_asked = bool(body and body.get("deleteOptions", {}).get("dryRun"))
        self.calls.append(f"{'ASK' if only_asked else method} {part or 'pod'} {name}")
        self._bodies.append(body or {})
        found = self.pods.get(f"{namespace}/{name}")
        if found is None:
            raise KubeError("not found", status=404, reason="NotFound")
        if (error := self.refuse.get(part) or self.refuse.get(f"{part} {name}")) is not None:
            raise error
        if method == "PATCH":
            if body["metadata"].get("uid", found["metadata"]["uid"]) != found["metadata"]["uid"]:
                raise KubeError("the UID in the precondition is another", status=409, reason="Conflict")
            found["metadata"]["annotations"] |= body["metadata"].get("annotations", {})
            for condition in body.get("status", {}).get("conditions", ()):
                known = found["status"].setdefault("conditions", [])
                known[:] = [*(one for one in known if one["type"] != condition["type"]), condition]
        if part == "binding":
            if found["spec"].get("nodeName") or found["metadata"]["uid"] != body["metadata"]["uid"]:
                raise KubeError("already assigned", status=409, reason="Conflict")
            found["metadata"]["annotations"] |= body["metadata"]["annotations"]
            found["spec"]["nodeName"] = body["target"]["name"]
        return found

    def _note_node(self, name: str, body: Json) -> Json:
        self.asked_nodes += 1
        if (error := self.refuse.get("nodes")) is not None:
            raise error
        self.calls.append(f"PATCH node {name}")
        self._bodies.append(body)
        noted = self.noted_nodes.get(name, {}) | body["metadata"]["annotations"]
        self.noted_nodes[name] = {key: text for key, text in noted.items() if text is not None}
        return {"metadata": {"name": name, "annotations": self.noted_nodes[name]}}


class Harness:
    """A core with a binder and a reconciler on a fake server: what a term of leadership has."""

    def __init__(self, spec: ClusterSpec, options: DoorOptions | None = None) -> None:
        self.server = FakeServer()
        self.recorded: list[PodEvent] = []
        self.now = 1000.0
        self.problem = ""
        self.options = options or DoorOptions(rules=Rules(skus=spec.sku_types))
        self.begin(spec)

    def begin(self, spec: ClusterSpec) -> None:
        """A new core, as a new process has it."""
        self.core = DoorCore(spec, self.options, self.recorded.append, wall=lambda: self.now, clock=lambda: self.now)
        client: Any = self.server
        self.server.locked = self.core.lock._is_owned  # type: ignore[attr-defined]
        self.binder = Binder(client, self.core, remaining=lambda: math.inf)
        self.reconciler = Reconciler(client, self.core, remaining=lambda: math.inf, clock=lambda: self.now)
        self.core.force = self._force
        self.forced: list[str] = []
        self.nodes: list[str] = []

    def _force(self, binding: Binding) -> None:
        """At once, where the real one leaves it to a thread: still inside the lock, therefore."""
        locked, self.server.locked = self.server.locked, lambda: False
        try:
            self.forced.append(self.binder.send(binding))
        finally:
            self.server.locked = locked

    def open(self, nodes: Iterable[str] = ()) -> None:
        """Start to answer, with these nodes healthy, and the pods of the server known."""
        self.nodes = list(nodes)
        for node in self.nodes:
            self.core.node_changed(NodeStatus(node, ready=True, schedulable=True))
        for one in self.server.pods.values():
            self.core.pod_changed(one)
        self.core.open()

    def create(self, made: Json, *, told: bool = True) -> Json:
        """Put a pod into the API server; `told`: and tell the core of it, as the informer does."""
        about = made["metadata"]
        self.server.pods[f"{about['namespace']}/{about['name']}"] = made
        if told:
            self.core.pod_changed(made)
        return made

    def delete(self, name: str, namespace: str = "default") -> None:
        made = self.server.pods.pop(f"{namespace}/{name}")
        self.core.pod_gone(made["metadata"]["uid"])

    def reasons_of(self, name: str) -> list[str]:
        return [one.reason for one in self.recorded if one.pod.name == name]

    def ask(self, made: Json, nodes: Iterable[str] | None = None) -> FilterResult:
        """What filter answers about a pod of the server."""
        self.create(made)
        return filter_nodes(self.core, FilterArgs(made, self.nodes if nodes is None else list(nodes)))

    def bind(self, made: Json, node: str) -> str:
        return bind(self.binder, BindArgs(pod_ref(made), node))

    def run(self, made: Json) -> str:
        """Filter and bind; the node."""
        (node,) = self.ask(made).names
        assert self.bind(made, node) == ""
        return node

    def evictions(self) -> list[str]:
        return [call for call in self.server.calls if call.startswith("POST eviction")]


class Caller:
    """kube-scheduler's end of the line."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.connection.connect()
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        """Status and answer as JSON (as text where it is none)."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        self.connection.request(method, path, data, dict(headers or {}))
        reply = self.connection.getresponse()
        text = reply.read().decode()
        try:
            return reply.status, json.loads(text)
        except ValueError:
            return reply.status, text

    def filter(self, made: Json, nodes: Iterable[str]) -> Json:
        status, answer = self.call("POST", "/v1/extender/filter", {"Pod": made, "NodeNames": list(nodes)})
        assert status == 200, answer
        found: Json = answer
        return found

    def bind(self, made: Json, node: str) -> str:
        about = made["metadata"]
        body = {"PodName": about["name"], "PodNamespace": about["namespace"], "PodUID": about["uid"], "Node": node}
        status, answer = self.call("POST", "/v1/extender/bind", body)
        assert status == 200, answer
        return str(answer["Error"])


@contextmanager
def served(harness: Harness, guard: Guard | None = None, *files: Path, buffer: int = 0) -> Iterator[Caller]:
    """The harness over HTTP on a free port, with the server's own settings; over HTTPS with its files.

    `buffer` is how many bytes the kernel keeps of an answer, if not as many as usual.
    """
    metrics = DoorMetrics(lambda: harness.core)
    app = ExtenderApi(lambda: harness, metrics, guard=guard).app()  # type: ignore[arg-type,return-value]
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio then sends at once
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(serving(app, "127.0.0.1", 0, *files))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    caller = Caller(sock.getsockname()[1])
    try:
        yield caller
    finally:
        caller.connection.close()
        server.should_exit = True
        thread.join(10)
        sock.close()
