"""PodGroups of Kubernetes (`scheduling.k8s.io`, 1.36 and newer): the gang that a pod names in ``spec.schedulingGroup``.

The group's size is its ``minCount``; labels of ours stay and win. A group without a gang is no gang: each of its pods
is placed by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.frozen import frozen
from paictl.remote.kube.client import KubeClient, KubeError
from paictl.remote.kube.objects import may

GROUP: Final = "scheduling.k8s.io"
API: Final = f"/apis/{GROUP}"
VERSIONS: Final = ("v1", "v1beta1", "v1alpha3", "v1alpha2")
"""Those that have PodGroups as they are read here, the best first."""


@frozen
class PodGroup:
    """A PodGroup, as far as it says how its pods are placed."""

    key: str
    """``namespace/name``."""
    uid: str
    size: int
    """Pods that are placed together; 0: each by itself."""
    topology: str = ""
    """The label of nodes of which all pods have to get the same value; empty if they need not."""
    condition: tuple[str, str] = ("", "")
    """Status and message of the condition that we have written last."""


def gang_of(count: int) -> int:
    """The size of the gang that so many pods are: one alone is none."""
    return count if count > 1 else 0


def group_of(pod: Mapping[str, Any]) -> str:
    """The PodGroup that a pod names, as ``namespace/name``; empty if it names none."""
    spec = pod.get("spec")
    group = spec.get("schedulingGroup") if isinstance(spec, dict) else None
    named = group.get("podGroupName") if isinstance(group, dict) else None
    return f"{pod['metadata'].get('namespace') or 'default'}/{named}" if named and isinstance(named, str) else ""


CONDITION: Final = "paictl.io/Placed"
"""Type of our condition: whether all pods of the group have their devices, and if not, why."""


def read_group(body: Mapping[str, Any]) -> PodGroup:
    """A group from its object."""
    about, spec = body["metadata"], body.get("spec") or {}
    gang = (spec.get("schedulingPolicy") or {}).get("gang") or {}
    topology = (spec.get("schedulingConstraints") or {}).get("topology") or ()
    conditions = [
        condition
        for condition in (body.get("status") or {}).get("conditions") or ()
        if condition.get("type") == CONDITION
    ]
    count = int(gang.get("minCount") or 0)
    return PodGroup(
        key=f"{about['namespace']}/{about['name']}",
        uid=str(about["uid"]),
        size=gang_of(count),
        topology=str(topology[0]["key"]) if topology else "",
        condition=(str(conditions[0].get("status")), str(conditions[0].get("message"))) if conditions else ("", ""),
    )


def served(client: KubeClient) -> tuple[str, str]:
    """The path below which PodGroups are listed, empty where there are none or they may not be followed; and why not.

    Raises `NoAnswerError`, `KubeError`.
    """
    for version in VERSIONS:
        path = f"{API}/{version}"
        try:
            resources = client.get(path).get("resources") or ()
        except KubeError as error:
            if error.status not in (403, 404):
                raise
            continue
        if any(resource.get("name") == "podgroups" for resource in resources):
            lacking = [verb for verb in ("list", "watch") if not may(client, verb, "podgroups", GROUP)]
            return ("", f"the account may not {' and '.join(lacking)} podgroups") if lacking else (path, "")
    return "", ""
