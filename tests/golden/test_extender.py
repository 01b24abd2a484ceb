"""The recorded traces through the extender's HTTP: a kube-scheduler of the test's own asks, binds and tells of pods.

The same decisions as `scheduler replay` gives, which plays along, and which is held to the recorded ones elsewhere.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors.core import DoorOptions
from paictl.doors.metrics import DoorMetrics
from paictl.doors.views import ViewCache
from paictl.extender.server import ExtenderApi
from paictl.scheduler.book import Book
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.wire import BIND_INFO, ISOLATION, Json
from tests.golden.support import GOLDEN, load_spec, read_trace, replayer
from tests.unit.extender.harness import Caller, Harness, pod, served

TRACES = sorted((GOLDEN / "traces").glob("*/*.jsonl.gz"))
_ALL = os.environ.get("PAICTL_GOLDEN") == "all"
"""Play every trace each way, not a sample: about ten minutes of processor time."""
EVERY = 1 if _ALL else 40
"""One of so many traces over a socket; the decisions themselves are compared in full by `test_traces`."""
OFTEN = 1 if _ALL else 10
"""One of so many traces in one process, where a call costs a third."""
SELDOM = 1 if _ALL else 60
"""One of so many traces where the extender preempts by itself."""

pytestmark = pytest.mark.usefixtures("shared", "no_stale_looks")


@pytest.fixture
def no_stale_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expensive look may be a little old; a trace compares what is so."""
    monkeypatch.setattr(ViewCache, "SHARE", 0)


class Scheduler:
    """Turns the operations of a trace into what kube-scheduler and the API server would say."""

    def __init__(self, config: Path, caller: Caller, harness: Harness) -> None:
        self.config = config
        self.caller = caller
        self.harness = harness
        self.made: dict[str, Json] = {}
        self.health: dict[str, bool] = {}
        self.every = list(load_spec_nodes(config))

    def run(self, operation: dict[str, Any]) -> Json | None:
        """The result in the words of the protocol, None where there is nothing to compare."""
        handler = getattr(self, operation["op"], None)
        return handler(operation) if handler else None

    def nodes(self, operation: dict[str, Any]) -> None:
        for name in operation["names"]:
            self._report(name, operation["healthy"])

    def node(self, operation: dict[str, Any]) -> None:
        if operation.get("deleted"):
            self.health.pop(operation["name"], None)
            self.harness.core.node_gone(operation["name"])
        else:
            self._report(operation["name"], bool(operation.get("healthy")))

    def _report(self, name: str, healthy: bool) -> None:
        self.health[name] = healthy
        self.harness.core.node_changed(NodeStatus(name, ready=healthy, schedulable=True))

    def schedule(self, operation: dict[str, Any]) -> Json:
        known, uid = self.asked(operation["pod"]), operation["pod"]["uid"]
        offered = operation.get("suggested")
        nodes = self.every if offered is None else offered
        if operation.get("phase") == "Preempting":
            return self._preempt(known, nodes)
        answer = self.caller.filter(known, nodes)
        assert not answer["Error"], answer
        booked = self.harness.core.book.pods.get(uid)
        if not answer["NodeNames"] and booked and booked.assumed:
            # it counts the nodes that are offered, and its place is not among them: it waits until it is
            assert booked.info is not None
            answer = self.caller.filter(known, [booked.info.node])
        if answer["NodeNames"]:
            (node,) = answer["NodeNames"]
            assert self.caller.bind(known, node) == ""
            return {"r": "bind", "node": node}
        if known["spec"].get("nodeName"):  # it was not offered, and so bound by force
            return {"r": "bind", "node": known["spec"]["nodeName"]}
        if not nodes:  # an answer without nodes has no reasons either; kube-scheduler would not ask
            return {"r": self._decided(uid)}
        if answer["FailedAndUnresolvableNodes"]:
            return {"r": "error"}
        reasons = " ".join(answer["FailedNodes"].values())
        return {"r": "preempt" if "preempted for" in reasons else "wait"}

    def _decided(self, uid: str) -> str:
        met = self.harness.core.table.by_uid.get(uid)
        kind = met.cached.kind if met is not None and met.cached is not None else "refused"
        return "error" if kind == "refused" else kind

    def asked(self, asked: dict[str, Any]) -> Json:
        """The pod of a question: as it is now if it is bound, else as the trace has it."""
        uid = asked["uid"]
        known = self.made.get(uid)
        if known is None or not known["spec"].get("nodeName"):
            spec = asked["spec"] if asked.get("spec") is not None else asked.get("annotation", "")
            fresh = pod(asked.get("name") or uid, spec, uid, asked.get("namespace") or "default")
            self.made[uid] = known = self.harness.create(fresh)
        return known

    def _preempt(self, known: Json, nodes: list[str]) -> Json:
        body = {"Pod": known, "NodeNameToMetaVictims": {node: {"Pods": []} for node in nodes}}
        status, answer = self.caller.call("POST", "/v1/extender/preempt", body)
        if status != 200:
            return {"r": "error"}
        victims = {
            node: sorted(one["UID"] for one in entry["Pods"])
            for node, entry in (answer["NodeNameToMetaVictims"] or {}).items()
        }
        return {"r": "preempt", "victims": victims} if victims else {"r": "wait"}

    def bound(self, operation: dict[str, Any]) -> None:
        self.harness.core.pod_changed(self.made[operation["uid"]])

    def delete_allocated(self, operation: dict[str, Any]) -> None:
        made = self.made.pop(operation["uid"], None)
        if made is not None:
            self.harness.delete(made["metadata"]["name"], made["metadata"]["namespace"])

    delete_unallocated = delete_allocated

    def restart(self, operation: dict[str, Any]) -> None:
        for uid in operation.get("lost") or ():
            made = self.made.pop(uid, None)
            if made is not None:
                self.harness.server.pods.pop(f"{made['metadata']['namespace']}/{made['metadata']['name']}")
        config = self.config.parent / operation["config"] if operation.get("config") else self.config
        self.config = config
        self.every = list(load_spec_nodes(config))
        self.harness.begin(load_spec(config))
        for name, healthy in self.health.items():
            self.harness.core.node_changed(NodeStatus(name, ready=healthy, schedulable=True))
        self.harness.open()

    def status(self, operation: dict[str, Any]) -> Json | None:
        if operation.get("view") == "groups":
            return {"groups": self.caller.call("GET", "/v1/inspect/affinitygroups/")[1]["items"] or []}
        if operation.get("view") == "full":
            return {"clusterStatus": self.caller.call("GET", "/v1/inspect/clusterstatus")[1]}
        return None


def load_spec_nodes(config: Path) -> Any:
    from paictl.cells.tree import build_physical

    return build_physical(load_spec(config)).nodes


def _same(operation: dict[str, Any], want: Json, have: Json) -> bool:
    match operation["op"]:
        case "status":
            for result in (have, want):
                for row in result.get("groups", ()):
                    row["status"].get("lazyPreemptionStatus", {}).pop("preemptionTime", None)  # a clock, no decision
                result.get("groups", []).sort(key=lambda row: row["metadata"]["name"])
            return all(want.get(key) == value for key, value in have.items())
        case "schedule" if operation.get("phase") == "Preempting":
            kind = want["r"] if want["r"] in ("preempt", "error") else "wait"
            victims = {node: sorted(uids) for node, uids in want.get("victims", {}).items()}
            return bool(kind == have["r"] and victims == have.get("victims", {}))
        case _ if "already bound" in want.get("message", ""):
            return have["r"] == "error" or str(want["message"]).endswith(have["node"])
        case _ if want["r"] == "insist":
            return have == {"r": "bind", "node": want["node"]}
        case _ if want["r"] == "bind":
            return have == {"r": "bind", "node": want["bind_info"]["node"]}
        case _:
            return bool(want["r"] == have["r"])


class InProcess(Caller):
    """Calls the application itself, without a socket."""

    def __init__(self, harness: Harness) -> None:
        self.app = ExtenderApi(lambda: harness, DoorMetrics(lambda: harness.core)).app()  # type: ignore[arg-type,return-value]
        self.loop = asyncio.new_event_loop()

    def __exit__(self, *_: object) -> None:
        self.loop.close()

    def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b"" if body is None else json.dumps(body).encode()}

        async def send(message: Any) -> None:
            sent.append(message)

        self.loop.run_until_complete(self.app(scope, receive, send))
        text = b"".join(one.get("body", b"") for one in sent[1:])
        return sent[0]["status"], json.loads(text)


def play(path: Path, harness: Harness, config: Path, trace: list[Any], caller: Caller) -> None:
    """Each operation gives what the replay gives."""
    oracle, scheduler = replayer(config), Scheduler(config, caller, harness)
    for index, entry in enumerate(trace):
        operation = entry["op"]
        if operation["op"] == "restart" and operation.get("order") == "pods_first":
            break  # a process of ours lists both before it answers
        want, have = oracle.run(operation), scheduler.run(operation)
        if have is not None:
            assert _same(operation, want, have), f"{path} operation {index} {operation}\nwant {want}\nhave {have}"
        if operation["op"] == "schedule" and want["r"] != entry["result"]["r"]:
            break  # HiveD decided otherwise (`test_traces` says where): what follows is about pods that went that way
        if operation["op"] == "add_allocated" and want["r"] == "ok":
            noted = scheduler.made[operation["uid"]]["metadata"]["annotations"]
            assert noted[ISOLATION] == want["isolation"]
            assert yaml.safe_load(noted[BIND_INFO])["node"] == want["node"]


def opened(path: Path, *, own_preemption: bool) -> tuple[Harness, Path, list[Any]]:
    """A harness that answers, the configuration of a trace, and the trace."""
    meta, trace = read_trace(path)
    config = GOLDEN / "traces" / meta["config"] / meta["yaml"]
    harness = Harness(load_spec(config), DoorOptions(own_preemption=own_preemption))
    harness.open()
    return harness, config, list(trace)


def _name(path: Path) -> str:
    return f"{path.parent.name}-{path.name[:-9]}"


@pytest.mark.parametrize("path", TRACES[::EVERY], ids=_name)
def test_the_same_decisions_over_http(path: Path) -> None:
    harness, config, trace = opened(path, own_preemption=False)
    with served(harness) as caller:
        play(path, harness, config, trace, caller)


@pytest.mark.slow
@pytest.mark.parametrize("path", TRACES[OFTEN // 2 :: OFTEN], ids=_name)
def test_the_same_decisions_in_one_process(path: Path) -> None:
    """Slow: a fifth of a second of processor time each."""
    harness, config, trace = opened(path, own_preemption=False)
    with InProcess(harness) as caller:
        play(path, harness, config, trace, caller)


@pytest.mark.slow
def test_preempting_by_itself_it_decides_as_the_core_does() -> None:
    """Victims go as soon as they are evicted; a book that is told the same has the same state after each operation."""
    evicted = 0
    for path in TRACES[::SELDOM]:
        harness, config, trace = opened(path, own_preemption=True)
        with InProcess(harness) as caller:
            evicted += _alongside(path, harness, config, trace, caller)
    assert evicted > 50


def _alongside(path: Path, harness: Harness, config: Path, trace: list[Any], caller: Caller) -> int:
    """Plays a trace until its first restart; how many pods were evicted."""
    scheduler, book, evicted = Scheduler(config, caller, harness), Book(Engine(load_spec(config))), 0
    for index, entry in enumerate(trace):
        operation = entry["op"]
        match operation["op"]:
            case "restart":
                break
            case "nodes" | "node":
                scheduler.run(operation)
                for name in operation.get("names", [operation.get("name")]):
                    book.report(name, scheduler.health.get(name, False), harness.now)
            case "schedule":
                uid, offered = operation["pod"]["uid"], operation.get("suggested")
                nodes = scheduler.every if offered is None else offered
                known = scheduler.asked(operation["pod"])
                if known["spec"].get("nodeName"):
                    continue
                names = caller.filter(known, nodes)["NodeNames"]
                met = harness.core.table.by_uid.get(uid)
                if met is None or met.reading is None:  # it was evicted, or cannot be read
                    continue
                request = met.reading.request
                with suppress(RequestError):
                    book.place(request, None if request.ignore_suggested else frozenset(nodes), harness.now)
                for node in names or ():
                    assert caller.bind(known, node) == ""
                if known["spec"].get("nodeName"):
                    book.bound(uid)
                evicted += _evict(harness, scheduler, book)
            case "delete_allocated" | "delete_unallocated":
                scheduler.run(operation)
                book.gone(operation["uid"], harness.now)
        assert book.engine.state.digest() == harness.core.book.engine.state.digest(), (
            f"{path} operation {index} {operation}"
        )
    return evicted


def _evict(harness: Harness, scheduler: Scheduler, book: Book) -> int:
    """Whom the reconciler evicts goes at once."""
    harness.server.calls.clear()
    harness.reconciler.reconcile()
    gone = [call.rpartition(" ")[2] for call in harness.evictions()]
    for uid, made in list(scheduler.made.items()):
        if made["metadata"]["name"] in gone:
            del scheduler.made[uid]
            harness.delete(made["metadata"]["name"], made["metadata"]["namespace"])
            book.gone(uid, harness.now)
    return len(gone)
