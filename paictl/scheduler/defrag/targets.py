"""The cells that could be the room: which gangs are in each, and on which nodes it lies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from paictl.cells.spec import LEAF_LEVEL
from paictl.frozen import frozen
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import NO_LEAF
from paictl.scheduler.defrag.model import RoomRequest
from paictl.scheduler.groups import GroupState

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from paictl.cells.ids import ChainIndex
    from paictl.scheduler.request import Member, PodRequest
    from paictl.scheduler.state import State


@frozen
class RoomCell:
    """A cell, and its leaves by gang, or by the name of a group that belongs to no gang."""

    cell: int
    address: str
    nodes: tuple[str, ...]
    held: tuple[tuple[str, int], ...]
    usable: bool = True
    """Whether it is healthy, not reserved, and in service."""

    @property
    def blockers(self) -> frozenset[str]:
        """The gangs and groups in it."""
        return frozenset(key for key, _ in self.held)


@frozen
class RoomView:
    """The cells of one chain that are of the requested type, in order."""

    chain: str
    leaf_type: str
    members: tuple[Member, ...]
    """The pods of a gang that fills one cell."""
    cells: tuple[RoomCell, ...]


def room_views(state: State, room: RoomRequest, owners: Mapping[str, str], closed: Collection[str]) -> list[RoomView]:
    """A view for every chain with cells of the type. `owners` maps groups to gangs; `closed` are the closed nodes."""
    views = []
    for index in state.physical.chain_indexes():
        chain = state.physical.chains[index]
        level = chain.level_of(room.cell_type)
        if level is None:
            continue
        closed_nodes = frozenset(closed)
        candidates = (
            _virtual(state, room, index, level, owners, closed_nodes)
            if room.vc
            else _physical(state, index, level, owners, closed_nodes)
        )
        cells = tuple(candidates)
        if cells:
            size = chain.leaves[min(level, chain.node_level)]
            views.append(RoomView(chain.name, chain.leaf_type, ((size, chain.nodes(level)),), cells))
    return views


def room_of(state: State, request: PodRequest) -> RoomRequest | None:
    """The cells that the pods of a gang fill, one each; None for several sizes, a size that no cell has, or a pin."""
    if len(request.members) != 1 or request.pinned_id:
        return None
    ((leaves, pods),) = request.members
    for chain in state.physical.chains:
        if request.leaf_type in ("", chain.leaf_type):
            for level in range(1, chain.node_level + 1):
                if chain.leaves[level] == leaves:
                    return RoomRequest(pods, chain.types[level], request.vc if request.guaranteed else "")
    return None


def free_devices(state: State, room: RoomRequest) -> int:
    """Devices that nobody holds, of the cluster or, for a room in a promise, of the promise; in all chains.

    No moves make more of them: a gang that comes back holds as many devices as before, with a guarantee as many of its
    promise, perhaps in another chain. Bad ones count, too, so this may say too much, never too little.
    """
    tree = state.virtual
    if not room.vc:
        return sum(len(state.physical.at[index][LEAF_LEVEL]) for index in state.physical.chain_indexes()) - len(
            state.occupancy.user
        )
    roots = {root for root, top in tree.preassigned.items() if top.vc == room.vc and top.pinned_id is None}
    promised = sum(tree.chains[tree.chain[root]].leaves[tree.level[root]] for root in roots)
    held = 0
    for group in state.groups.by_name.values():
        leaves = _leaves(group.virtual) if group.vc == room.vc else ()
        held += sum(1 for leaf in leaves if leaf != NO_LEAF and tree.root[leaf] in roots)
    return promised - held


def _physical(
    state: State, chain: ChainIndex, level: int, owners: Mapping[str, str], closed: frozenset[str]
) -> Iterator[RoomCell]:
    tree, occupancy = state.physical, state.occupancy
    users: dict[int, Counter[str]] = {}
    for leaf, name in occupancy.user.items():
        if tree.chain[leaf] == chain:
            users.setdefault(tree.ancestor(leaf, level), Counter())[owners.get(name, name)] += 1
    reserved = {tree.ancestor(leaf, level) for leaf in occupancy.reserver if tree.chain[leaf] == chain}
    nodes = tree.at[chain][tree.chains[chain].node_level]
    for cell in tree.at[chain][level]:
        names = tuple(tree.component[nodes[rank]] for rank in tree.node_ranks(cell))
        usable = not state.counts.bad[cell] and cell not in reserved and closed.isdisjoint(names)
        yield RoomCell(cell, tree.address(cell), names, _rows(users.get(cell)), usable)


def _virtual(
    state: State, room: RoomRequest, chain: ChainIndex, level: int, owners: Mapping[str, str], closed: frozenset[str]
) -> Iterator[RoomCell]:
    """Cells of a promise, without those of pinned cells: only a gang that names these gets them."""
    tree, physical = state.virtual, state.binding.physical
    users: dict[int, Counter[str]] = {}
    reserved: set[int] = set()
    for group in state.groups.by_name.values():
        for leaf in _leaves(group.virtual) if group.vc == room.vc else ():
            if tree.chain[leaf] == chain and tree.level[tree.root[leaf]] >= level:
                cell = tree.ancestor(leaf, level)
                users.setdefault(cell, Counter())[owners.get(group.name, group.name)] += 1
                if group.state is GroupState.PREEMPTING:
                    reserved.add(cell)
    for root, top in tree.preassigned.items():
        if top.vc != room.vc or top.pinned_id is not None or tree.chain[root] != chain:
            continue
        for cell in tree.subtree(root):
            if tree.level[cell] == level:
                bound = [physical[leaf] for leaf in tree.leaves(cell) if physical[leaf] != UNBOUND]
                names = tuple(dict.fromkeys(state.physical.node_name(leaf) for leaf in bound))
                bad = physical[cell] != UNBOUND and state.counts.bad[physical[cell]]
                usable = not bad and cell not in reserved and closed.isdisjoint(names)
                yield RoomCell(cell, tree.address(cell), names, _rows(users.get(cell)), usable)


def _rows(held: Counter[str] | None) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(held.items())) if held else ()


def _leaves(placed: Any) -> Iterator[Any]:
    for pods in placed or ():
        for leaves in pods:
            yield from leaves
