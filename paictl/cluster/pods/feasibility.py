"""Whether a node could take a pod: kube-scheduler's own filters, computed from what the API server says.

kube-scheduler asks its extenders only about nodes that pass its filters, and never says which nodes would pass if some
pods were gone. Who evicts pods for another one has to know that beforehand: nobody may be evicted for a pod that could
not run on the node afterwards. Covered are node selectors, required node affinity, taints, cordons, and what pods
request (CPU, memory, extended resources, the number of pods, host ports). Volumes are not covered.
Source: Kubernetes 1.37, ``pkg/scheduler/framework/plugins``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.wire import ENABLE
from paictl.units import exact_quantity

Amounts = Mapping[str, int]
"""Thousandths of a resource (bytes, cores, devices, ports), by its name."""

PODS: Final = "pods"
_UNIT: Final = 1000
_PORT: Final = "hostPort "
_CORDON: Final = ("node.kubernetes.io/unschedulable", "", "NoSchedule")
_NO_ROOM: Final = ("Insufficient ", "Too many pods", "free ports")
"""How kube-scheduler says that pods on a node are in the way."""
_IGNORED: Final = frozenset({ENABLE})
"""Resources that kube-scheduler leaves to the extender (``ignoredByScheduler``): no node has them."""
_POD_LEVEL: Final = ("cpu", "memory", "hugepages-")
"""What ``spec.resources`` of a pod may say for all of its containers together."""


@frozen
class NodeFacts:
    """What decides whether a node takes a pod. Without `allocatable` nothing is known of its size."""

    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    """Key, value and effect of those that keep pods away, a cordon among them."""
    allocatable: Amounts


@frozen
class PodDemand:
    """What a pod demands of the node that it is to run on."""

    requests: Amounts
    selector: Mapping[str, str]
    terms: tuple[Mapping[str, Any], ...] | None
    """Required node affinity, of which one term has to match; None if the pod has none."""
    tolerations: tuple[Mapping[str, Any], ...]
    unknowable: str = ""
    """What else it demands that depends on more than the node; empty if nothing."""


def node_facts(node: Mapping[str, Any]) -> NodeFacts:
    """The facts in a node object."""
    about, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    taints = [
        (str(taint.get("key", "")), str(taint.get("value") or ""), str(taint.get("effect", "")))
        for taint in spec.get("taints") or ()
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    ]
    if spec.get("unschedulable") and _CORDON not in taints:
        taints.append(_CORDON)
    amounts = {name: _amount(value) for name, value in (status.get("allocatable") or {}).items()}
    labels = {str(key): str(value) for key, value in (about.get("labels") or {}).items()}
    return NodeFacts(labels, tuple(taints), amounts)


def pod_demand(pod: Mapping[str, Any]) -> PodDemand:
    """The demands in a pod object."""
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    return PodDemand(
        requests_of(pod),
        spec.get("nodeSelector") or {},
        None if required is None else tuple(required.get("nodeSelectorTerms") or ()),
        tuple(spec.get("tolerations") or ()),
        _unknowable(spec, affinity),
    )


def _unknowable(spec: Mapping[str, Any], affinity: Mapping[str, Any]) -> str:
    for kind in ("podAffinity", "podAntiAffinity"):
        if (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution"):
            return f"spec.affinity.{kind}"
    spread = spec.get("topologySpreadConstraints") or ()
    strict = any(constraint.get("whenUnsatisfiable") != "ScheduleAnyway" for constraint in spread)
    return "spec.topologySpreadConstraints" if strict else ""


def lacks_room(pod: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler has refused a pod for what its nodes have too little of, and evictions would free."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    messages = [str(condition.get("message")) for condition in conditions if condition.get("type") == "PodScheduled"]
    return any(words in message for message in messages for words in _NO_ROOM)


def requests_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """What a pod takes of its node: its containers together, or an init container beside its sidecars if that is more.

    While it is resized in place, the most of what it requests, was allocated and has; a request that its node can never
    grant does not count. Source: ``k8s.io/component-helpers/resource.PodRequests``.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    by_container, infeasible = _allotted(spec, status), _is_infeasible(status)
    if not by_container or not infeasible:
        by_container.append({})
    total: dict[str, int] = {}
    for allotted in by_container:
        _raise(total, _of_containers(spec, allotted))
    if spec.get("resources"):
        whole = [status.get("allocatedResources"), (status.get("resources") or {}).get("requests")]
        if not any(whole) or not infeasible:
            whole.append(_wanted(spec["resources"]))
        total |= _of_pod(filter(None, whole))
    _add(total, {name: _amount(value) for name, value in (spec.get("overhead") or {}).items()})
    total[PODS] = _UNIT
    return total


def _of_pod(versions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The most of what is said for all containers of a pod together."""
    total: dict[str, int] = {}
    for wanted in versions:
        _raise(total, {name: _amount(value) for name, value in wanted.items() if name.startswith(_POD_LEVEL)})
    return total


def _allotted(spec: Mapping[str, Any], status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the kubelet says that containers were allocated, and what they have, where it differs from their requests.

    Requests by name of the container.
    """
    statuses = [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]
    if not any("allocatedResources" in entry or "resources" in entry for entry in statuses):
        return []
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    wanted = {container.get("name"): (container.get("resources") or {}).get("requests") for container in containers}
    allocated, actual = dict[str, Any](), dict[str, Any]()
    for entry in statuses:
        name, given = entry["name"], entry.get("allocatedResources")
        for allotted, requests in (
            (allocated, given),
            (actual, (entry.get("resources") or {}).get("requests") or given),
        ):
            if requests and requests != wanted.get(name):
                allotted[name] = requests
    return [allotted for allotted in (allocated, actual) if allotted]


def _is_infeasible(status: Mapping[str, Any]) -> bool:
    conditions = status.get("conditions") or ()
    pending = (condition for condition in conditions if condition.get("type") == "PodResizePending")
    return any(condition.get("reason") == "Infeasible" for condition in pending)


def _of_containers(spec: Mapping[str, Any], allotted: Mapping[str, Any]) -> dict[str, int]:
    """The containers together, with `allotted` in place of what those named there request."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _of_container(container, allotted))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        own = _of_container(container, allotted)
        if container.get("restartPolicy") == "Always":
            _add(total, own)
            _add(sidecars, own)
            own = {}
        _raise(peak, {name: own.get(name, 0) + sidecars.get(name, 0) for name in {*own, *sidecars}})
    _raise(total, peak)
    return total


def _of_container(container: Mapping[str, Any], allotted: Mapping[str, Any]) -> dict[str, int]:
    requests = _requests(container.get("resources"))
    if allotted:
        requests |= {name: _amount(value) for name, value in (allotted.get(str(container.get("name"))) or {}).items()}
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            requests[f"{_PORT}{port['hostPort']}/{port.get('protocol') or 'TCP'}"] = _UNIT
    return requests


def _requests(resources: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: _amount(value) for name, value in _wanted(resources).items() if name not in _IGNORED}


def _wanted(resources: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Requests, and limits where nothing else is requested, as the API server would set them."""
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})} if resources else {}


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], least: Amounts) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)


def _amount(value: object) -> int:
    return _thousandths(value if isinstance(value, int) else str(value))


@lru_cache(4096)
def _thousandths(value: int | str) -> int:
    """A quantity, rounded up; 0 for what is not one, which the API server does not let through."""
    try:
        return -int(-exact_quantity(value) * _UNIT // 1)
    except ValueError:
        return 0


# --- whether a node takes a pod


def obstacle(demand: PodDemand, name: str, node: NodeFacts, used: Amounts, pods: int = 1) -> str:
    """What keeps so many pods of a demand from a node of which others use some; empty if nothing does."""
    return excluded(demand, name, node) or shortage(demand, node, used, pods)


def excluded(demand: PodDemand, name: str, node: NodeFacts) -> str:
    """What keeps a pod from a node however empty it is; empty if nothing does."""
    for key, value in demand.selector.items():
        if node.labels.get(key) != value:
            return text("it does not have the label {label} of the pod's nodeSelector", label=f"{key}={value}")
    if demand.terms is not None and not any(_matches(term, name, node.labels) for term in demand.terms):
        return text("it does not match the pod's required node affinity")
    for taint in node.taints:
        if not any(_tolerates(toleration, taint) for toleration in demand.tolerations):
            if taint == _CORDON:
                return text("it is cordoned")
            return text("the pod does not tolerate its taint {taint}", taint=_shown(taint))
    return ""


def shortage(demand: PodDemand, node: NodeFacts, used: Amounts, pods: int = 1) -> str:
    """What a node has too little of for so many pods, in kube-scheduler's words; empty if it has enough."""
    if not node.allocatable:
        return ""
    for name, amount in demand.requests.items():
        whole = _UNIT if name.startswith(_PORT) else node.allocatable.get(name, 0)
        if amount and used.get(name, 0) + amount * pods > whole:
            return text("Too many pods") if name == PODS else text("Insufficient {resource}", resource=name)
    return ""


def _shown(taint: tuple[str, str, str]) -> str:
    key, value, effect = taint
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def _tolerates(toleration: Mapping[str, Any], taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect):
        return False
    wanted, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if operator == "Exists":
        return wanted in ("", key)
    return operator == "Equal" and wanted == key and (toleration.get("value") or "") == value


def _matches(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """Whether a node matches all of a term; an empty term matches none."""
    requirements = list(_requirements(term, name, labels))
    return bool(requirements) and all(requirements)


def _requirements(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> Iterator[bool]:
    for expression in term.get("matchExpressions") or ():
        yield _holds(expression.get("operator"), labels.get(str(expression.get("key"))), expression.get("values") or ())
    for field in term.get("matchFields") or ():
        yield field.get("key") == "metadata.name" and _holds(field.get("operator"), name, field.get("values") or ())


def _holds(operator: object, value: str | None, values: Sequence[str]) -> bool:
    match operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" if value is not None and len(values) == 1:
            try:
                left, right = int(value), int(values[0])
            except ValueError:
                return False
            return left > right if operator == "Gt" else left < right
    return False
