"""The changes of state that a group goes through: released, lazily preempted, preempting, cancelled, allocated.

Each function is one arrow (or part of one) of `groups.TRANSITIONS` with everything that goes with it in the
ledgers. Preassigned cells are taken after all their leaves are bound and given back after all are released,
so that nothing can slip in between.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cells.tree import NO_PARENT
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import NO_LEAF, Placement
from paictl.scheduler.errors import InvariantError
from paictl.scheduler.groups import Group, GroupState, new_group
from paictl.scheduler.occupancy import OPPORTUNISTIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State


def delete(state: State, group: Group) -> None:
    """The last pod of a group is gone: free its leaves, except what another group reserves."""
    occupancy, journal = state.occupancy, state.journal
    for _, leaves, _ in group.placements():
        here = [leaf for leaf in leaves if leaf != NO_LEAF]
        for leaf in here:
            journal.drop(occupancy.user, leaf)
        used = [leaf for leaf in here if leaf not in occupancy.reserver]
        guaranteed, opportunistic = _by_class(state, used)
        if guaranteed:
            occupancy.drop(guaranteed)
            release_virtual(state, guaranteed)
        if opportunistic:
            occupancy.drop(opportunistic)
    state.groups.remove(group)


def lazy_preempt(state: State, group: Group, preemptor: str, now: float | None) -> None:
    """A group loses its virtual leaves and runs on as opportunistic where it is."""
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
            occupancy.drop(guaranteed)
            release_virtual(state, guaranteed)
            occupancy.hold(guaranteed, OPPORTUNISTIC)
    state.groups.put(replace(group, virtual=None, preemptor=preemptor, preempted_at=now, levels=levels))


def start_preemption(state: State, request: PodRequest, placement: Placement) -> None:
    """A group reserves its leaves; those who use them become its victims."""
    if placement.virtual is None:
        raise InvariantError(f"opportunistic group {request.group} would preempt")
    occupancy, journal = state.occupancy, state.journal
    group = new_group(request, GroupState.PREEMPTING, placement.physical, placement.virtual)
    roots: list[VirtualCell] = []
    for _, leaves, virtual in group.placements():
        assert virtual is not None  # noqa: S101 (checked above)
        _drop_all(state, leaves)
        used = [leaf for leaf in virtual if leaf in occupancy.virtual_priority]
        if used:
            occupancy.drop_virtual(used)
        for leaf, twin in zip(leaves, virtual, strict=True):
            roots += _bind(state, leaf, twin)
            journal.put(occupancy.reserver, leaf, group.name)
        occupancy.hold(leaves, request.priority)
        occupancy.hold_virtual(virtual, request.priority)
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
    """A preemption ends without effect: its leaves go back to their users, priority, virtual leaf and all."""
    occupancy, binding, journal = state.occupancy, state.binding, state.journal
    victims = _users(state, group.leaves())
    roots: dict[VirtualCell, PhysicalCell] = {}
    for _, leaves, virtual in group.placements():
        assert virtual is not None  # noqa: S101 (a preempting group is guaranteed)
        for twin in virtual:
            root = state.virtual.root[twin]
            roots[root] = binding.physical[root]
        occupancy.drop(leaves)
        occupancy.drop_virtual(virtual)
        for leaf in leaves:
            journal.drop(occupancy.reserver, leaf)
            user = state.groups.by_name[occupancy.user[leaf]] if leaf in occupancy.user else None
            if user is not None and user.virtual is not None:
                occupancy.hold((leaf,), user.priority)
                occupancy.hold_virtual((binding.virtual[leaf],), user.priority)
                continue
            if not state.counts.bad[leaf]:
                binding.release(leaf)
            if user is not None:
                occupancy.hold((leaf,), OPPORTUNISTIC)
    _give_idle(state, roots)
    for victim in victims:
        if victim.state is GroupState.BEING_PREEMPTED and not any(
            leaf in occupancy.reserver for leaf in victim.leaves()
        ):
            state.groups.put(replace(victim, state=GroupState.ALLOCATED))
    state.groups.stop_waiting(group)
    state.groups.remove(group)


def complete_preemption(state: State, group: Group) -> Group:
    """The victims are gone: what was reserved is used."""
    occupancy, journal = state.occupancy, state.journal
    for leaf in group.leaves():
        if leaf in occupancy.user:
            raise InvariantError(f"group {group.name} is to run on a leaf that {occupancy.user[leaf]} uses")
        journal.drop(occupancy.reserver, leaf)
        journal.put(occupancy.user, leaf, group.name)
    state.groups.stop_waiting(group)
    return state.groups.put(replace(group, state=GroupState.ALLOCATED, preempting=frozenset()))


def release_virtual(state: State, leaves: Sequence[PhysicalCell]) -> None:
    """The virtual leaves of physical leaves that a pod held become free; so do preassigned cells left idle."""
    binding = state.binding
    virtual = [binding.virtual[leaf] for leaf in leaves]
    roots = {state.virtual.root[twin]: binding.physical[state.virtual.root[twin]] for twin in virtual}
    state.occupancy.drop_virtual(virtual)
    for leaf in leaves:
        if not state.counts.bad[leaf]:  # a bad leaf stays bound, so that the VC sees it
            binding.release(leaf)
    _give_idle(state, roots)


def _give_idle(state: State, roots: dict[VirtualCell, PhysicalCell]) -> None:
    """Give back the physical cells of preassigned cells that nobody uses any more.

    A doomed one stays for as long as it is bad and needed: it shows what its VC cannot have. `roots` maps
    preassigned cells to the physical ones they were bound to.
    """
    doomed, bad = state.doomed, state.counts.bad
    idle = []
    for root, cell in roots.items():
        if not state.counts.used[root] and cell not in state.binding.pinned:
            vc = state.virtual.preassigned[root].vc
            idle.append((cell, vc))
            if not bad[cell] and doomed.is_doomed(cell, vc):
                doomed.forget(cell, vc)
    for cell, vc in idle:
        if doomed.is_doomed(cell, vc):
            doomed.spare(state.physical.chain[cell], state.physical.level[cell])
        elif state.buddy.holder(cell) == NO_PARENT:  # else another one of them spared it
            doomed.give(cell, vc)


def _drop_all(state: State, leaves: Sequence[PhysicalCell]) -> None:
    """Physical leaves lose their priority, if they have one."""
    for held in _by_class(state, [leaf for leaf in leaves if leaf in state.occupancy.priority]):
        if held:
            state.occupancy.drop(held)


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
