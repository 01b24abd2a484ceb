"""Nodes of Kubernetes as the interface shows machines, from JSON values, and which of them take new pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from paictl.cluster.pods.times import read_time
from paictl.cluster.values import ClusterError, MachineSpec, NodeCondition, NodeRole, NodeView
from paictl.i18n import text
from paictl.remote.kube.client import MERGE, Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND
from paictl.scheduler.wire import ISOLATION
from paictl.units import exact_quantity
from paictl.workload.sku import DEVICES

_MASTERS: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_MODELS: Final = ("nvidia.com/gpu.product", "amd.com/gpu.product-name", "node.kubernetes.io/instance-type")
"""Labels that name what a machine has, the most precise first."""
_OWN: Final = "node.kubernetes.io/"
"""Taints of Kubernetes itself: what they mean is said by a condition."""
_CORDON: Final = f"{_OWN}unschedulable"
_PARTS: Final = ("major", "minor", "rev", "revision")
_NEVER: Final = datetime(1970, 1, 1, tzinfo=UTC)


def views_of(nodes: Iterable[Json], pods: Iterable[Json]) -> list[NodeView]:
    """All nodes by name; `pods` are those that are bound and have not ended."""
    by_node: dict[str, list[Json]] = {}
    for pod in pods:
        by_node.setdefault(str((pod.get("spec") or {}).get("nodeName") or ""), []).append(pod)
    views = [view_of(node, by_node.get(str(node["metadata"]["name"]), ())) for node in nodes]
    return sorted(views, key=lambda view: view.machine.name)


def view_of(node: Json, pods: Iterable[Json]) -> NodeView:
    """One node and what runs there: pods that hold devices are named, and their devices counted."""
    holding = {_full_name(pod): held for pod in pods if (held := devices_of(pod))}
    condition = _condition(node)
    return NodeView(
        machine=_machine(node),
        condition=condition,
        since=_since(node, condition),
        used=sum(holding.values()),
        pods=tuple(sorted(holding)),
        reason="; ".join(_reasons(node)),
        software=_software(node),
    )


def _software(node: Json) -> dict[str, str]:
    """Versions that kubelet and NVIDIA's feature discovery tell; the latter has had two spellings."""
    labels = node["metadata"].get("labels") or {}
    info = (node.get("status") or {}).get("nodeInfo") or {}

    def label(*stems: str) -> str:
        spelled = ((labels.get(f"nvidia.com/{stem}.full"), _parts(labels, stem)) for stem in stems)
        return next((str(value) for pair in spelled for value in pair if value), "")

    facts = {
        "os": str(info.get("osImage") or ""),
        "runtime": str(info.get("containerRuntimeVersion") or "").replace("://", " "),
        "driver": label("cuda.driver-version", "cuda.driver"),
        "cuda": label("cuda.runtime-version", "cuda.runtime"),
    }
    return {key: value for key, value in facts.items() if value}


def _parts(labels: Mapping[str, object], stem: str) -> str:
    """A version that is told part by part."""
    parts = [str(labels[key]) for part in _PARTS if labels.get(key := f"nvidia.com/{stem}.{part}")]
    return ".".join(parts)


def devices_of(pod: Json) -> int:
    """The devices that a pod holds: those that HiveD gave it, else what its containers ask device plugins for."""
    given = ((pod["metadata"].get("annotations")) or {}).get(ISOLATION)
    if given is not None:
        return len([word for word in str(given).split(",") if word.strip()])
    spec = pod.get("spec") or {}
    at_once = sum(
        _devices((container.get("resources") or {}).get("limits")) for container in spec.get("containers") or ()
    )
    first = (
        _devices((container.get("resources") or {}).get("limits")) for container in spec.get("initContainers") or ()
    )
    return max(at_once, *first, 0)


def _machine(node: Json) -> MachineSpec:
    about, status = node["metadata"], node.get("status") or {}
    labels, capacity = about.get("labels") or {}, status.get("capacity") or {}
    addresses = {str(address.get("type")): str(address.get("address")) for address in status.get("addresses") or ()}
    return MachineSpec(
        name=str(about["name"]),
        address=addresses.get("InternalIP", ""),
        role=NodeRole.MASTER if any(label in labels for label in _MASTERS) else NodeRole.WORKER,
        sku=next((str(labels[label]) for label in _MODELS if label in labels), ""),
        cpu=_amount(capacity.get("cpu")),
        memory=_amount(capacity.get("memory")),
        device_type=next((name for name in DEVICES if _amount(capacity.get(name))), ""),
        devices=_devices(capacity),
    )


def _condition(node: Json) -> NodeCondition:
    """As elsewhere in paictl, a failure hides that the node is cordoned."""
    if _ready(node).get("status") != "True":
        return NodeCondition.FAILED
    return NodeCondition.CORDONED if (node.get("spec") or {}).get("unschedulable") else NodeCondition.READY


def _since(node: Json, condition: NodeCondition) -> datetime:
    """Since when: the cordon's taint is dated, everything else by the condition Ready, or by when the node joined."""
    dates: list[object] = [_ready(node).get("lastTransitionTime"), node["metadata"].get("creationTimestamp")]
    if condition is NodeCondition.CORDONED:
        dates[:0] = [taint.get("timeAdded") for taint in _taints(node) if taint.get("key") == _CORDON]
    return next((at for at in map(read_time, dates) if at is not None), _NEVER)


def _reasons(node: Json) -> Iterator[str]:
    """What keeps new pods away, or will, beside a cordon."""
    status, ready = node.get("status") or {}, _ready(node)
    if ready.get("status") != "True":
        yield f"not ready: {ready.get('message') or ready.get('reason') or 'its kubelet does not report'}"
    for condition in status.get("conditions") or ():
        if condition.get("type") != "Ready" and condition.get("status") == "True":
            yield f"{condition.get('type')}: {condition.get('message') or condition.get('reason') or 'no reason given'}"
    capacity, usable = _devices(status.get("capacity")), _devices(status.get("allocatable"))
    if usable < capacity:
        yield f"{capacity - usable} of {capacity} devices unhealthy"
    for taint in _taints(node):
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not str(taint.get("key")).startswith(_OWN):
            value = f"={taint['value']}" if taint.get("value") else ""
            yield f"tainted {taint.get('key')}{value}:{taint.get('effect')}"


def _ready(node: Json) -> Json:
    conditions: list[Json] = (node.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == "Ready"), {})


def _taints(node: Json) -> list[Json]:
    return (node.get("spec") or {}).get("taints") or []


def _devices(amounts: Mapping[str, object] | None) -> int:
    return sum(_amount((amounts or {}).get(name)) for name in DEVICES)


def _amount(value: object) -> int:
    """A quantity rounded down; 0 for none and for what is no quantity: a node is shown whatever it says."""
    try:
        return int(exact_quantity(value)) if isinstance(value, int | str) else 0
    except ValueError:
        return 0


def _full_name(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"


def cordoned(client: KubeClient, name: str, *, on: bool) -> Json:
    """A node that takes no new pods, or takes them again; raises `ClusterError` if there is none."""
    wanted: Json = {"spec": {"unschedulable": True if on else None}}
    try:
        return client.request("PATCH", f"/api/v1/nodes/{quote(name, safe='')}", wanted, kind=MERGE)
    except KubeError as error:
        if error.status != NOT_FOUND:
            raise
        raise ClusterError(text("no node {name!r}", name=name), hint="list them with: paictl node list") from None
