"""Repair in place: one member of a running gang moves, all others stay where they are (`docs/repair.md`).

A pod whose request allows it (`PodRequest.repair`) gets another place if the free one in its gang is bad, as near as
possible. If other pods have to leave that place first, a group of one pod stands in for the member: it preempts like
any other group, and the member takes over what it has reserved. Everything is planned in a scratch that rolls back.

If a member has no place alone, the members lost with it move together: a virtual cell can be bound elsewhere only once
none of them holds a part of it. The first one that asks moves all of their slots; the others then find theirs usable.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cells.ids import NO_VIRTUAL
from paictl.scheduler import recovery, transitions
from paictl.scheduler.decision import NO_LEAF, Bind, BindInfo, Decision, Phase, Placement, Preempt, Slot, Wait
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.placement.proximity import search_near
from paictl.scheduler.placement.search import FoundPlacement
from paictl.scheduler.request import gang_of, stand_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State


def open_slot(state: State, group: Group, request: PodRequest, offered: Collection[str] | None) -> Slot | None:
    """The slot that a pod of a running group takes: the first free one that can be used, else the first free one."""
    first = group.free_slot(request.leaf_number)
    if first is None or not request.repair:
        return first
    for pod, uid in enumerate(group.pods[first.member]):
        slot = Slot(first.member, pod)
        if not uid and is_usable(state, group, slot, offered):
            return slot
    return first


def is_usable(state: State, group: Group, slot: Slot, offered: Collection[str] | None) -> bool:
    """Whether a pod can run in the place of a slot: it exists, is healthy, and lies on an offered node."""
    tree, bad = state.physical, state.counts.bad
    return not any(
        leaf == NO_LEAF or bad[leaf] or (offered is not None and tree.node_name(leaf) not in offered)
        for leaf in group.physical[slot.member][slot.pod]
    )


def _reservation(state: State, group: Group, request: PodRequest) -> Group | None:
    """The preemption that a member waits for, else one of its gang for several members for which too few wait."""
    waiting, by_name = state.groups.waiting, state.groups.by_name
    awaited = waiting.get(request.uid, "")
    names = _reservations(state, group)
    if awaited in names:
        return by_name[awaited]
    for name in names:
        preemption = by_name[name]
        pods = dict(preemption.members)
        if request.leaf_number in pods and len(preemption.preempting) < sum(pods.values()):
            return preemption
    return None


def _reservations(state: State, group: Group) -> tuple[str, ...]:
    """Names of the preemptions under way for members of a gang; never another tenant's, whatever its name."""
    by_name = state.groups.by_name
    names = {name for name in state.groups.waiting.values() if name != group.name and gang_of(name) == group.name}
    return tuple(sorted(name for name in names if by_name[name].vc == group.vc))


def member_request(state: State, group: Group, request: PodRequest, slot: Slot) -> PodRequest:
    """The request of the group that stands in for one member: with its gang's rights and its type of device."""
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


def joint_request(state: State, group: Group, request: PodRequest, slots: tuple[Slot, ...]) -> PodRequest:
    """The same for members that move together; `slots` begins with that of the member that asks."""
    sizes = Counter(group.members[slot.member][0] for slot in slots)
    return replace(member_request(state, group, request, slots[0]), members=tuple(sorted(sizes.items())))


def _anchor(group: Group, slot: Slot) -> PhysicalCell | None:
    """The leaf to stay close to: one of the lost place, else one of another member."""
    existing = (leaf for leaf in group.physical[slot.member][slot.pod] if leaf != NO_LEAF)
    return next(existing, next(group.leaves(), None))


def plan(
    state: State,
    version: int,
    group: Group,
    slot: Slot,
    request: PodRequest,
    offered: Collection[str] | None,
    phase: Phase,
) -> Decision:
    """Another place for a member whose own cannot be used; changes nothing. `version` is that of the state."""
    preemption = _reservation(state, group, request)
    waits = preemption is not None and request.uid in preemption.preempting
    if preemption is not None and all(
        is_usable(state, preemption, place, offered) for place, _, _ in preemption.placements()
    ):
        victims = transitions.victims(state, preemption.leaves())
        if victims and not waits:  # from now on it waits with the others
            request = replace(request, group=preemption.name, members=preemption.members)
        if victims:
            return Preempt(request, version, victims, joins=True)
        place = Placement(preemption.physical, preemption.virtual)
        slots = _slots_for(state, group, slot, preemption.members, offered)
        return _bind(version, group, slot, slots, request, FoundPlacement(place), (preemption.name,))
    cancel = (preemption.name,) if preemption is not None and waits else ()
    if group.state is not GroupState.ALLOCATED or _anchor(group, slot) is None:
        return Wait(request, version, cancel=cancel)
    alone = _plan_for(state, version, group, (slot,), request, offered, phase, cancel)
    if not isinstance(alone, Wait) or group.virtual is None:
        return alone
    for slots, given_up in joint_moves(state, group, slot, offered):
        joint = _plan_for(state, version, group, slots, request, offered, phase, given_up or cancel)
        if not isinstance(joint, Wait):
            return joint
    return alone


def joint_moves(
    state: State, group: Group, slot: Slot, offered: Collection[str] | None
) -> Iterator[tuple[tuple[Slot, ...], tuple[str, ...]]]:
    """Slots of lost members that could move together, and the preemptions to give up for it.

    Each begins with a slot of the same size as `slot`. First the slots in one preassigned cell, then all lost ones.
    The group must have a guarantee.
    """
    lost = _lost(state, group, offered)
    same = [lost_slot for lost_slot in lost if lost_slot.member == slot.member]
    first = next((lost_slot for lost_slot in same if root_of(state, group, lost_slot) != NO_VIRTUAL), slot)
    root = root_of(state, group, first)
    near = [lost_slot for lost_slot in lost if root != NO_VIRTUAL and root_of(state, group, lost_slot) == root]
    if len(near) > 1 or (near and first != slot):
        yield _first(near, first), ()
    if len(lost) > max(1, len(near)):
        yield _first(lost, first), _reservations(state, group)


def _lost(state: State, group: Group, offered: Collection[str] | None) -> list[Slot]:
    """Slots without a pod whose place cannot be used."""
    slots = (slot for slot, _, _ in group.placements() if not group.pods[slot.member][slot.pod])
    return [slot for slot in slots if not is_usable(state, group, slot, offered)]


def _first(slots: Iterable[Slot], first: Slot) -> tuple[Slot, ...]:
    return (first, *(slot for slot in slots if slot != first))


def root_of(state: State, group: Group, slot: Slot) -> VirtualCell:
    """The preassigned cell of a slot's place; `NO_VIRTUAL` if it has none."""
    assert group.virtual is not None  # noqa: S101 - its caller has asked
    twins = (twin for twin in group.virtual[slot.member][slot.pod] if twin != NO_VIRTUAL)
    return next((state.virtual.root[twin] for twin in twins), NO_VIRTUAL)


def _slots_for(
    state: State, group: Group, slot: Slot, members: Iterable[tuple[int, int]], offered: Collection[str] | None
) -> tuple[Slot, ...]:
    """The slots that take over what a preemption for `members` has reserved: first those that gave up their place."""
    lost = sorted(
        _lost(state, group, offered),
        key=lambda lost_slot: (NO_LEAF not in group.physical[lost_slot.member][lost_slot.pod], lost_slot),
    )
    out: list[Slot] = []
    for leaves, pods in members:
        out += [lost_slot for lost_slot in _first(lost, slot) if group.members[lost_slot.member][0] == leaves][:pods]
    return tuple(out)


def _plan_for(
    state: State,
    version: int,
    group: Group,
    slots: tuple[Slot, ...],
    request: PodRequest,
    offered: Collection[str] | None,
    phase: Phase,
    cancel: tuple[str, ...],
) -> Decision:
    """Another place for some lost members; the one that asks gets that of the first slot."""
    slot = slots[0]
    anchor = _anchor(group, slot)
    assert anchor is not None  # noqa: S101 - its caller has asked
    part = joint_request(state, group, request, slots)
    if part.group in state.groups.by_name and part.group not in cancel:
        cancel = (*cancel, part.group)  # it began for this member, and others have joined it since
    mark = state.journal.begin()
    try:
        for name in cancel:
            transitions.cancel_preemption(state, state.groups.by_name[name])
        for moving in slots:
            transitions.vacate(state, state.groups.by_name[group.name], moving)
        state.doomed.settle()
        result = search_near(state, part, anchor, offered)
        if not isinstance(result, FoundPlacement):
            return Wait(request, version, result, cancel)
        leaves = [leaf for pods in result.placement.physical for row in pods for leaf in row]
        victims = transitions.victims(state, leaves)
        reserver = state.occupancy.reserver
        cancel += tuple(sorted({reserver[leaf] for leaf in leaves if leaf in reserver}))
    finally:
        state.journal.rollback(mark)
    if not victims:
        return _bind(version, group, slot, slots, request, result, cancel)
    if phase is Phase.FILTERING:
        return Preempt(request, version, victims)
    return Preempt(part, version, victims, result.placement, result.lazy, cancel, repairs=(group.name, slots))


def _bind(
    version: int,
    group: Group,
    slot: Slot,
    slots: tuple[Slot, ...],
    request: PodRequest,
    candidate: FoundPlacement,
    cancel: tuple[str, ...],
) -> Bind:
    """The placement of the whole gang: the moved members at their new places, all others where they are."""
    placement, after = candidate.placement, group
    rows = {len(pods[0]): iter(range(len(pods))) for pods in placement.physical}
    index = {len(pods[0]): member for member, pods in enumerate(placement.physical)}
    for moving in slots:
        size = group.members[moving.member][0]
        member, pod = index[size], next(rows[size])
        virtual = placement.virtual[member][pod] if placement.virtual is not None else None
        after = transitions.moved(after, moving, placement.physical[member][pod], virtual)
    whole = Placement(after.physical, after.virtual)
    return Bind(request, version, slot, whole, candidate.lazy, cancel, repairs=True)


def moved_slots(group: Group, decision: Bind) -> list[Slot]:
    """The slots whose place in a group differs from that in a decision."""
    after = decision.placement.physical
    return [slot for slot, leaves, _ in group.placements() if leaves != after[slot.member][slot.pod]]


def carry_out(state: State, group: Group, decision: Bind, now: float | None) -> Group | None:
    """Carry out a repair as it was planned; None if it no longer holds."""
    placement = decision.placement
    slots = moved_slots(group, decision)
    if any(group.pods[slot.member][slot.pod] for slot in slots):
        return None
    for slot in slots:
        group = transitions.vacate(state, group, slot)
    settled: Group | None = group
    for slot in slots:
        leaves = placement.physical[slot.member][slot.pod]
        if settled is None or any(leaf in state.occupancy.user for leaf in leaves):
            return None
        levels = (recovery.UNGUARANTEED,) * len(leaves)
        if placement.virtual is not None:
            twins = placement.virtual[slot.member][slot.pod]
            levels = tuple(state.virtual.level[state.virtual.root[twin]] for twin in twins)
        settled = recovery.settle_member(state, settled, slot, leaves, levels, now)
    return settled


def recover_move(state: State, group: Group, slot: Slot, request: PodRequest, info: BindInfo) -> Group | None:
    """Follow a move by another process, which bound the pod to its new place; None if the pod cannot have it here."""
    leaves = tuple(recovery.find_leaf(state, info.node, device, info.chain) for device in info.devices)
    if NO_LEAF in leaves or any(leaf in state.occupancy.user for leaf in leaves):
        return None
    _, levels = recovery.locate(state, request, info)
    group = transitions.vacate(state, group, slot)
    for lost_slot in _lost(state, group, None):  # they moved with it, and their old places hold part of its promise
        old_leaves = group.physical[lost_slot.member][lost_slot.pod]
        if NO_LEAF not in old_leaves and info.place_at(lost_slot) != _place_of(state, old_leaves):
            group = transitions.vacate(state, group, lost_slot)
    return recovery.settle_member(state, group, slot, leaves, levels[slot.member][slot.pod], None)


def _place_of(state: State, leaves: Iterable[PhysicalCell]) -> tuple[str, tuple[int, ...]]:
    """Node and devices of a place, as an annotation has them."""
    tree, row = state.physical, tuple(leaves)
    return tree.node_name(row[0]), tuple(map(tree.device, row))
