"""The search for a new group: views in order, in each nodes for pods, leaves in nodes, virtual onto physical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import Failure, Placed, Placement, RejectedView
from paictl.scheduler.errors import RequestError
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.placement.mapping import Mapped, map_leaves
from paictl.scheduler.placement.pack import choose, idle_steps, opportunistic_steps, pack, preempting_steps
from paictl.scheduler.transitions import lazy_preempt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paictl.cells.ids import C, ChainIndex, PhysicalCell, VirtualCell
    from paictl.cells.tree import Tree
    from paictl.scheduler.placement.preferences import Losses, Suggested
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.scheduler.views import NodeIndex, VirtualIndex


@frozen
class FoundPlacement:
    """A place, and the groups that have to be lazily preempted for it, in order."""

    placement: Placement
    lazy: tuple[str, ...] = ()


def search(
    state: State, request: PodRequest, suggested: Suggested | None, losses: Losses | None = None
) -> FoundPlacement | tuple[RejectedView, ...]:
    """A place for a new group, or why each view has none.

    `suggested` is None if all nodes are, or the request ignores suggestions. With `losses`, leaves whose users lose
    little are preferred to leaves with few users. Raises `RequestError` if the request names a VC, pinned cell or leaf
    cell type that does not exist for it.
    """
    attempt = SearchAttempt(state, request, suggested, losses)
    failed = []
    if request.guaranteed:
        for label, index in _guaranteed_views(state, request):
            result = attempt.guaranteed(index)
            if isinstance(result, FoundPlacement):
                return result
            failed.append(attempt.failed(label, index, result))
    else:
        for label, chain in _opportunistic_views(state, request):
            result = attempt.opportunistic(chain)
            if isinstance(result, FoundPlacement):
                return result
            failed.append(attempt.failed(label, chain, result))
    return tuple(failed)


def candidate_views(state: State, request: PodRequest) -> list[tuple[str, NodeIndex[Any]]]:
    """The views that `search` tries, in order, with their names; raises `RequestError` as it does."""
    if request.guaranteed:
        return list(_guaranteed_views(state, request))
    return list(_opportunistic_views(state, request))


def _guaranteed_views(state: State, request: PodRequest) -> list[tuple[str, VirtualIndex]]:
    """The views of a guaranteed request in order, with their names."""
    if request.pinned_id:
        index = _pinned_view(state, request)
        return [(f"pinned cell {request.pinned_id}", index)]
    chains = _chains(state, request)
    indexes = [(chain, state.views.virtual.get((request.vc, chain))) for chain in chains]
    all_chains = state.physical.chains
    views = [(f"chain {all_chains[chain].name}", index) for chain, index in indexes if index is not None]
    if request.leaf_type and not views:
        message = text("VC {vc} has no {type}", vc=request.vc, type=request.leaf_type)
        raise RequestError(request.name, "leafCellType", message)
    return views


def _opportunistic_views(state: State, request: PodRequest) -> list[tuple[str, NodeIndex[PhysicalCell]]]:
    """The views of an opportunistic request in order, with their names."""
    if request.pinned_id:
        _pinned_view(state, request)
        raise RequestError(request.name, "pinnedCellId", text("an opportunistic pod cannot use a pinned cell"))
    chains = _chains(state, request)
    return [(f"chain {state.physical.chains[chain].name}", state.views.physical[chain]) for chain in chains]


def _pinned_view(state: State, request: PodRequest) -> VirtualIndex:
    _check_vc(state, request)
    index = state.views.pinned.get((request.vc, request.pinned_id))
    if index is None:
        message = text("VC {vc} has no pinned cell {cell}", vc=request.vc, cell=request.pinned_id)
        raise RequestError(request.name, "pinnedCellId", message)
    return index


def _chains(state: State, request: PodRequest) -> list[ChainIndex]:
    """The chains that have the requested leaf cell type, or all of them, type by type."""
    _check_vc(state, request)
    if not request.leaf_type:
        return [chain for chains in state.chains_by_type.values() for chain in chains]
    if request.leaf_type not in state.chains_by_type:
        raise RequestError(request.name, "leafCellType", text("the cluster has no {type}", type=request.leaf_type))
    return state.chains_by_type[request.leaf_type]


def _check_vc(state: State, request: PodRequest) -> None:
    if request.vc not in state.vcs:
        raise RequestError(request.name, "virtualCluster", text("there is no VC {vc}", vc=request.vc))


def is_bad(state: State, tree: Tree[Any], cell: Any) -> bool:
    """Whether a physical cell is bad, or a virtual one is bound to a bad cell; an unbound one counts as healthy."""
    if tree is not state.physical:
        cell = state.binding.physical[cell]
    return cell != UNBOUND and bool(state.counts.bad[cell])


class SearchAttempt:
    """One request, tried in one view after another."""

    def __init__(
        self, state: State, request: PodRequest, suggested: Suggested | None, losses: Losses | None = None
    ) -> None:
        self.state = state
        self.request = request
        self.suggested = suggested
        self.losses = losses
        self.sizes = [leaves for leaves, pods in request.members for _ in range(pods)]

    def opportunistic(self, index: NodeIndex[PhysicalCell]) -> FoundPlacement | Failure:
        """A place in a physical chain."""
        state = self.state
        allowed = self.suggested.node if self.suggested else None
        steps = index.exact(opportunistic_steps(index), lambda node: self._room(state.physical, node, OPPORTUNISTIC))
        nodes = pack(steps, self.sizes, index.cells, allowed)
        if nodes is None:
            return Failure.CAPACITY
        placed = self._leaves(nodes, state.physical, state.occupancy.priority, OPPORTUNISTIC)
        return FoundPlacement(Placement(placed, None))

    def guaranteed(self, index: VirtualIndex) -> FoundPlacement | Failure:
        """A place in a VC's view, without preemption if possible, and the physical leaves for it."""
        state = self.state
        priority = OPPORTUNISTIC
        nodes, needed = None, sum(self.sizes)
        free = index.free() if len(self.sizes) > 1 else needed  # no futile walk for a large gang
        if free >= needed:
            steps = index.exact(idle_steps(index), lambda node: self._room(state.virtual, node, OPPORTUNISTIC))
            nodes = pack(steps, self.sizes, index.cells, self._allowed())
        if nodes is None:
            priority = self.request.priority
            if not index.could_preempt(priority, needed):
                return Failure.CAPACITY
            weaker = state.views.weaker(index, priority, state.occupancy.virtual_priority)
            steps = index.exact(preempting_steps(weaker), lambda node: self._room(state.virtual, node, priority))
            nodes = pack(steps, self.sizes, index.cells, self._allowed())
        if nodes is None:
            return Failure.CAPACITY
        virtual = self._leaves(nodes, state.virtual, state.occupancy.virtual_priority, priority)
        return self._map(virtual)

    def _allowed(self) -> Callable[[VirtualCell], bool] | None:
        """Whether a virtual node is bound to a suggested node (or not bound)."""
        suggested, physical = self.suggested, self.state.binding.physical
        if suggested is None:
            return None
        return lambda node: physical[node] == UNBOUND or suggested.node(physical[node])

    def _leaves(self, nodes: Sequence[C], tree: Tree[C], priorities: dict[C, int], priority: int) -> Placed[C]:
        """The leaves of each pod in its node; `held` has the priority of leaves in use."""
        left: dict[C, list[int]] = {}
        picked: list[tuple[C, ...]] = []
        for node, number in zip(nodes, self.sizes, strict=True):
            leaves = tree.leaves(node)
            if node not in left:
                left[node] = [i for i, leaf in enumerate(leaves) if leaf not in priorities]
                if priority != OPPORTUNISTIC:
                    weaker = [i for i, leaf in enumerate(leaves) if leaf in priorities and priorities[leaf] < priority]
                    left[node] += self._by_loss(weaker, leaves)
                if is_bad(self.state, tree, node):
                    left[node] = [i for i in left[node] if not is_bad(self.state, tree, leaves[i])]
            sizes = tree.chains[tree.chain[node]].leaves[1 : tree.level[node] + 1]
            positions = choose(left[node], number, sizes)
            left[node] = [i for i in left[node] if i not in positions]
            picked.append(tuple(leaves[i] for i in positions))
        out, start = [], 0
        for _, pods in self.request.members:
            out.append(tuple(picked[start : start + pods]))
            start += pods
        return tuple(out)

    def _by_loss(self, places: list[int], leaves: Sequence[Any]) -> list[int]:
        """Virtual leaves of a node that are in use, ordered by what their groups lose, least first."""
        losses, physical = self.losses, self.state.binding.physical
        return places if losses is None else sorted(places, key=lambda place: losses.of((physical[leaves[place]],)))

    def _room(self, tree: Tree[Any], node: Any, priority: int) -> int:
        """Leaves of a node that are not bad and that the request may have at this priority."""
        occupancy = self.state.occupancy
        priorities: dict[Any, int] = occupancy.priority if tree is self.state.physical else occupancy.virtual_priority
        free = (leaf for leaf in tree.leaves(node) if leaf not in priorities or priorities[leaf] < priority)
        return sum(not is_bad(self.state, tree, leaf) for leaf in free)

    def _map(self, virtual: Placed[VirtualCell]) -> FoundPlacement | Failure:
        state = self.state
        flat = [leaf for pods in virtual for leaves in pods for leaf in leaves]
        lazy = self._lazy_victims(flat)
        mapped = self._map_without(lazy, flat, settle=True) if lazy else self._map_leaves(flat)
        if lazy and mapped is not None and any(state.counts.bad[leaf] for leaf in mapped.values()):
            mapped = self._map_without(lazy, flat, settle=False)
        if mapped is None:
            return Failure.MAPPING
        physical = tuple(tuple(tuple(mapped[leaf] for leaf in leaves) for leaves in pods) for pods in virtual)
        return FoundPlacement(Placement(physical, virtual), lazy)

    def _map_without(self, lazy: Sequence[str], leaves: Sequence[VirtualCell], *, settle: bool) -> Mapped | None:
        """Map as if some groups had been lazily preempted; with `settle`, dooming takes account of it."""
        state = self.state
        mark = state.journal.begin()
        try:
            for name in lazy:
                lazy_preempt(state, state.groups.by_name[name], self.request.group, None)
            if settle:
                state.doomed.settle()
            return self._map_leaves(leaves)
        finally:
            state.journal.rollback(mark)

    def _map_leaves(self, leaves: Sequence[VirtualCell]) -> Mapped | None:
        # users of bound leaves fall as well, but make no other leaf cheaper: either all of their leaves are bound, or
        # they have fallen already and cost nothing
        try:
            return map_leaves(self.state, leaves, self.suggested, self.losses)
        finally:
            if self.losses is not None:
                self.losses.fallen = frozenset()

    def _lazy_victims(self, virtual: Sequence[VirtualCell]) -> tuple[str, ...]:
        """Groups that run on these virtual leaves and may be lazily preempted."""
        state, occupancy = self.state, self.state.occupancy
        victims: dict[str, None] = {}
        for leaf in virtual:
            if leaf not in occupancy.virtual_priority:
                continue
            cell = state.binding.physical[leaf]
            name = occupancy.user.get(cell)
            if name is not None and cell not in occupancy.reserver and state.groups.by_name[name].lazy_preemption:
                victims[name] = None
        return tuple(victims)

    def failed(self, label: str, index: NodeIndex[Any], failure: Failure) -> RejectedView:
        """What a failed attempt reports about its view."""
        guaranteed = self.request.guaranteed
        tree: Tree[Any] = self.state.virtual if guaranteed else self.state.physical
        steps = idle_steps(index) if guaranteed else opportunistic_steps(index)
        free = healthy = 0
        for step in index.exact(steps, lambda node: self._room(tree, node, OPPORTUNISTIC)):
            for room, slots in step.items():
                healthy += slots.bit_count()
                free += slots.bit_count() * room
        if failure is Failure.CAPACITY and (healthy < len(index.cells) or index.bad[0]):
            failure = Failure.BAD_NODE
        elif failure is Failure.CAPACITY and self.suggested is not None and free >= sum(self.sizes):
            failure = Failure.NOT_SUGGESTED
        vc = self.request.vc if self.request.guaranteed else ""
        return RejectedView(label, vc, failure, free, sum(self.sizes))
