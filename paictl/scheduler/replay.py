"""Operations in, results out: the protocol of ``golden/README.md``, on plain dicts.

A replayer is an engine and what Kubernetes would hold around it: pods with their annotations, the last reported
health of the nodes, the configuration to restart with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from paictl.errors import PaictlError
from paictl.scheduler import inspect, snapshot
from paictl.scheduler.decision import Bind, BindInfo, Decision, Phase, PodPlacement, Preempt, Wait
from paictl.scheduler.engine import Engine
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import GroupChange, Ignored, NodeHealth, Outcome, PodGone, PodRecovered, PodWaits
from paictl.scheduler.operations import fault
from paictl.scheduler.request import PodRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paictl.cells.spec import ClusterSpec

Json = dict[str, Any]

HISTORY: Final = 1000
"""How many operations a dump holds."""


@dataclass(slots=True)
class _Pod:
    """What Kubernetes knows of a pod."""

    request: PodRequest
    decision: Bind | None = None
    info: BindInfo | None = None
    """The annotation, once the binding took effect."""
    bound: bool = False
    """Whether Kubernetes has confirmed it."""


class Replayer:
    """One engine driven by operations.

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
        self.engine = Engine(spec)
        self.pods: dict[str, _Pod] = {}
        self.health: dict[str, bool] = {}
        self.history: deque[Mapping[str, Any]] = deque(maxlen=HISTORY)

    def run(self, operation: Mapping[str, Any]) -> Json:
        """Carry out one operation and return its result; a refused one is ``{"r": "error", …}``."""
        wrong = fault(operation)
        if wrong is not None:
            field, message = wrong
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
            outcomes += self._report(name, operation["healthy"])
        return self._result({"r": "ok"}, outcomes)

    def node(self, operation: Mapping[str, Any]) -> Json:
        """Report one node."""
        healthy = bool(operation.get("healthy")) and not operation.get("deleted")
        return self._result({"r": "ok"}, self._report(operation["name"], healthy))

    def _report(self, name: str, healthy: bool) -> list[Outcome]:
        self.health[name] = healthy
        return self.engine.observe(NodeHealth(name, healthy))

    # --- pods

    def schedule(self, operation: Mapping[str, Any]) -> Json:
        """One decision."""
        phase = Phase(operation.get("phase") or Phase.FILTERING)
        request = self.request_of(operation)
        known = self.pods.get(request.uid)
        if known is not None and known.info is not None:
            return self._insist(known, known.info, phase)
        decision = self.engine.plan(request, self.suggested_of(operation), phase)
        result = self._describe(decision)
        outcomes: list[Outcome] = []
        if not isinstance(decision, Bind):
            outcomes = self.engine.apply(decision)
        elif decision.joins:
            outcomes = self.engine.observe(PodWaits(request.uid, request.group))
        elif phase is Phase.PREEMPTING and decision.cancel:  # kube-scheduler will filter again
            outcomes = self.engine.apply(Wait(request, decision.version, cancel=decision.cancel))
        self.pods[request.uid] = _Pod(request, decision if isinstance(decision, Bind) else None)
        return self._result(result, outcomes)

    def _insist(self, pod: _Pod, info: BindInfo, phase: Phase) -> Json:
        if phase is Phase.FILTERING and not pod.bound:
            return {"r": "insist", "node": info.node}
        raise RequestError(pod.request.name, "uid", f"the pod is already bound to node {info.node}")

    def suggested_of(self, operation: Mapping[str, Any]) -> list[str] | None:
        """The nodes that an operation suggests, None for all."""
        found: list[str] | None = operation.get("suggested")
        return found

    def request_of(self, operation: Mapping[str, Any]) -> PodRequest:
        """The request of the pod in an operation; raises `RequestError` if it is malformed."""
        pod: Mapping[str, Any] = operation["pod"]
        name = f"{pod.get('namespace') or 'default'}/{pod.get('name') or pod.get('uid')}"
        spec = pod.get("spec")
        if spec is None:
            text = pod.get("annotation")
            if not isinstance(text, str) or not text.strip() or self.parse is None:
                raise RequestError(name, "pod-scheduling-spec", "the annotation is missing or empty")
            try:
                spec = self.parse(text)
            except ValueError as error:
                raise RequestError(name, "pod-scheduling-spec", f"is not YAML: {error}") from error
        if not isinstance(spec, dict):
            raise RequestError(name, "pod-scheduling-spec", f"expected a mapping, found {type(spec).__name__}")
        return PodRequest.from_spec(spec, str(pod.get("uid", name)), name)

    def _describe(self, decision: Decision) -> Json:
        match decision:
            case Bind():
                return {"r": "bind", "bind_info": info_json(self.engine.bind_info(decision))}
            case Preempt():
                return {"r": "preempt", "victims": {node: list(uids) for node, uids in decision.victims}}
            case Wait():
                return {"r": "wait", "reason": decision.reason}

    def add_allocated(self, operation: Mapping[str, Any]) -> Json:
        """The pod's last Bind takes effect."""
        pod = self.pods.get(operation["uid"])
        if pod is None or pod.decision is None:
            raise RequestError(pod.request.name if pod else operation["uid"], "uid", "there is no decision to bind")
        info = self.engine.bind_info(pod.decision)
        outcomes = self.engine.apply(pod.decision)
        pod.info, pod.decision = info, None
        group = self.engine.state.groups.by_name[pod.request.group]
        result = {
            "r": "ok",
            "group": inspect.group_record(self.engine.state, group),
            "isolation": ",".join(map(str, info.devices)),
            "node": info.node,
        }
        return self._result(result, outcomes)

    def filter(self, operation: Mapping[str, Any]) -> Json:
        """Schedule in the filtering phase and let a Bind take effect."""
        result = self.schedule({**operation, "phase": Phase.FILTERING})
        if result["r"] == "bind":
            result = {**self.add_allocated({"uid": operation["pod"]["uid"]}), **result}
        return result

    def bound(self, operation: Mapping[str, Any]) -> Json:
        """Kubernetes confirms a binding."""
        pod = self.pods.get(operation["uid"])
        if pod is not None:
            pod.bound = True
        return {"r": "ok"} if pod else {"r": "ok", "_warnings": [f"pod {operation['uid']} is not known"]}

    def gone(self, operation: Mapping[str, Any]) -> Json:
        """A pod was deleted."""
        self.pods.pop(operation["uid"], None)
        return self._result({"r": "ok"}, self.engine.observe(PodGone(operation["uid"])))

    def restart(self, operation: Mapping[str, Any]) -> Json:
        """The process restarts, perhaps with another configuration, and recovers from the annotations."""
        before = dict(self.engine.state.groups.by_name)
        spec, name = self.spec, operation.get("config")
        try:
            if name and self.load is not None:
                spec = self.load(name)
            self.engine = Engine(spec)
        except PaictlError as error:  # the old process goes on
            return {"r": "error", "message": f"config: {error}", "field": "config"}
        self.spec = spec
        warnings = [f"pod {uid} is not known" for uid in operation.get("lost") or () if not self.pods.pop(uid, None)]
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod.info is not None}
        steps = [self._recover_nodes, self._recover_pods]
        if operation.get("order") == "pods_first":
            steps.reverse()
        outcomes = [one for step in steps for one in step()]
        after = self.engine.state.groups.by_name
        changes: list[Outcome] = [
            GroupChange(name, before.get(name), after.get(name)) for name in sorted({*before, *after})
        ]
        groups = [inspect.group_record(self.engine.state, group) for group in after.values()]
        result: Json = {"r": "ok", "groups": groups} | ({"_warnings": warnings} if warnings else {})
        return self._result(result, [*(one for one in outcomes if isinstance(one, Ignored)), *changes])

    def _recover_nodes(self) -> list[Outcome]:
        """In the order of the configuration: which cells are doomed depends on it."""
        place = {name: number for number, name in enumerate(self.engine.state.physical.nodes)}
        known = sorted(self.health.items(), key=lambda one: place.get(one[0], len(place)))
        return [one for name, healthy in known for one in self.engine.observe(NodeHealth(name, healthy))]

    def _recover_pods(self) -> list[Outcome]:
        pods = [pod for pod in self.pods.values() if pod.info is not None]
        for pod in pods:
            pod.bound = True
        return self.engine.recover(PodRecovered(pod.request, pod.info) for pod in pods if pod.info is not None)

    # --- inspection

    def status(self, operation: Mapping[str, Any]) -> Json:
        """What the state looks like."""
        state = self.engine.state
        groups = list(state.groups.by_name.values())
        match operation.get("view"):
            case "groups":
                return {"r": "status", "groups": [inspect.group_status(state, group) for group in groups]}
            case "cells":
                return {
                    "r": "status",
                    "groups": [inspect.group_record(state, group) for group in groups],
                    "physical": [inspect.physical_row(state, cell) for cell in state.physical.cells()],
                    "virtual": {
                        vc: [
                            inspect.virtual_row(state, cell)
                            for root, top in state.virtual.preassigned.items()
                            if top.vc == vc
                            for cell in state.virtual.subtree(root)
                        ]
                        for vc in sorted(state.vcs)
                    },
                }
            case "pods":
                rows = [
                    {"uid": uid, "node": pod.info.node, "devices": list(pod.info.devices)}
                    for uid, pod in sorted(self.pods.items())
                    if pod.info is not None
                ]
                return {"r": "status", "pods": rows}
            case _:
                return {
                    "r": "status",
                    "affinityGroups": [inspect.group_status(state, group) for group in groups],
                    "clusterStatus": inspect.cluster_status(state),
                }

    def dump(self) -> Json:
        """What is needed to look into a failure: the exact state, pods with their annotations, the last operations.

        Nothing is computed from the state, which may contradict itself.
        """
        return {
            "engine": snapshot.dump(self.engine),
            "health": dict(self.health),
            "pods": [
                {
                    "uid": uid,
                    "name": pod.request.name,
                    "request": asdict(pod.request),
                    "info": info_json(pod.info) if pod.info else None,
                    "bound": pod.bound,
                }
                for uid, pod in sorted(self.pods.items())
            ],
            "operations": list(self.history),
        }

    def restore(self, dump: Any) -> None:
        """Take over the state of a dump; its operations are not run again.

        An engine that stopped on an invariant error goes on, so that the failure can be looked into. Raises
        `SnapshotError` for a damaged dump or one of another configuration.
        """
        if not isinstance(dump, Mapping) or "engine" not in dump:
            raise snapshot.SnapshotError("is no dump of paictl scheduler replay")
        engine = snapshot.restore(self.spec, dump["engine"])
        pods = {}
        try:
            health = {str(name): bool(healthy) for name, healthy in dump["health"].items()}
            for item in dump["pods"]:
                fields = {**item["request"], "members": tuple(tuple(member) for member in item["request"]["members"])}
                info = info_from_json(item["info"]) if item["info"] else None
                pods[item["uid"]] = _Pod(PodRequest(**fields), None, info, item["bound"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise snapshot.SnapshotError(f"the dump is damaged ({type(error).__name__}: {error})") from error
        self.engine, self.health, self.pods = engine, health, pods
        self.engine.stopped = False

    def mark(self, operation: Mapping[str, Any]) -> Json:  # noqa: ARG002 (all operations are called alike)
        """A remark in a benchmark stream: nothing happens."""
        return {"r": "ok"}

    def _result(self, result: Json, outcomes: Iterable[Outcome]) -> Json:
        changes = {}
        for outcome in outcomes:
            if isinstance(outcome, Ignored):
                result.setdefault("_warnings", []).append(outcome.reason)  # no part of the decision
            elif text := describe_change(outcome):
                changes[outcome.name] = text
        if changes:
            result["ev"] = changes
        return result


def describe_change(change: GroupChange) -> str:
    """A group's change in the words of the protocol; empty if nothing of note happened to it."""
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


def info_json(info: BindInfo) -> Json:
    """A bind annotation with HiveD's keys."""
    return {
        "node": info.node,
        "leafCellIsolation": list(info.devices),
        "cellChain": info.chain,
        "affinityGroupBindInfo": [
            {
                "podPlacements": [
                    {
                        "physicalNode": place.node,
                        "physicalLeafCellIndices": list(place.devices),
                        "preassignedCellTypes": None if place.preassigned is None else list(place.preassigned),
                    }
                    for place in pods
                ]
            }
            for pods in info.members
        ],
    }


def info_from_json(data: Mapping[str, Any]) -> BindInfo:
    """The inverse of `info_json`."""
    return BindInfo(
        data["node"],
        tuple(data["leafCellIsolation"]),
        data["cellChain"],
        tuple(
            tuple(
                PodPlacement(
                    place["physicalNode"],
                    tuple(place["physicalLeafCellIndices"]),
                    None if place.get("preassignedCellTypes") is None else tuple(place["preassignedCellTypes"]),
                )
                for place in member["podPlacements"]
            )
            for member in data["affinityGroupBindInfo"]
        ),
    )


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
