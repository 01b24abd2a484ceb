"""Repair in place: one member of a gang that runs moves, all others stay where they are (`docs/repair.md`).

A pod whose request allows it (`PodRequest.repair`) gets another place if the free one in its gang is bad, as near as
possible. While others have to leave that place first, a group of one pod stands for the member: it preempts as any
other group does, and the member takes over what it has reserved. All is planned in a scratch that rolls back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.scheduler import recovery, transitions
from paictl.scheduler.decision import NO_LEAF, Bind, BindInfo, Decision, Phase, Placement, Preempt, Slot, Wait
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.placement.near import search_near
from paictl.scheduler.placement.search import Found
from paictl.scheduler.request import stand_in

if TYPE_CHECKING:
    from collections.abc import Collection

    from paictl.cells.ids import PhysicalCell
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State


def open_slot(state: State, group: Group, request: PodRequest, offered: Collection[str] | None) -> Slot | None:
    """The slot that a pod of a group that runs takes: the first free one that can be used, else the first free one."""
    first = group.free_slot(request.leaf_number)
    if first is None or not request.repair:
        return first
    for pod, uid in enumerate(group.pods[first.member]):
        slot = Slot(first.member, pod)
        if not uid and is_usable(state, group, slot, offered):
            return slot
    return first


def is_usable(state: State, group: Group, slot: Slot, offered: Collection[str] | None) -> bool:
    """Whether a pod can run in the place of a slot: it is there, good, and on a node that is offered."""
    tree, bad = state.physical, state.counts.bad
    return not any(
        leaf == NO_LEAF or bad[leaf] or (offered is not None and tree.node_name(leaf) not in offered)
        for leaf in group.physical[slot.member][slot.pod]
    )


def member_request(state: State, group: Group, request: PodRequest, slot: Slot) -> PodRequest:
    """The request of the group that stands for one member: of its gang's rights, and of its kind of device."""
    anchor = _anchor(group, slot)
    chain = "" if anchor is None else state.physical.chains[state.physical.chain[anchor]].leaf_type
    guaranteed = group.virtual is not None
    return replace(
        request,
        group=stand_in(request),
        members=((request.leaf_number, 1),),
        priority=group.priority if guaranteed else OPPORTUNISTIC,
        pinned_id=group.pinned_id if guaranteed else "",
        leaf_type=chain or request.leaf_type,
    )


def _anchor(group: Group, slot: Slot) -> PhysicalCell | None:
    """The leaf to stay close to: one of the place that is lost, else one of another member."""
    here = (leaf for leaf in group.physical[slot.member][slot.pod] if leaf != NO_LEAF)
    return next(here, next(group.leaves(), None))


def plan(
    state: State, version: int, group: Group, slot: Slot, request: PodRequest, offered: Collection[str] | None,
    phase: Phase,
) -> Decision:  # fmt: skip
    """Another place for a member whose own cannot be used; changes nothing. `version` is that of the state."""
    waiting = state.groups.by_name.get(stand_in(request))
    if waiting is not None and all(is_usable(state, waiting, place, offered) for place, _, _ in waiting.placements()):
        victims = transitions.victims(state, waiting.leaves())
        if victims:
            return Preempt(request, version, victims, joins=True)
        place = Placement(waiting.physical, waiting.virtual)
        return _bind(version, group, slot, request, Found(place), (waiting.name,))
    cancel: tuple[str, ...] = () if waiting is None else (waiting.name,)
    part, anchor = member_request(state, group, request, slot), _anchor(group, slot)
    if group.state is not GroupState.ALLOCATED or anchor is None:
        return Wait(request, version, cancel=cancel)
    mark = state.journal.begin()
    try:
        if waiting is not None:
            transitions.cancel_preemption(state, waiting)
        transitions.vacate(state, group, slot)
        state.doomed.settle()
        found = search_near(state, part, anchor, offered)
        if not isinstance(found, Found):
            return Wait(request, version, found, cancel)
        leaves = [leaf for row in found.placement.physical[0] for leaf in row]
        victims = transitions.victims(state, leaves)
        reserver = state.occupancy.reserver
        cancel += tuple(sorted({reserver[leaf] for leaf in leaves if leaf in reserver}))
    finally:
        state.journal.rollback(mark)
    if not victims:
        return _bind(version, group, slot, request, found, cancel)
    if phase is Phase.FILTERING:
        return Preempt(request, version, victims)
    return Preempt(
        part, version, victims, found.placement, found.lazy, cancel, repairs=(group.name, slot)
    )  # fmt: skip


def _bind(version: int, group: Group, slot: Slot, request: PodRequest, found: Found, cancel: tuple[str, ...]) -> Bind:
    """The member's place as the whole gang's: where the others are, and where it moves."""
    placement = found.placement
    virtual = placement.virtual[0][0] if placement.virtual is not None else None
    after = transitions.moved(group, slot, placement.physical[0][0], virtual)
    whole = Placement(after.physical, after.virtual)
    return Bind(request, version, slot, whole, found.lazy, cancel, repairs=True)


def carry_out(state: State, group: Group, decision: Bind, now: float | None) -> Group | None:
    """Carry out a repair as it was planned; None if it no longer holds."""
    slot, placement = decision.slot, decision.placement
    leaves = placement.physical[slot.member][slot.pod]
    if any(leaf in state.occupancy.user for leaf in leaves):
        return None
    levels = (recovery.UNGUARANTEED,) * len(leaves)
    if placement.virtual is not None:
        twins = placement.virtual[slot.member][slot.pod]
        levels = tuple(state.virtual.level[state.virtual.root[twin]] for twin in twins)
    return recovery.settle_member(state, transitions.vacate(state, group, slot), slot, leaves, levels, now)


def recover_move(state: State, group: Group, slot: Slot, request: PodRequest, info: BindInfo) -> Group | None:
    """A pod was bound by another process to a place that its gang has moved it to; None if it cannot have that."""
    leaves = tuple(recovery.find_leaf(state, info.node, device, info.chain) for device in info.devices)
    if NO_LEAF in leaves or any(leaf in state.occupancy.user for leaf in leaves):
        return None
    _, levels = recovery.locate(state, request, info)
    return recovery.settle_member(
        state, transitions.vacate(state, group, slot), slot, leaves, levels[slot.member][slot.pod], None
    )
