"""An explanation as data: counts of leaves and nodes, who holds them, and the changes that would help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from enum import StrEnum
from typing import Any, Final

from paictl.frozen import frozen
from paictl.scheduler.decision import Failure
from paictl.scheduler.groups import Hold
from paictl.scheduler.request import PodRequest
from paictl.scheduler.scratch import ChangeOutcome, Holder

ANOTHER: Final = "another tenant's job"
"""The group of a holder whose name the reader must not see; its VC is empty then."""


class PodVerdict(StrEnum):
    """What is decided about the pod now."""

    BIND = "bind"
    PREEMPT = "preempt"
    WAIT = "wait"


@frozen
class LeafCounts:
    """Every leaf of a view, counted once, as the first of these that applies: doomed, bad, not suggested, reserved or
    used at the request's priority or above, used by a weaker group, free.
    """

    total: int = 0
    free: int = 0
    weaker: int = 0
    """Held by groups that the request may preempt."""
    used: int = 0
    reserved: int = 0
    """Kept for a preemption of at least the request's priority."""
    not_suggested: int = 0
    bad: int = 0
    """On bad nodes, without the doomed ones."""
    doomed: int = 0
    """In cells of the VC that only bad hardware can serve now."""


@frozen
class NodeCounts:
    """The nodes of a view; a preassigned cell below node level counts as a node of its own."""

    total: int
    bad: int
    not_suggested: int
    idle: int
    """Healthy, suggested and without any group."""


@frozen
class LevelCounts:
    """Cells of one type in a view, from the node down to the leaf."""

    cell_type: str
    total: int
    free: int
    """Without any group, on healthy and suggested nodes."""


@frozen
class PodFit:
    """Pods of one size, and how many of them the view has room for if the group's other pods take none."""

    leaf_number: int
    pods: int
    room: int
    nodes: int
    """Nodes with room for at least one."""


@frozen
class PromiseUse:
    """Preassigned cells of one type: how many the VC was promised, has not in use, and cannot use now."""

    cell_type: str
    number: int
    free: int
    doomed: int


@frozen
class ViewReport:
    """A view that has no place for the group."""

    view: str
    """``chain NAME`` or ``pinned cell ID``"""
    vc: str
    """Empty for the physical view of an opportunistic group."""
    chain: str
    leaf_type: str
    failure: Failure
    needed: int
    """Leaf cells of the whole group."""
    leaves: LeafCounts
    nodes: NodeCounts
    levels: tuple[LevelCounts, ...]
    """Highest first; preassigned cells above node level are in `promises`."""
    pods: tuple[PodFit, ...]
    promises: tuple[PromiseUse, ...]
    holders: tuple[Holder, ...]
    """Groups that the request may not preempt, those with most leaves here first."""
    ever: bool
    """Whether the view could hold the group if it was healthy and idle."""
    elsewhere: int
    """Free leaves on healthy nodes of the chain beyond those that count as free above."""
    by_order: bool = False
    """Whether all pods would fit into the free leaves, but not in the order in which nodes are filled."""


class ChangeKind(StrEnum):
    """What could be changed, in order of how little it disturbs."""

    ANY_NODE = "any node"
    """Not insisting on suggested nodes."""
    HEAL = "nodes healthy"
    OPPORTUNISTIC = "opportunistic"
    QUOTA = "more quota"
    PRIORITY = "priority"
    END = "groups end"
    SIZE = "smaller"
    """Asking for less: a compromise, unlike the other changes, and kept apart from them (`Explanation.smaller`)."""


@frozen
class QuotaIncrease:
    """`number` more cells for a VC; `unpromised` cells of the level are not promised to any VC."""

    vc: str
    chain: str
    cell_type: str
    number: int
    unpromised: int


@frozen
class Change:
    """One change that was tried and lets the pod run; `kind` says which of the fields counts."""

    kind: ChangeKind
    outcome: ChangeOutcome
    groups: tuple[Holder, ...] = ()
    nodes: tuple[str, ...] = ()
    devices: tuple[tuple[str, int], ...] = ()
    """(node, number) of devices."""
    priority: int | None = None
    quota: QuotaIncrease | None = None
    members: tuple[tuple[int, int], ...] = ()
    """(leaf cells of a pod, number of such pods) to ask for instead."""
    smallest: bool = True
    """Whether every smaller change of this kind was tried without success; False if there were too many to try."""

    @property
    def harm(self) -> tuple[int, int]:
        """Leaf cells of groups that end or are preempted, and of groups that lose their guarantee."""
        ended = sum(holder.leaves for holder in (*self.groups, *self.outcome.victims))
        return ended, sum(holder.leaves for holder in self.outcome.lazy)


@frozen
class Explanation:
    """Why the decision about a pod is what it is; `views` and `changes` are empty unless it waits for room."""

    request: PodRequest
    decision: PodVerdict
    outcome: ChangeOutcome | None
    """Where it would run and who must go first, None if it waits for room."""
    views: tuple[ViewReport, ...] = ()
    physical: bool = False
    """Whether there are unused devices for a guaranteed request, but not for its VC."""
    changes: tuple[Change, ...] = ()
    """Least disturbing first."""
    pins: tuple[str, ...] = ()
    """Pinned cells of the VC, if a guaranteed request names none: only jobs that name them get them."""
    smaller: Change | None = None
    """The largest smaller group that would not wait, if there is one."""
    together: JointMove | None = None
    """For a lost member: what the members lost with it wait for, if it could move with them (`scheduler.repair`)."""


@frozen
class LostCell:
    """Lost members of a gang whose places are in one cell of its virtual cluster's promise."""

    cell_type: str
    """Empty for members whose places were given up when others moved."""
    nodes: tuple[str, ...]
    members: tuple[tuple[int, int], ...]
    """(leaf cells of a pod, number of such pods)"""


@frozen
class JointMove:
    """Lost members of a gang that would move together, and why they wait, as if they were a gang of their own."""

    cells: tuple[LostCell, ...]
    explanation: Explanation


def to_data(explanation: Explanation) -> dict[str, Any]:
    """A whole explanation as JSON values; `from_data` is the inverse."""
    request = explanation.request
    return {
        "pod": request.name,
        "uid": request.uid,
        "group": request.group,
        "virtualCluster": request.vc,
        "priority": request.priority,
        "members": [{"leafCellNumber": leaves, "podNumber": pods} for leaves, pods in request.members],
        "decision": str(explanation.decision),
        "outcome": None if explanation.outcome is None else _outcome_data(explanation.outcome),
        "views": _plain(explanation.views),
        "physicalCapacity": explanation.physical,
        "changes": [_change(change) for change in explanation.changes],
        "pins": list(explanation.pins),
        "smaller": None if explanation.smaller is None else _change(explanation.smaller),
        **({} if explanation.together is None else {"together": _joint(explanation.together)}),
        "request": {
            "leafCellNumber": request.leaf_number,
            "leafCellType": request.leaf_type,
            "pinnedCellId": request.pinned_id,
            "lazyPreemptionEnable": request.lazy_preemption,
            "ignoreK8sSuggestedNodes": request.ignore_suggested,
            **({"memberRepairEnable": True} if request.repair else {}),
        },
    }


def from_data(data: Mapping[str, Any]) -> Explanation:
    """The inverse of `to_data`; raises `KeyError`, `TypeError` or `ValueError` for anything else."""
    spec = data["request"]
    request = PodRequest(
        uid=data["uid"],
        name=data["pod"],
        vc=data["virtualCluster"],
        priority=data["priority"],
        leaf_number=spec["leafCellNumber"],
        group=data["group"],
        members=tuple((member["leafCellNumber"], member["podNumber"]) for member in data["members"]),
        leaf_type=spec["leafCellType"],
        pinned_id=spec["pinnedCellId"],
        lazy_preemption=spec["lazyPreemptionEnable"],
        ignore_suggested=spec["ignoreK8sSuggestedNodes"],
        repair=spec.get("memberRepairEnable", False),
    )
    return Explanation(
        request,
        PodVerdict(data["decision"]),
        None if data["outcome"] is None else _outcome(data["outcome"]),
        tuple(map(_view, data["views"])),
        data["physicalCapacity"],
        tuple(map(_change_from, data["changes"])),
        tuple(data["pins"]),
        None if data.get("smaller") is None else _change_from(data["smaller"]),
        None if data.get("together") is None else _joint_from(data["together"]),
    )


def _joint(move: JointMove) -> dict[str, Any]:
    return {"cells": _plain(move.cells), "explanation": to_data(move.explanation)}


def _joint_from(data: Mapping[str, Any]) -> JointMove:
    cells = (
        LostCell(cell["cell_type"], tuple(cell["nodes"]), tuple((leaves, pods) for leaves, pods in cell["members"]))
        for cell in data["cells"]
    )
    return JointMove(tuple(cells), from_data(data["explanation"]))


def _outcome(data: Mapping[str, Any]) -> ChangeOutcome:
    places = tuple((node, tuple(devices)) for node, devices in data["places"])
    return ChangeOutcome(
        places, tuple(map(_holder, data["victims"])), tuple(map(_holder, data["lazy"])), data.get("instances", 0)
    )


def _holder(data: Mapping[str, Any]) -> Holder:
    return Holder(**{**data, "hold": Hold(data["hold"])})


def _view(data: Mapping[str, Any]) -> ViewReport:
    parts: dict[str, Any] = {
        "failure": Failure(data["failure"]),
        "leaves": LeafCounts(**data["leaves"]),
        "nodes": NodeCounts(**data["nodes"]),
        "levels": tuple(LevelCounts(**row) for row in data["levels"]),
        "pods": tuple(PodFit(**row) for row in data["pods"]),
        "promises": tuple(PromiseUse(**row) for row in data["promises"]),
        "holders": tuple(map(_holder, data["holders"])),
    }
    return ViewReport(**{item.name: parts.get(item.name, data[item.name]) for item in fields(ViewReport)})


def _change_from(data: Mapping[str, Any]) -> Change:
    quota = data.get("quota")
    return Change(
        ChangeKind(data["kind"]),
        _outcome(data["outcome"]),
        tuple(map(_holder, data.get("groups", ()))),
        tuple(data.get("nodes", ())),
        tuple((node, device) for node, device in data.get("devices", ())),
        data.get("priority"),
        None if quota is None else QuotaIncrease(**quota),
        tuple((leaves, pods) for leaves, pods in data.get("members", ())),
        data["smallest"],
    )


def _change(change: Change) -> dict[str, Any]:
    """A change, only with the fields of its kind."""
    data: dict[str, Any] = {"kind": str(change.kind)}
    for name in ("groups", "nodes", "devices", "priority", "quota", "members"):
        value = getattr(change, name)
        if value is not None and value != ():
            data[name] = _plain(value)
    return {**data, "smallest": change.smallest, "outcome": _outcome_data(change.outcome)}


def _outcome_data(outcome: ChangeOutcome) -> dict[str, Any]:
    """An outcome; for whole GPUs without `instances`, the form from before GPUs could be divided."""
    data: dict[str, Any] = _plain(outcome)
    if not outcome.instances:
        del data["instances"]
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, StrEnum):
        return str(value)
    if hasattr(value, "__dataclass_fields__"):
        return {key: _plain(item) for key, item in asdict(value).items()}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
