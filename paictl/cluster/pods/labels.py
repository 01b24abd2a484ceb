"""Pods without HiveD's annotation: their labels say what they ask for, their owner which gang they belong to.

The rules are described in ``docs/extender.md``. A value may also be given as an annotation of the same name, which may
hold what a label must not (``-1``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from fractions import Fraction
from math import ceil
from typing import Any, Final

from paictl import i18n
from paictl.cells.chain import build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import ClusterSpec
from paictl.cluster.pods.podgroups import PodGroup, group_of
from paictl.frozen import frozen
from paictl.scheduler.errors import RequestError
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import read_request
from paictl.units import exact_quantity
from paictl.workload.sku import DEVICES as DEVICES

PREFIX: Final = "paictl.io/"
VC: Final = f"{PREFIX}virtual-cluster"
PRIORITY: Final = f"{PREFIX}priority"
GROUP: Final = f"{PREFIX}group"
GROUP_SIZE: Final = f"{PREFIX}group-size"
MEMBERS: Final = f"{PREFIX}group-members"
LEAF_CELLS: Final = f"{PREFIX}leaf-cells"
LEAF_TYPE: Final = f"{PREFIX}leaf-cell-type"
PINNED: Final = f"{PREFIX}pinned-cell"
LAZY: Final = f"{PREFIX}lazy-preemption"
IGNORE: Final = f"{PREFIX}ignore-suggested-nodes"
KEYS: Final = (VC, PRIORITY, GROUP, GROUP_SIZE, MEMBERS, LEAF_CELLS, LEAF_TYPE, PINNED, LAZY, IGNORE)

EVERY_VC: Final = "*"
"""Among them, it stands for all virtual clusters."""

JOBSET: Final = "jobset.sigs.k8s.io/jobset-name"
_JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
KUBEFLOW: Final = "training.kubeflow.org/job-name"
SCHEDULING_GROUP: Final = "spec.schedulingGroup"
NO_DEVICES: Final = "resources.limits"
"""The field at fault where a pod asks for no devices."""
_OPPORTUNISTIC: Final = "opportunistic"
_WORDS: Final = {"true": True, "false": False}


@frozen
class Reading:
    """A request, and in plain words where its parts came from."""

    request: PodRequest
    source: str
    """``annotation`` or ``labels``."""
    group_from: str
    leaves_from: str


@frozen
class Rules:
    """What reading a pod depends on: resources that count as devices, and devices of a leaf cell by leaf cell type."""

    devices: tuple[str, ...] = DEVICES
    skus: Mapping[str, Mapping[str, int | str]] = field(default_factory=dict)
    within: Mapping[tuple[str, str], Collection[str]] = field(default_factory=dict)
    """Leaf cell types by virtual cluster and pinned cell; with neither those of the whole cluster, for pods without a
    guarantee."""

    @classmethod
    def from_spec(cls, devices: tuple[str, ...], spec: ClusterSpec) -> Rules:
        """For the pods of a cluster; raises `SpecError` where its cells contradict themselves."""
        chains = build_chains(spec)
        pinned = pinned_levels(spec, chains)
        within: dict[tuple[str, str], set[str]] = {("", ""): {chain.leaf_type for chain in chains.values()}}
        for vc in spec.virtual_clusters:
            for name, _, pinned_id in preassigned_levels(vc, chains, pinned):
                within.setdefault((vc.name, pinned_id or ""), set()).add(chains[name].leaf_type)
        return cls(devices, spec.sku_types, within)


def read_labels(pod: Mapping[str, Any], uid: str, name: str, rules: Rules, named: PodGroup | None = None) -> Reading:
    """The request in a pod's labels; `name` is ``namespace/name``, `named` the PodGroup that the pod names, if known.

    Raises `RequestError` naming the label or field.
    """
    about = pod["metadata"]
    labels = {**_texts(about.get("annotations")), **_texts(about.get("labels"))}
    leaf_type = labels.get(LEAF_TYPE, "")
    leaves, leaves_from = _leaves(pod, labels, leaf_type, rules, name)
    spec: dict[str, object] = {
        "virtualCluster": labels.get(VC, ""),
        "priority": _priority(labels, name),
        "leafCellType": leaf_type,
        "leafCellNumber": leaves,
        "pinnedCellId": labels.get(PINNED, ""),
        "lazyPreemptionEnable": _flag(labels, LAZY, name),
        "ignoreK8sSuggestedNodes": _flag(labels, IGNORE, name),
    }
    group, group_from = _owner(pod, labels)
    members = _members(labels, leaves, name) or _named_members(pod, leaves, name, named)
    if members:
        spec["affinityGroup"] = {"name": group or name, "members": members}
    else:
        group_from = f"the pod is a group of its own: there is neither {GROUP_SIZE} nor {MEMBERS}"
    return Reading(read_request(spec, uid, name), "labels", group_from, leaves_from)


def _owner(pod: Mapping[str, Any], labels: Mapping[str, str]) -> tuple[str, str]:
    """The gang that a pod belongs to: the name of the affinity group, and which rule gave it."""
    about = pod["metadata"]
    space = about.get("namespace") or "default"
    if group := labels.get(GROUP):
        return f"{space}/{group}", f"label {GROUP}"
    if group := group_of(pod):
        return group, f"PodGroup {group.partition('/')[2]}"
    if jobset := labels.get(JOBSET):
        return _named(space, jobset, labels.get(_JOBSET_UID, "")), f"label {JOBSET} (JobSet, TrainJob)"
    if job := labels.get(KUBEFLOW):
        return f"{space}/{job}", f"label {KUBEFLOW} (PyTorchJob, TFJob, MPIJob)"
    for owner in about.get("ownerReferences") or ():
        if isinstance(owner, dict) and owner.get("controller") and owner.get("name"):
            group = _named(space, str(owner["name"]), str(owner.get("uid") or ""))
            return group, f"owner {owner.get('kind')} {owner['name']}"
    return "", "the pod itself"


def _named(space: str, name: str, uid: str) -> str:
    """A name that another object of the same name, made later, does not share."""
    return f"{space}/{name}.{uid[:8]}" if uid else f"{space}/{name}"


def _members(labels: Mapping[str, str], leaves: int, name: str) -> list[dict[str, int]]:
    """``group-members: 1x4.2x8`` is one pod of 4 and two of 8 leaf cells; ``group-size: 3`` is three like this one."""
    if text := labels.get(MEMBERS):
        members = []
        for part in text.replace(",", ".").split("."):
            pods, separator, cells = part.partition("x")
            if not separator:
                raise RequestError(
                    name,
                    MEMBERS,
                    i18n.text("expected PODSxCELLS joined by dots, as in 1x4.2x8, found {found!r}", found=text),
                )
            members.append({"podNumber": _number(pods, MEMBERS, name), "leafCellNumber": _number(cells, MEMBERS, name)})
        return members
    if text := labels.get(GROUP_SIZE):
        return [{"podNumber": _number(text, GROUP_SIZE, name), "leafCellNumber": leaves}]
    return []


def _named_members(pod: Mapping[str, Any], leaves: int, name: str, named: PodGroup | None) -> list[dict[str, int]]:
    """The members by the PodGroup that a pod names: as many pods like this one as it places together."""
    wanted = group_of(pod)
    if not wanted:
        return []
    if named is None:
        raise RequestError(
            name, SCHEDULING_GROUP, i18n.text("PodGroup {name} does not exist, or is not known yet", name=wanted)
        )
    return [{"podNumber": named.size, "leafCellNumber": leaves}] if named.size else []


def leaf_cells(pod: Mapping[str, Any], rules: Rules, name: str) -> int:
    """Leaf cells that a pod, or the template of pods, asks for; 0 if it asks for none.

    Raises `RequestError` naming the label at fault.
    """
    about = pod["metadata"]
    labels = {**_texts(about.get("annotations")), **_texts(about.get("labels"))}
    if LEAF_CELLS not in labels and not any(pod_limit(pod, resource) for resource in rules.devices):
        return 0
    return _leaves(pod, labels, labels.get(LEAF_TYPE, ""), rules, name)[0]


def _leaves(
    pod: Mapping[str, Any], labels: Mapping[str, str], leaf_type: str, rules: Rules, name: str
) -> tuple[int, str]:
    """Leaf cells that a pod asks for, and how they were counted."""
    if text := labels.get(LEAF_CELLS):
        return _number(text, LEAF_CELLS, name), f"label {LEAF_CELLS}"
    for resource in rules.devices:
        devices = pod_limit(pod, resource)
        if devices:
            each = _each(leaf_type, rules)
            how = f"limits of {resource}: {devices}" + (f", {each} to a leaf cell" if each > 1 else "")
            return ceil(devices / each), how
    raise RequestError(
        name,
        NO_DEVICES,
        i18n.text(
            "no container asks for devices ({names}, ...); say how many leaf cells by {label}",
            names=", ".join(rules.devices[:3]),
            label=LEAF_CELLS,
        ),
    )


def check_devices(pod: Mapping[str, Any], request: PodRequest, rules: Rules) -> None:
    """Raise `RequestError` if a pod's containers may use more devices than its leaf cells have.

    A device plugin would give it those of other cells, which are then promised to others, but not free.
    """
    most = request.leaf_number * _least(request, rules)
    for resource in rules.devices:
        devices = pod_limit(pod, resource)
        if devices > most:
            raise RequestError(
                request.name,
                f"{NO_DEVICES}[{resource}]",
                i18n.text(
                    "its containers may use {devices} devices, but its leaf cells have only {most}: ask for more leaf "
                    "cells or set lower limits",
                    devices=devices,
                    most=most,
                ),
            )


def _least(request: PodRequest, rules: Rules) -> Fraction:
    """Devices of the smallest leaf cell with devices that a pod may get.

    `_each` answers another question: by it cells are counted for pods that name a number of devices only, those that
    run as well, and so it stays what it was when they were placed.
    """
    key = (request.vc, request.pinned_id) if request.guaranteed else ("", "")
    types = [request.leaf_type] if request.leaf_type else rules.within.get(key, rules.skus)
    return min(filter(None, (_size(rules.skus.get(kind)) for kind in types)), default=Fraction(1))


def _size(sku: Mapping[str, int | str] | None) -> Fraction:
    """Devices of a leaf cell of a SKU, one if the type has no SKU."""
    try:
        return Fraction(1) if sku is None else exact_quantity(sku.get("gpu", 0))
    except ValueError:  # who reads the configuration says so
        return Fraction(1)


def _each(leaf_type: str, rules: Rules) -> int:
    """Devices of one leaf cell; if the type is open, what all types agree on, else one."""
    sizes = {kind: sku.get("gpu") for kind, sku in rules.skus.items() if not leaf_type or kind == leaf_type}
    values = {value for value in sizes.values() if isinstance(value, int) and value > 0}
    return values.pop() if len(values) == 1 else 1


def pod_limit(pod: Mapping[str, Any], resource: str) -> int:
    """What a pod's containers may use of a resource: together, or one init container beside its sidecars if more.

    An init container has ended before the next begins; the sidecars before it run on beside it.
    """
    spec = pod.get("spec") or {}
    together = sum(container_limit(container, resource) for container in spec.get("containers") or ())
    sidecars, peak = 0, 0
    for container in spec.get("initContainers") or ():
        amount = container_limit(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += amount
        else:
            peak = max(peak, amount + sidecars)
    return max(together + sidecars, peak)


def container_limit(container: Mapping[str, Any], resource: str) -> int:
    """What one container may use of a resource; 0 for what is no count."""
    resources = container.get("resources") or {}
    amount = (resources.get("limits") or {}).get(resource, (resources.get("requests") or {}).get(resource, 0))
    text = str(amount)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _priority(labels: Mapping[str, str], name: str) -> int:
    text = labels.get(PRIORITY, "0")
    if text == _OPPORTUNISTIC:
        return -1
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text)
    return sign * _number(digits, PRIORITY, name)


def _flag(labels: Mapping[str, str], key: str, name: str) -> bool:
    text = labels.get(key, "false").lower()
    if text not in _WORDS:
        raise RequestError(name, key, i18n.text("expected true or false, found {found!r}", found=text[:40]))
    return _WORDS[text]


def _number(text: str, key: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise RequestError(name, key, i18n.text("expected a whole number, found {found!r}", found=text[:40]))
    return int(text)


def _texts(mapping: object) -> dict[str, str]:
    """Labels or annotations of ours and of the controllers that we know."""
    if not isinstance(mapping, dict):
        return {}
    wanted = (*KEYS, JOBSET, _JOBSET_UID, KUBEFLOW)
    return {key: mapping[key] for key in wanted if isinstance(mapping.get(key), str)}
