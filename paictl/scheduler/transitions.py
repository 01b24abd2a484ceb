"""The changes of state that a group goes through: released, lazily preempted, preempting, cancelled, allocated.

Each function is one arrow (or part of one) of `groups.TRANSITIONS` with everything that goes with it in the
ledgers. Preassigned cells are taken after all their leaves are bound and given back after all are released,
so that nothing can slip in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cells.ids import NO_VIRTUAL
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import NO_LEAF, Placement
from paictl.scheduler.errors import InvariantError
from paictl.scheduler.groups import Group, GroupState, new_group
from paictl.scheduler.occupancy import OPPORTUNISTIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paictl.cells.ids import C, PhysicalCell, VirtualCell
    from paictl.scheduler.decision import Bind, Placed, Slot
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State


def delete(state: State, group: Group) -> None:
    """The last pod of a group is gone: free its leaves, except what another group reserves."""
    occupancy = state.occupancy
    for _, leaves, _ in group.placements():
        existing = [leaf for leaf in leaves if leaf != NO_LEAF]
        occupancy.release(existing)
        used = [leaf for leaf in existing if leaf not in occupancy.reserver]
        guaranteed, opportunistic = _by_class(state, used)
        if guaranteed:
            occupancy.unrank(guaranteed)
            release_virtual(state, guaranteed)
        if opportunistic:
            occupancy.unrank(opportunistic)
    state.groups.remove(group)


def vacate(state: State, group: Group, slot: Slot) -> Group:
    """A lost member gives up its place; the group keeps all others. No leaf of the place may be reserved."""
    occupancy = state.occupancy
    existing = [leaf for leaf in group.physical[slot.member][slot.pod] if leaf != NO_LEAF]
    occupancy.release(existing)
    guaranteed, opportunistic = _by_class(state, existing)
    if guaranteed:
        occupancy.unrank(guaranteed)
        release_virtual(state, guaranteed)
    if opportunistic:
        occupancy.unrank(opportunistic)
    number = len(group.physical[slot.member][slot.pod])
    return state.groups.put(moved(group, slot, (NO_LEAF,) * number, (NO_VIRTUAL,) * number))


def moved(
    group: Group, slot: Slot, physical: tuple[PhysicalCell, ...], virtual: tuple[VirtualCell, ...] | None
) -> Group:
    """The group with a member in another place; `virtual` counts only while the group has a guarantee."""
    if group.virtual is not None and virtual is not None:
        group = replace(group, virtual=_replaced(group.virtual, slot, virtual))
    return replace(group, physical=_replaced(group.physical, slot, physical))


def _replaced(placed: Placed[C], slot: Slot, row: tuple[C, ...]) -> Placed[C]:
    """`placed` with the leaves of one slot changed."""
    members = list(placed)
    pods = list(members[slot.member])
    pods[slot.pod] = row
    members[slot.member] = tuple(pods)
    return tuple(members)


def lazy_preempt(state: State, group: Group, preemptor: str, now: float | None) -> None:
    """A group loses its virtual leaves and keeps running where it is, as opportunistic."""
    occupancy, root, level = state.occupancy, state.virtual.root, state.virtual.level
    levels = None
    if group.virtual is not None:
        levels = tuple(
            tuple(tuple(UNBOUND if twin == UNBOUND else level[root[twin]] for twin in row) for row in pods)
            for pods in group.virtual
        )
    for _, leaves, _ in group.placements():
        used = [leaf for leaf in leaves if leaf != NO_LEAF and leaf not in occupancy.reserver]
        guaranteed, _ = _by_class(state, used)
        if guaranteed:
            occupancy.unrank(guaranteed)
            release_virtual(state, guaranteed)
            occupancy.rank(guaranteed, OPPORTUNISTIC)
    state.groups.put(replace(group, virtual=None, preemptor=preemptor, preempted_at=now, levels=levels))


def start_preemption(state: State, request: PodRequest, placement: Placement) -> None:
    """A group reserves its leaves; their users become its victims."""
    if placement.virtual is None:
        raise InvariantError(f"opportunistic group {request.group} would preempt")
    occupancy = state.occupancy
    group = new_group(request, GroupState.PREEMPTING, placement.physical, placement.virtual)
    roots: list[VirtualCell] = []
    for _, leaves, virtual in group.placements():
        assert virtual is not None  # noqa: S101 (checked above)
        _drop_all(state, leaves)
        used = [leaf for leaf in virtual if leaf in occupancy.virtual_priority]
        if used:
            occupancy.unrank_virtual(used)
        for leaf, twin in zip(leaves, virtual, strict=True):
            roots += _bind(state, leaf, twin)
            state.doomed.claim(state.binding.physical[state.virtual.root[twin]], request.vc)
        occupancy.reserve(leaves, group.name)
        occupancy.rank(leaves, request.priority)
        occupancy.rank_virtual(virtual, request.priority)
    for root in roots:
        state.doomed.take(state.binding.physical[root], request.vc)
    for victim in _users(state, group.leaves()):
        if victim.state is GroupState.ALLOCATED:
            state.groups.put(replace(victim, state=GroupState.BEING_PREEMPTED))
    state.groups.put(group)
    state.groups.wait(request.uid, group)


def _bind(state: State, leaf: PhysicalCell, twin: VirtualCell) -> list[VirtualCell]:
    """Bind a leaf of a placement to its virtual leaf unless it is; returns the preassigned cell that this bound."""
    bound = state.binding.virtual[leaf]
    if bound == twin:
        return []
    if bound != UNBOUND:
        raise InvariantError(f"leaf {state.physical.address(leaf)} is bound to {state.virtual.address(bound)}")
    return [state.virtual.root[twin]] if state.binding.bind(leaf, twin) else []


def cancel_preemption(state: State, group: Group) -> None:
    """A preemption ends without effect: its leaves go back to their users with priority and virtual leaf."""
    occupancy, binding = state.occupancy, state.binding
    victims = _users(state, group.leaves())
    roots: dict[VirtualCell, PhysicalCell] = {}
    for _, leaves, virtual in group.placements():
        assert virtual is not None  # noqa: S101 (a preempting group is guaranteed)
        for twin in virtual:
            root = state.virtual.root[twin]
            roots[root] = binding.physical[root]
        occupancy.unrank(leaves)
        occupancy.unrank_virtual(virtual)
        occupancy.unreserve(leaves)
        for leaf in leaves:
            user = state.groups.by_name[occupancy.user[leaf]] if leaf in occupancy.user else None
            if user is not None and user.virtual is not None:
                occupancy.rank((leaf,), user.priority)
                occupancy.rank_virtual((binding.virtual[leaf],), user.priority)
                continue
            if not state.counts.bad[leaf]:
                binding.release(leaf)
            if user is not None:
                occupancy.rank((leaf,), OPPORTUNISTIC)
    _give_idle(state, roots)
    for victim in victims:
        if victim.state is GroupState.BEING_PREEMPTED and not any(
            leaf in occupancy.reserver for leaf in victim.leaves()
        ):
            state.groups.put(replace(victim, state=GroupState.ALLOCATED))
    state.groups.stop_waiting(group)
    state.groups.remove(group)


def complete_preemption(state: State, group: Group) -> Group:
    """The victims are gone: the reserved leaves are now used."""
    leaves = tuple(group.leaves())
    state.occupancy.unreserve(leaves)
    state.occupancy.use(leaves, group.name)
    state.groups.stop_waiting(group)
    return state.groups.put(replace(group, state=GroupState.ALLOCATED, preempting=frozenset()))


def release_virtual(state: State, leaves: Sequence[PhysicalCell]) -> None:
    """The virtual leaves of physical leaves that a pod held become free; so do preassigned cells left idle."""
    binding = state.binding
    virtual = [binding.virtual[leaf] for leaf in leaves]
    roots = {state.virtual.root[twin]: binding.physical[state.virtual.root[twin]] for twin in virtual}
    state.occupancy.unrank_virtual(virtual)
    for leaf in leaves:
        if not state.counts.bad[leaf]:  # a bad leaf stays bound, so that the VC sees it
            binding.release(leaf)
    _give_idle(state, roots)


def _give_idle(state: State, roots: dict[VirtualCell, PhysicalCell]) -> None:
    """Give back the physical cells of preassigned cells that are no longer used.

    Bad cells too: whether they have to be doomed is settled along with all others. `roots` maps preassigned cells to
    the physical ones they were bound to.
    """
    for root, cell in roots.items():
        if not state.counts.used[root] and cell not in state.binding.pinned:
            state.doomed.give(cell, state.virtual.preassigned[root].vc)


def _drop_all(state: State, leaves: Sequence[PhysicalCell]) -> None:
    """Physical leaves lose their priority, if they have one."""
    for ranked in _by_class(state, [leaf for leaf in leaves if leaf in state.occupancy.priority]):
        if ranked:
            state.occupancy.unrank(ranked)


def _by_class(state: State, leaves: Sequence[PhysicalCell]) -> tuple[list[PhysicalCell], list[PhysicalCell]]:
    """Held leaves, split into guaranteed and opportunistic ones."""
    priority = state.occupancy.priority
    guaranteed = [leaf for leaf in leaves if priority[leaf] != OPPORTUNISTIC]
    if len(guaranteed) == len(leaves):
        return guaranteed, []
    return guaranteed, [leaf for leaf in leaves if priority[leaf] == OPPORTUNISTIC]


def _users(state: State, leaves: Iterable[PhysicalCell]) -> list[Group]:
    """The groups that use some leaves, by name."""
    user, by_name = state.occupancy.user, state.groups.by_name
    return [by_name[name] for name in sorted({user[leaf] for leaf in leaves if leaf in user})]


def victims(state: State, leaves: Iterable[PhysicalCell]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """All pods of all groups that use one of the leaves: node name and uids, both in order."""
    user, groups = state.occupancy.user, state.groups
    names = {user[leaf] for leaf in leaves if leaf in user}
    if not names:
        return ()
    by_node: dict[str, list[str]] = {}
    for name in names:
        for pods in groups.by_name[name].pods:
            for uid in pods:
                if uid:
                    by_node.setdefault(groups.slots[uid][2], []).append(uid)
    return tuple((node, tuple(sorted(uids))) for node, uids in sorted(by_node.items()))


def only_planned(state: State, decision: Bind) -> bool:
    """Whether the transaction so far has changed exactly the groups that `decision` planned to change, in that way.

    A plan may be older than the state: a group to preempt lazily may be gone, its name taken by a group that does not
    allow it, and its virtual cells taken by a group that the plan did not know.
    """
    groups, own = state.groups, {decision.request.group}
    changed = {name: before for name, before in groups.touched.items() if groups.by_name.get(name) is not before}
    if changed.keys() - own != {*decision.lazy, *decision.cancel} - own:
        return False
    needed = {cell for pods in decision.placement.virtual or () for row in pods for cell in row}
    for name in decision.lazy:
        before = changed[name]
        if before is None or not before.lazy_preemption or before.virtual is None:
            return False
        if needed.isdisjoint(cell for pods in before.virtual for row in pods for cell in row):
            return False
    return True
