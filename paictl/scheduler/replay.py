"""Operations in, results out: a `Book` driven by JSON objects, as ``paictl scheduler replay`` takes and prints them.

The operations are those of the recorded decisions (tests/golden/README.md): what these prove about the replay holds
for everything else that is built on the book.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from paictl.errors import PaictlError
from paictl.scheduler import inspect, inspection, snapshot
from paictl.scheduler.book import Allocation, Book, BookedPod, Insist, changes, ignored
from paictl.scheduler.decision import Bind, Phase, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import GroupChange, Outcome
from paictl.scheduler.operations import fault
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import bind_info_json, isolation_text, parse_request, pod_name, read_bind_info, read_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.book import ScheduleResult

Json = dict[str, Any]

HISTORY: Final = 1000
"""How many operations a dump holds."""


class Replayer:
    """One book driven by operations.

    `load` reads another configuration by name (for `restart`), `parse` a YAML text (for `annotation`); `check`,
    if given, is called with the engine after each operation.
    """

    def __init__(
        self,
        spec: ClusterSpec,
        *,
        load: Callable[[str], ClusterSpec] | None = None,
        parse: Callable[[str], object] | None = None,
        check: Callable[[Engine], None] | None = None,
    ) -> None:
        self.spec = spec
        self.load = load
        self.parse = parse
        self.check = check
        self.book = Book(Engine(spec))
        self.history: deque[Mapping[str, Any]] = deque(maxlen=HISTORY)

    @property
    def engine(self) -> Engine:
        """The engine of the present process."""
        return self.book.engine

    def run(self, operation: Mapping[str, Any]) -> Json:
        """Carry out one operation and return its result; a refused one is ``{"r": "error", …}``."""
        problem = fault(operation)
        if problem is not None:
            field, message = problem
            return {"r": "error", "message": f"{field}: {message}", "field": field}
        self.history.append(operation)
        try:
            result = _HANDLERS[operation["op"]](self, operation)
        except RequestError as error:
            result = {"r": "error", "message": str(error), "pod": error.pod, "field": error.field}
        if self.check is not None:
            self.check(self.engine)
        return result

    # --- nodes

    def nodes(self, operation: Mapping[str, Any]) -> Json:
        """Report many nodes."""
        outcomes: list[Outcome] = []
        for name in operation["names"]:
            outcomes += self.book.report(name, operation["healthy"])
        return _result({"r": "ok"}, outcomes)

    def node(self, operation: Mapping[str, Any]) -> Json:
        """Report one node."""
        healthy = bool(operation.get("healthy")) and not operation.get("deleted")
        return _result({"r": "ok"}, self.book.report(operation["name"], healthy))

    # --- pods

    def schedule(self, operation: Mapping[str, Any]) -> Json:
        """Decide about a pod."""
        phase = Phase(operation.get("phase") or Phase.FILTERING)
        answer = self.book.schedule(self.request_of(operation), self.suggested_of(operation), phase)
        return _result(_answer_json(answer), answer.outcomes)

    def suggested_of(self, operation: Mapping[str, Any]) -> list[str] | None:
        """The nodes that an operation suggests, None for all."""
        names: list[str] | None = operation.get("suggested")
        return names

    def request_of(self, operation: Mapping[str, Any]) -> PodRequest:
        """The request of the pod in an operation; raises `RequestError` if it is malformed."""
        pod: Mapping[str, Any] = operation["pod"]
        name = pod_name(pod.get("namespace"), pod.get("name") or pod["uid"])
        spec = pod.get("spec")
        if spec is None:
            return parse_request(pod.get("annotation"), pod["uid"], name, self.parse)
        return read_request(spec, pod["uid"], name)

    def add_allocated(self, operation: Mapping[str, Any]) -> Json:
        """The pod's last Bind takes effect."""
        return self._allocated(self.book.allocate(operation["uid"]))

    def _allocated(self, allocation: Allocation) -> Json:
        result = {
            "r": "ok",
            "group": inspect.group_record(self.engine.state, allocation.group),
            "isolation": isolation_text(allocation.info.devices),
            "node": allocation.info.node,
        }
        return _result(result, allocation.outcomes)

    def filter(self, operation: Mapping[str, Any]) -> Json:
        """Schedule in the filtering phase and let a Bind take effect."""
        result = self.schedule({**operation, "phase": Phase.FILTERING})
        if result["r"] == "bind":
            result = {**self.add_allocated({"uid": operation["pod"]["uid"]}), **result}
        return result

    def bound(self, operation: Mapping[str, Any]) -> Json:
        """Kubernetes confirms a binding."""
        is_known = self.book.bound(operation["uid"])
        return {"r": "ok"} if is_known else {"r": "ok", "_warnings": [f"pod {operation['uid']} is not known"]}

    def gone(self, operation: Mapping[str, Any]) -> Json:
        """A pod was deleted."""
        return _result({"r": "ok"}, self.book.gone(operation["uid"]))

    def restart(self, operation: Mapping[str, Any]) -> Json:
        """The process restarts, perhaps with another configuration, and recovers from the annotations."""
        before = dict(self.engine.state.groups.by_name)
        spec, name = self.spec, operation.get("config")
        pods = dict(self.book.pods)
        warnings = [f"pod {uid} is not known" for uid in operation.get("lost") or () if not pods.pop(uid, None)]
        try:
            if name and self.load is not None:
                spec = self.load(name)
            outcomes = self.book.restart(spec, pods.keys(), pods_first=operation.get("order") == "pods_first")
        except PaictlError as error:  # the old process keeps running
            return {"r": "error", "message": f"config: {error}", "field": "config"}
        self.spec = spec
        after = self.engine.state.groups.by_name
        group_changes = [GroupChange(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
        groups = [inspect.group_record(self.engine.state, group) for group in after.values()]
        result: Json = {"r": "ok", "groups": groups} | ({"_warnings": warnings} if warnings else {})
        return _result(result, [*ignored(outcomes), *group_changes])

    # --- inspection

    def status(self, operation: Mapping[str, Any]) -> Json:
        """Show the state."""
        state = self.engine.state
        groups = list(state.groups.by_name.values())
        match operation.get("view"):
            case "groups":
                return {"r": "status", "groups": [inspect.group_status(state, group) for group in groups]}
            case "cells":
                cluster = inspection.inspect(state)
                return {
                    "r": "status",
                    "groups": [inspect.group_record(state, group) for group in groups],
                    "physical": [inspect.physical_row(cell) for top in cluster.tops for cell in top.cells()],
                    "virtual": {
                        vc: [inspect.virtual_row(cell) for top in cluster.vcs[vc] for cell in top.cell.cells()]
                        for vc in sorted(cluster.vcs)
                    },
                }
            case "pods":
                rows = [
                    {"uid": uid, "node": pod.info.node, "devices": list(pod.info.devices)}
                    for uid, pod in sorted(self.book.pods.items())
                    if pod.info is not None
                ]
                return {"r": "status", "pods": rows}
            case _:
                return {
                    "r": "status",
                    "affinityGroups": [inspect.group_status(state, group) for group in groups],
                    "clusterStatus": inspect.ClusterStatus(inspection.inspect(state)).all(),
                }

    def dump(self) -> Json:
        """What is needed to investigate a failure: the exact state, pods with their annotations, the last operations.

        Nothing is derived from the state, which may be inconsistent.
        """
        return {
            "engine": snapshot.dump(self.engine),
            "health": dict(self.book.health),
            "pods": [
                {
                    "uid": uid,
                    "name": pod.request.name,
                    "request": asdict(pod.request),
                    "info": bind_info_json(pod.info) if pod.info else None,
                    "bound": pod.bound,
                }
                for uid, pod in sorted(self.book.pods.items())
            ],
            "operations": list(self.history),
        }

    def restore(self, dump: Any) -> None:
        """Take over the state of a dump; its operations are not run again.

        An engine that stopped on an invariant error is resumed, so that the failure can be investigated. Raises
        `SnapshotError` for a damaged dump or one of another configuration.
        """
        if not isinstance(dump, Mapping) or "engine" not in dump:
            raise snapshot.SnapshotError("is not a dump of paictl scheduler replay")
        engine = snapshot.restore(self.spec, dump["engine"])
        pods = {}
        try:
            health = {str(name): bool(healthy) for name, healthy in dump["health"].items()}
            for item in dump["pods"]:
                fields = {**item["request"], "members": tuple(tuple(member) for member in item["request"]["members"])}
                info = read_bind_info(item["info"]) if item["info"] else None
                pods[item["uid"]] = BookedPod(PodRequest(**fields), None, info, item["bound"])
        except (KeyError, TypeError, ValueError, AttributeError, RequestError) as error:
            raise snapshot.SnapshotError(f"the dump is damaged ({type(error).__name__}: {error})") from error
        engine.stopped = False
        self.book = Book(engine)
        bad = {
            (engine.state.physical.node_name(leaf), engine.state.physical.device(leaf))
            for leaf in engine.state.health.bad_leaves
        }
        self.book.resume(pods, health, bad)

    def mark(self, operation: Mapping[str, Any]) -> Json:  # noqa: ARG002 (all operations are called alike)
        """A remark in a benchmark stream: nothing happens."""
        return {"r": "ok"}


def _answer_json(answer: ScheduleResult) -> Json:
    match answer.decision:
        case Bind():
            assert answer.info is not None  # noqa: S101 (a Bind has one)
            return {"r": "bind", "bind_info": bind_info_json(answer.info)}
        case Preempt(victims=victims):
            return {"r": "preempt", "victims": {node: list(uids) for node, uids in victims}}
        case Wait():
            return {"r": "wait", "reason": answer.decision.reason}
        case Insist(info=info):
            return {"r": "insist", "node": info.node}


def _result(result: Json, outcomes: Iterable[Outcome]) -> Json:
    """A result with the changes that came with it; warnings are not part of the decision."""
    outcomes = list(outcomes)
    if warnings := [outcome.reason for outcome in ignored(outcomes)]:
        result.setdefault("_warnings", []).extend(warnings)
    if changed := {change.name: text for change in changes(outcomes) if (text := describe_change(change))}:
        result["ev"] = changed
    return result


def describe_change(change: GroupChange) -> str:
    """A group's change in the words of the protocol; empty for a change that is not reported."""
    before, after = change.before, change.after
    if before is None or after is None:
        return f"new {after.state}" if after else f"deleted {before.state}" if before else ""
    words = []
    if before.state is not after.state:
        words.append(f"{before.state}->{after.state}")
    if after.preemptor is not None and before.preemptor != after.preemptor:
        words.append(f"lazy by:{after.preemptor}")
    elif before.preemptor is not None and after.preemptor is None:
        words.append("lazy reverted")
    return "; ".join(words)


_HANDLERS: dict[str, Callable[[Replayer, Mapping[str, Any]], Json]] = {
    "nodes": Replayer.nodes,
    "node": Replayer.node,
    "schedule": Replayer.schedule,
    "filter": Replayer.filter,
    "add_allocated": Replayer.add_allocated,
    "bound": Replayer.bound,
    "delete_allocated": Replayer.gone,
    "delete_unallocated": Replayer.gone,
    "restart": Replayer.restart,
    "status": Replayer.status,
    "mark": Replayer.mark,
}
