"""The JSON between kube-scheduler and its extender (`k8s.io/kube-scheduler/extender/v1`).

The types have no JSON tags: keys are the Go names, capitalised, while the pod inside is ordinary Kubernetes. Facts and
recorded calls: ``kubernetes.md``, ``extender-wire.jsonl``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import orjson

from paictl.doors.table import PodRef
from paictl.frozen import frozen

Json = dict[str, Any]


class WireError(ValueError):
    """A request that kube-scheduler would not send; the message says what is wrong with it."""


@frozen
class FilterArgs:
    """A pod, and the nodes that in-tree filters left over; whole nodes where `nodeCacheCapable` is off."""

    pod: Json
    names: list[str]
    nodes: list[Json] | None = None


@frozen
class BindArgs:
    """A pod, and the node that it is to run on."""

    pod: PodRef
    node: str


@frozen
class Victims:
    """Pods (uids) that would have to go from a node, and how many disruption budgets that breaks."""

    uids: tuple[str, ...] = ()
    violations: int = 0


@frozen
class PreemptArgs:
    """A pod, and what in-tree filters would need to fit it, by node."""

    pod: Json
    victims: Mapping[str, Victims]


@frozen
class FilterResult:
    """`names` pass; `failed` might, were other pods gone; `hopeless` not even then. `error`: ask again later."""

    names: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    hopeless: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


def read_filter(body: bytes) -> FilterArgs:
    """Read `ExtenderArgs`. Raises `WireError`."""
    args = _mapping(_json(body), "ExtenderArgs")
    pod = _pod(args, "ExtenderArgs")
    names, nodes = args.get("NodeNames"), args.get("Nodes")
    if names is not None:
        if not isinstance(names, list) or not set(map(type, names)) <= {str}:
            raise WireError("ExtenderArgs: NodeNames: expected a list of names")
        return FilterArgs(pod, names)
    if nodes is None:
        return FilterArgs(pod, [])
    items = _mapping(nodes, "ExtenderArgs: Nodes").get("items")
    if not isinstance(items, list):
        raise WireError("ExtenderArgs: Nodes: expected a list of nodes")
    named = [_mapping(item, "ExtenderArgs: Nodes") for item in items]
    return FilterArgs(pod, [_text(_mapping(i.get("metadata"), "a node's metadata"), "name") for i in named], named)


def write_filter(result: FilterResult, args: FilterArgs | None = None) -> bytes:
    """`ExtenderFilterResult`; a name that was not offered must not be among `names`."""
    out: Json = {
        "Nodes": None,
        "NodeNames": list(result.names),
        "FailedNodes": result.failed,
        "FailedAndUnresolvableNodes": result.hopeless,
        "Error": result.error,
    }
    if args is not None and args.nodes is not None:
        passed = set(result.names)
        out["Nodes"] = {"items": [node for node in args.nodes if node["metadata"]["name"] in passed]}
        out["NodeNames"] = None
    return orjson.dumps(out)


def read_bind(body: bytes) -> BindArgs:
    """Read `ExtenderBindingArgs`. Raises `WireError`."""
    args = _mapping(_json(body), "ExtenderBindingArgs")
    values = [_text(args, key, "ExtenderBindingArgs: ") for key in ("PodNamespace", "PodName", "PodUID", "Node")]
    if not all(values):
        raise WireError("ExtenderBindingArgs: PodNamespace, PodName, PodUID and Node must not be empty")
    namespace, name, uid, node = values
    return BindArgs(PodRef(namespace, name, uid), node)


def write_bind(error: str) -> bytes:
    """`ExtenderBindingResult`; an empty one says that the pod is bound."""
    return orjson.dumps({"Error": error})


def read_preempt(body: bytes) -> PreemptArgs:
    """Read `ExtenderPreemptionArgs`, of either kind. Raises `WireError`."""
    args = _mapping(_json(body), "ExtenderPreemptionArgs")
    pod = _pod(args, "ExtenderPreemptionArgs")
    victims_by_node = args.get("NodeNameToMetaVictims")
    if victims_by_node is None:
        victims_by_node = args.get("NodeNameToVictims")
    victims = {}
    for node, item in _mapping(victims_by_node or {}, "ExtenderPreemptionArgs: victims").items():
        entry = _mapping(item or {}, f"victims on {node}")
        listed, violations = entry.get("Pods") or [], entry.get("NumPDBViolations") or 0
        if not isinstance(listed, list) or not isinstance(violations, int):
            raise WireError(f"ExtenderPreemptionArgs: victims on {node}: expected Pods and NumPDBViolations")
        victims[node] = Victims(tuple(_victim(victim, node) for victim in listed), violations)
    return PreemptArgs(pod, victims)


def _victim(victim: object, node: str) -> str:
    """The uid of a victim, given as itself or as a whole pod."""
    entry = _mapping(victim, f"a victim on {node}")
    if "UID" in entry:
        return _text(entry, "UID")
    return _text(_mapping(entry.get("metadata"), f"a victim on {node}"), "uid")


def write_preempt(victims: Mapping[str, Victims]) -> bytes:
    """`ExtenderPreemptionResult`: the nodes where preempting helps; null if there is none."""
    nodes = {
        node: {"Pods": [{"UID": uid} for uid in victim.uids], "NumPDBViolations": victim.violations}
        for node, victim in victims.items()
    }
    return orjson.dumps({"NodeNameToMetaVictims": nodes or None})


def same_for_all(names: Iterable[str], reason: str) -> dict[str, str]:
    """Every node with the same reason: kube-scheduler counts equal ones and says them once."""
    return dict.fromkeys(names, reason)


def _json(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise WireError(f"the body is not valid JSON: {error}") from None


def _pod(args: Mapping[str, Any], what: str) -> Json:
    pod = args.get("Pod")
    if pod is None:
        raise WireError(f"{what}: Pod field should not be nil")
    body = _mapping(pod, f"{what}: Pod")
    about = _mapping(body.get("metadata"), "Pod: metadata")
    _namespace, *named = (_text(about, key, "Pod: metadata.") for key in ("namespace", "name", "uid"))
    if not all(named):
        raise WireError("Pod: metadata needs a name and a uid")
    return body


def _mapping(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise WireError(f"{what}: expected an object, found {_kind(value)}")
    return value


def _text(args: Mapping[str, Any], key: str, where: str = "") -> str:
    value = args.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise WireError(f"{where}{key}: expected a text, found {_kind(value)}")
    return value


def _kind(value: object) -> str:
    kinds = {"NoneType": "nothing", "list": "a list", "dict": "an object", "str": "a text", "bool": "true or false"}
    return kinds.get(type(value).__name__, "a number")
