"""Which nodes a pod could be bound to for good: what kube-scheduler refuses whatever the load, asked before pinning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from paictl.frozen import frozen

Json = Mapping[str, Any]
_REPELLING: Final = ("NoSchedule", "NoExecute")


@frozen
class NodeTraits:
    """What pods can ask of a node: its labels, and the taints that keep pods away (key, value, effect)."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]


def site_of(node: Json) -> NodeTraits:
    """The site of a node object; a cordon is told by the node's status already."""
    about, spec = node["metadata"], node.get("spec") or {}
    found = tuple(
        (str(one.get("key")), str(one.get("value") or ""), str(one.get("effect")))
        for one in spec.get("taints") or ()
        if one.get("effect") in _REPELLING and not str(one.get("key")).startswith("node.kubernetes.io/")
    )
    return NodeTraits(str(about["name"]), dict(about.get("labels") or {}), found)


def refuses(site: NodeTraits, pod: Json) -> bool:
    """Whether a pod's nodeSelector, required node affinity or missing tolerations exclude a node."""
    spec = pod.get("spec") or {}
    if any(site.labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return True
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is not None and not any(_matches(term, site) for term in required.get("nodeSelectorTerms") or ()):
        return True
    tolerations = spec.get("tolerations") or ()
    return any(not any(_tolerates(one, taint) for one in tolerations) for taint in site.taints)


def is_choosy(pod: Json, sites: Sequence[NodeTraits]) -> bool:
    """Whether any node can be out of the question for a pod: most pods choose nothing and most nodes have no taint."""
    spec = pod.get("spec") or {}
    chooses = spec.get("nodeSelector") or ((spec.get("affinity") or {}).get("nodeAffinity"))
    return bool(chooses) or any(site.taints for site in sites)


def _matches(term: Json, site: NodeTraits) -> bool:
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:  # a term without any requirement selects nothing
        return False
    return all(_holds(one, site.labels) for one in expressions) and all(
        _holds(one, {"metadata.name": site.name}) for one in fields
    )


def _holds(requirement: Json, values: Mapping[str, str]) -> bool:
    value, wanted = values.get(str(requirement.get("key"))), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            try:
                number, bound = int(str(value)), int(next(iter(map(str, wanted)), ""))
            except ValueError:
                return False
            return number > bound if operator == "Gt" else number < bound
    return False


def _tolerates(toleration: Json, taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect):
        return False
    if toleration.get("key") not in (None, "", key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return toleration.get("key") == key and (toleration.get("value") or "") == value
