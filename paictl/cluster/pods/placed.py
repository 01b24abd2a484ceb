"""The node that a pod has by its object: bound by a scheduler, or pinned by a placer before that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paictl.cluster.pods.reading import noted_on
from paictl.scheduler.wire import BIND_INFO


def bound_node(pod: Mapping[str, Any]) -> str:
    """The node that a pod is bound to; empty if it is not."""
    return str((pod.get("spec") or {}).get("nodeName") or "")


def pinned_node(pod: Mapping[str, Any]) -> str:
    """The node that a pod was pinned to by a placer; empty if it was not.

    The annotation alone is no proof: it counts once the gates are gone and all terms name one and the same node.
    """
    spec = pod.get("spec") or {}
    if BIND_INFO not in noted_on(pod) or spec.get("schedulingGates"):
        return ""
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    named: set[str] = set()
    for term in (required or {}).get("nodeSelectorTerms") or ():
        fields = [field for field in term.get("matchFields") or () if field.get("key") == "metadata.name"]
        values = [
            field["values"] for field in fields if field.get("operator") == "In" and len(field.get("values") or ()) == 1
        ]
        if not values:
            return ""
        named.update(map(str, values[-1]))
    return named.pop() if len(named) == 1 else ""
