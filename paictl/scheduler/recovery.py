"""From a group's physical leaves to state: how a bind takes effect, and how state is rebuilt after a restart.

Both use the same code, so a restart with an unchanged configuration restores the same state. Nothing here
assumes that the past was legal under the present configuration: a leaf that is gone is left out, and a group
whose virtual cells cannot be found, or whose binding would break a promise, keeps running as lazily preempted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PARENT, NO_VIRTUAL, PhysicalCell, VirtualCell
from paictl.frozen import frozen
from paictl.scheduler.binding import UNBOUND, RootKey
from paictl.scheduler.decision import NO_LEAF, BindInfo, Placed, Slot
from paictl.scheduler.groups import Group, GroupState, new_group
from paictl.scheduler.occupancy import FREE_PRIORITY, OPPORTUNISTIC
from paictl.scheduler.transitions import cancel_preemption, lazy_preempt, moved

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from paictl.scheduler.events import PodRecovered
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State

UNGUARANTEED = 0
"""Preassigned level of a leaf that was bound without a guarantee."""
UNKNOWN_LEVEL = -1
"""Preassigned level of a leaf whose preassigned type the chain does not have."""


def adopt(
    state: State, request: PodRequest, physical: Placed[PhysicalCell], levels: Placed[int], now: float | None
) -> Group:
    """Enter a group that runs on `physical`; `levels` gives the preassigned level of each leaf.

    Leaves that another group uses are left out (nothing is allocated twice), and preemptions that reserved some of
    its leaves are cancelled. Returns the group, which has no pod yet.
    """
    physical = _own(state, physical)
    _cancel_in_the_way(state, physical)
    claim = LeafClaim(request.group, request.vc, request.priority, request.pinned_id)
    guaranteed = request.guaranteed and not any(UNGUARANTEED in row for pods in levels for row in pods)
    virtual = _guarantee(state, claim, physical, levels, now) if guaranteed else None
    group = new_group(request, GroupState.ALLOCATED, physical, virtual)
    if virtual is None:
        for pods in physical:
            for leaves in pods:
                _occupy(state, claim, leaves, guaranteed=False)
        if guaranteed:
            group = replace(group, preemptor=group.name, preempted_at=now, levels=levels)
    return state.groups.put(group)


def settle_member(
    state: State, group: Group, slot: Slot, leaves: tuple[PhysicalCell, ...], levels: tuple[int, ...], now: float | None
) -> Group | None:
    """A member of a running group takes its place on `leaves`, which must be unused, after `transitions.vacate`.

    None if the group has a guarantee and its VC no quota left; the caller must roll back then. Preemptions that
    reserved some of the leaves are cancelled.
    """
    _cancel_in_the_way(state, ((leaves,),))
    claim = LeafClaim(group.name, group.vc, group.priority, group.pinned_id)
    if group.virtual is None:
        _occupy(state, claim, leaves, guaranteed=False)
        return state.groups.put(moved(group, slot, leaves, None))
    virtual = _guarantee(state, claim, ((leaves,),), ((levels,),), now)
    return None if virtual is None else state.groups.put(moved(group, slot, leaves, virtual[0][0]))


def claimed(state: State, pods: Iterable[PodRecovered]) -> dict[PhysicalCell, str]:
    """The group of each leaf on which a pod's own annotation places it; of several pods, that of the first."""
    out: dict[PhysicalCell, str] = {}
    leaves_at: dict[tuple[str, str], dict[int, PhysicalCell]] = {}
    for pod in pods:
        place = pod.info.node, pod.info.chain
        if place not in leaves_at:
            leaves_at[place] = _leaves_of(state, *place)
        for device in pod.info.devices:
            leaf = leaves_at[place].get(device, NO_LEAF)
            if leaf != NO_LEAF:
                out.setdefault(leaf, pod.request.group)
    return out


def without_taken(
    physical: Placed[PhysicalCell], taken: Mapping[PhysicalCell, str], group: str
) -> Placed[PhysicalCell]:
    """The leaves of a group without the places where, by its own annotation, a pod of another group runs.

    An annotation from before a repair names the old place of a member, and a pod's labels may have put it into another
    group since it was bound. The pod that runs there must not lose its devices to an empty place: they would be given
    away under it as soon as the group of that place ends.
    """
    if all(taken.get(leaf, group) == group for pods in physical for leaves in pods for leaf in leaves):
        return physical
    return tuple(
        tuple(
            (NO_LEAF,) * len(leaves) if any(taken.get(leaf, group) != group for leaf in leaves) else leaves
            for leaves in pods
        )
        for pods in physical
    )


def _own(state: State, physical: Placed[PhysicalCell]) -> Placed[PhysicalCell]:
    """The leaves without those that another group uses, or that the annotation names twice."""
    user, taken = state.occupancy.user, {NO_LEAF}
    named = [leaf for pods in physical for leaves in pods for leaf in leaves]
    if user.keys().isdisjoint(named) and len(set(named)) == len(named):  # always so for decisions of ours
        return physical

    def own(leaf: PhysicalCell) -> PhysicalCell:
        is_own = leaf not in taken and leaf not in user
        taken.add(leaf)
        return leaf if is_own else NO_LEAF

    return tuple(tuple(tuple(map(own, leaves)) for leaves in pods) for pods in physical)


def _guarantee(
    state: State, claim: LeafClaim, physical: Placed[PhysicalCell], levels: Placed[int], now: float | None
) -> Placed[VirtualCell] | None:
    """Enter the leaves of a group with virtual ones; None (and no change) if not all of them can have one.

    All or none: no other group gives way to one that would then run without its guarantee anyway.
    """
    finder = _VirtualFinder(state, claim, now)
    mark = state.journal.begin()
    virtual: list[tuple[tuple[VirtualCell, ...], ...]] = []
    for pods, rows in zip(physical, levels, strict=True):
        twins = []
        for leaves, row in zip(pods, rows, strict=True):
            cells = finder.pod(leaves, row)
            if cells is None:
                state.journal.rollback(mark)
                return None
            _occupy(state, claim, leaves, guaranteed=cells.count(NO_VIRTUAL) < len(cells))
            twins.append(cells)
        virtual.append(tuple(twins))
    state.journal.commit()
    return tuple(virtual)


def promote(state: State, group: Group) -> bool:
    """Give a lazily preempted group its guarantee back where it runs; False (and no change) if its VC has no room.

    No other group is preempted for it, lazily or not.
    """
    levels = group.levels
    if levels is None or group.state is not GroupState.ALLOCATED:
        return False
    mark = state.journal.begin()
    for pods in group.physical:
        for leaves in pods:
            existing = [leaf for leaf in leaves if leaf != NO_LEAF]
            if existing:
                state.occupancy.unrank(existing)
    claim = LeafClaim(group.name, group.vc, group.priority, group.pinned_id, gentle=True)
    virtual = _guarantee(state, claim, group.physical, levels, None)
    if virtual is None:
        state.journal.rollback(mark)
        return False
    state.journal.commit()
    state.groups.put(replace(group, virtual=virtual, preemptor=None, preempted_at=None, levels=None))
    return True


def _cancel_in_the_way(state: State, physical: Placed[PhysicalCell]) -> None:
    """Cancel the preemptions that reserve some of these leaves, by name."""
    reserver = state.occupancy.reserver
    if not reserver:
        return
    names = {reserver[leaf] for pods in physical for leaves in pods for leaf in leaves if leaf in reserver}
    for name in sorted(names):
        cancel_preemption(state, state.groups.by_name[name])


def _occupy(state: State, claim: LeafClaim, leaves: tuple[PhysicalCell, ...], *, guaranteed: bool) -> None:
    """The physical leaves of a pod get their user and priority."""
    existing = [leaf for leaf in leaves if leaf != NO_LEAF]
    state.occupancy.use(existing, claim.group)
    if existing:
        state.occupancy.rank(existing, claim.priority if guaranteed else OPPORTUNISTIC)


@frozen
class LeafClaim:
    """The group for which virtual leaves are searched; `gentle` takes none that are in use."""

    group: str
    vc: str
    priority: int
    pinned_id: str
    gentle: bool = False


class _VirtualFinder:
    """Finds (and binds, and counts as used) virtual leaves for physical ones on behalf of one group."""

    def __init__(self, state: State, claim: LeafClaim, now: float | None) -> None:
        self.state = state
        self.claim = claim
        self.now = now
        self.own_roots: set[VirtualCell] = set()
        """Preassigned cells of the present pod's leaves."""
        self.uncounted: list[VirtualCell] = []
        """Leaves of the present pod that are bound, but whose use is not counted yet."""

    def pod(self, leaves: tuple[PhysicalCell, ...], levels: tuple[int, ...]) -> tuple[VirtualCell, ...] | None:
        """The virtual leaf for each leaf of a pod, `NO_VIRTUAL` for one that is gone; None if one has none."""
        out = []
        self.own_roots.clear()
        for leaf, level in zip(leaves, levels, strict=True):
            twin = NO_VIRTUAL
            if leaf != NO_LEAF:
                twin = self._leaf(leaf, level)
                if twin == NO_VIRTUAL:
                    twin = self._leaf_without_doomed(leaf, level)
                if twin == NO_VIRTUAL:
                    return None
                self.uncounted.append(twin)
            out.append(twin)
        self._count()
        return tuple(out)

    def _count(self) -> None:
        """Count the found leaves as used: all leaves of a pod at once, unless the counts are needed earlier."""
        if self.uncounted:
            self.state.occupancy.rank_virtual(self.uncounted, self.claim.priority)
            self.uncounted.clear()

    def _leaf_without_doomed(self, leaf: PhysicalCell, level: int) -> VirtualCell:
        """A virtual leaf after unbinding all cells of the chain that only show badness: running pods come first."""
        if self.claim.gentle or not self.state.doomed.clear(self.state.physical.chain[leaf]):
            return NO_VIRTUAL
        return self._leaf(leaf, level)

    def _leaf(self, leaf: PhysicalCell, level: int) -> VirtualCell:
        """A virtual leaf for one physical leaf, bound to it, `NO_VIRTUAL` if there is none.

        Goes up from the leaf to the first bound cell, or to the preassigned level: the cells above are fixed, because
        another leaf of the group, or of its VC, has been bound there. Then down again on the virtual side, taking an
        unbound child each time. A cell that is bound for another VC blocks the way, unless it is bound only to show
        that it is bad: running pods come first.
        """
        state, binding = self.state, self.state.binding
        if level == UNKNOWN_LEVEL or self.claim.vc not in state.vcs:
            return NO_VIRTUAL
        cell, path = leaf, []
        while binding.virtual[cell] == UNBOUND and state.physical.level[cell] != level:
            path.append(cell)
            cell = state.physical.parent[cell]
            if cell == NO_PARENT:
                return NO_VIRTUAL
        twin = binding.virtual[cell]
        if twin != NO_VIRTUAL and not self._fits(twin, level):
            if not self._undoom(cell):
                return NO_VIRTUAL
            return self._leaf(leaf, level)
        root = NO_VIRTUAL
        if twin == NO_VIRTUAL:
            root = twin = self._root(cell, level)
        for _ in path:
            twin = self._child(twin) if twin != NO_VIRTUAL else NO_VIRTUAL
        if twin == NO_VIRTUAL or (root != NO_VIRTUAL and not self._make_free(root, cell)):
            return NO_VIRTUAL
        if binding.virtual[leaf] == UNBOUND and binding.bind(leaf, twin):
            state.doomed.take(cell, self.claim.vc)
        root = state.virtual.root[twin]
        if root not in self.own_roots:
            self.own_roots.add(root)
            state.doomed.claim(binding.physical[root], self.claim.vc)
        return twin

    def _fits(self, twin: VirtualCell, level: int) -> bool:
        """Whether a bound virtual cell belongs to the quota that the group was bound with."""
        root = self.state.virtual.root[twin]
        top = self.state.virtual.preassigned[root]
        return (
            top.vc == self.claim.vc
            and self.state.virtual.level[root] == level
            and (top.pinned_id or "") == self.claim.pinned_id
        )

    def _undoom(self, cell: PhysicalCell) -> bool:
        """Free a physical cell that is bound only because it is bad; False if it is bound for any other reason."""
        state = self.state
        root = state.virtual.root[state.binding.virtual[cell]]
        root_cell, vc = state.binding.physical[root], state.virtual.preassigned[root].vc
        if not state.doomed.is_doomed(root_cell, vc):
            return False
        state.doomed.free(root_cell, vc)
        return True

    def _root(self, cell: PhysicalCell, level: int) -> VirtualCell:
        """A preassigned cell for a free physical cell, `NO_VIRTUAL` if there is none.

        An unbound one; else one that was bound only to show a bad cell; else the one with the lowest priority
        below ours (after a reconfiguration there may be fewer than before).
        """
        state = self.state
        if self.claim.pinned_id or state.buddy.holder(cell) == NO_PARENT:
            return NO_VIRTUAL
        key = (self.claim.vc, state.physical.chain[cell], level)
        root = state.binding.free_root(key)
        if root == NO_VIRTUAL:
            self._free_doomed_root(key)
            root = state.binding.free_root(key)
        if root != NO_VIRTUAL:
            return root
        return self._lowest(
            candidate for candidate in state.binding.roots.get(key, ()) if candidate not in self.own_roots
        )

    def _child(self, twin: VirtualCell) -> VirtualCell:
        """The child of a virtual cell to use: an unbound one, else the one with the lowest priority below ours."""
        child = self.state.binding.free_child(twin)
        return child if child != NO_VIRTUAL else self._lowest(self.state.virtual.children(twin))

    def _lowest(self, cells: Iterable[VirtualCell]) -> VirtualCell:
        """The used virtual cell with the lowest priority below ours, smallest id first; `NO_VIRTUAL` if none."""
        lowest, weakest = self.claim.priority, NO_VIRTUAL
        if self.claim.gentle:
            return NO_VIRTUAL
        for cell in cells:
            priority = self._priority(cell)
            if FREE_PRIORITY < priority < lowest:
                lowest, weakest = priority, cell
        return weakest

    def _make_free(self, root: VirtualCell, cell: PhysicalCell) -> bool:
        """Lazily preempt the users of a preassigned cell; whether it can then be bound to `cell`."""
        state = self.state
        binding, user = state.binding, state.occupancy.user
        if binding.physical[root] != UNBOUND:
            self._count()  # a preassigned cell that the pod shares with the preempted one must not seem idle
            for leaf in state.virtual.leaves(root):
                physical = binding.physical[leaf]
                if leaf in state.occupancy.virtual_priority and physical in user:
                    lazy_preempt(state, state.groups.by_name[user[physical]], self.claim.group, self.now)
        return binding.physical[root] == UNBOUND and state.ledger.may_take(cell)

    def _free_doomed_root(self, key: RootKey) -> None:
        """Unbind one of the VC's own idle doomed cells: running pods come before cells that show badness."""
        cell = self.state.doomed.first(key)
        if cell != NO_PARENT:
            self.state.doomed.free(cell, self.claim.vc)

    def _priority(self, cell: VirtualCell) -> int:
        if not self.state.counts.used[cell]:
            return FREE_PRIORITY
        priority = self.state.occupancy.virtual_priority
        return max(priority.get(leaf, FREE_PRIORITY) for leaf in self.state.virtual.leaves(cell))


def locate(state: State, request: PodRequest, info: BindInfo) -> tuple[Placed[PhysicalCell], Placed[int]]:
    """The physical leaves of a bind annotation under the present configuration, and their preassigned levels.

    Leaves that no longer exist are `NO_LEAF`; one that moved to another chain is found there.
    """
    chains = {chain.name: index for index, chain in enumerate(state.physical.chains)}
    first = chains.get(info.chain, -1)
    rows = {len(pods[0].devices): pods for pods in info.members if pods}
    physical: list[tuple[tuple[PhysicalCell, ...], ...]] = []
    levels: list[tuple[tuple[int, ...], ...]] = []
    for leaf_number, pod_number in request.members:
        placed, placed_levels = [], []
        pods = rows.get(leaf_number, ())
        for i in range(pod_number):
            place = pods[i] if i < len(pods) else None
            if place is None or len(place.devices) != leaf_number:
                placed.append((NO_LEAF,) * leaf_number)
                placed_levels.append((UNKNOWN_LEVEL,) * leaf_number)
                continue
            leaves = tuple(_find_leaf(state, place.node, device, first) for device in place.devices)
            types: tuple[str | None, ...] = place.preassigned or ()
            if len(types) != leaf_number:  # nothing to check against the quota
                types = (None,) * leaf_number
            placed.append(leaves)
            placed_levels.append(tuple(_level(state, leaf, kind) for leaf, kind in zip(leaves, types, strict=True)))
        physical.append(tuple(placed))
        levels.append(tuple(placed_levels))
    return tuple(physical), tuple(levels)


def adopt_alone(state: State, request: PodRequest, info: BindInfo, now: float | None) -> Group | None:
    """Enter a pod that contradicts its group, or whose annotation contradicts itself, on the devices that it names.

    It becomes a group of its own without a guarantee, so that its devices are not given away. None (and no change) if
    none of the devices exists and is free.
    """
    leaves = tuple(find_leaf(state, info.node, device, info.chain) for device in dict.fromkeys(info.devices))
    if not any(leaf != NO_LEAF and leaf not in state.occupancy.user for leaf in leaves):
        return None
    name = f"{request.group} ({request.uid})"
    if name in state.groups.by_name:
        return None
    lone = replace(
        request, group=name, priority=OPPORTUNISTIC, pinned_id="", members=((len(leaves), 1),), leaf_number=len(leaves)
    )
    return adopt(state, lone, ((leaves,),), (((UNGUARANTEED,) * len(leaves),),), now)


def find_leaf(state: State, node: str, device: int, chain: str) -> PhysicalCell:
    """The leaf of a device of a node, in `chain` if it has one there; `NO_LEAF` if there is none."""
    names = [chain.name for chain in state.physical.chains]
    return _find_leaf(state, node, device, names.index(chain) if chain in names else -1)


def slot_of(request: PodRequest, info: BindInfo) -> Slot | None:
    """The slot of a recovered pod: that of its own placement in its annotation, None if it is not in there."""
    sizes = [leaf_number for leaf_number, _ in request.members]
    for pods in info.members:
        if pods and len(pods[0].devices) == request.leaf_number and request.leaf_number in sizes:
            member = sizes.index(request.leaf_number)
            for i, place in enumerate(pods[: request.members[member][1]]):
                if place.node == info.node and place.devices == info.devices:
                    return Slot(member, i)
    return None


def kept_slot(state: State, group: Group, info: BindInfo) -> Slot | None:
    """The free slot of a group that has just the devices of a pod's annotation; None if none has.

    A pod whose request was edited after it had got its place contradicts its gang, which keeps that place for it
    nevertheless. Without a pod there, the devices would be given away as soon as the others have ended.
    """
    if group.state is GroupState.PREEMPTING:
        return None
    own = {find_leaf(state, info.node, device, info.chain) for device in info.devices}
    for slot, leaves, _ in group.placements():
        if own == set(leaves) and NO_LEAF not in own and not group.pods[slot.member][slot.pod]:
            return slot
    return None


def agrees(state: State, group: Group, slot: Slot, request: PodRequest, info: BindInfo) -> bool:
    """Whether a pod's own annotation puts it where its group has a free slot for it."""
    if group.state is GroupState.PREEMPTING or slot.member >= len(group.members):
        return False
    leaf_number, pods = group.members[slot.member]
    if leaf_number != request.leaf_number or slot.pod >= pods or group.pods[slot.member][slot.pod]:
        return False
    if len(info.devices) != leaf_number:
        return False
    used = state.occupancy.user
    for leaf, device in zip(group.physical[slot.member][slot.pod], info.devices, strict=True):
        annotated = find_leaf(state, info.node, device, info.chain)
        if leaf != annotated and (leaf != NO_LEAF or annotated not in used):  # a place left empty is not its own
            return False
    return True


def _find_leaf(state: State, node: str, device: int, first: int) -> PhysicalCell:
    tree = state.physical
    cells = tree.nodes.get(node, ())
    for cell in sorted(cells, key=lambda cell: tree.chain[cell] != first):
        for leaf in tree.leaves(cell):
            if tree.device(leaf) == device:
                return leaf
    return NO_LEAF


def _leaves_of(state: State, node: str, chain: str) -> dict[int, PhysicalCell]:
    """The leaves of a node by device, as `find_leaf` finds them."""
    tree = state.physical
    names = [chain.name for chain in tree.chains]
    first = names.index(chain) if chain in names else -1
    out: dict[int, PhysicalCell] = {}
    for cell in sorted(tree.nodes.get(node, ()), key=lambda cell: tree.chain[cell] != first):
        for leaf in tree.leaves(cell):
            out.setdefault(tree.device(leaf), leaf)
    return out


def _level(state: State, leaf: PhysicalCell, kind: str | None) -> int:
    if kind == "":
        return UNGUARANTEED
    if kind is None or leaf == NO_LEAF:
        return UNKNOWN_LEVEL
    level = state.physical.chains[state.physical.chain[leaf]].level_of(kind)
    return UNKNOWN_LEVEL if level is None else level
