"""Counting one view: its leaves and nodes by what keeps them from the request, and the groups that hold them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import Failure
from paictl.scheduler.explain.data import LeafCounts, LevelCounts, NodeCounts, PodFit, PromiseUse, ViewReport
from paictl.scheduler.explain.scratch import holder
from paictl.scheduler.placement.search import is_bad

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paictl.cells.ids import ChainIndex, PhysicalCell, VirtualCell
    from paictl.cells.tree import Tree
    from paictl.scheduler.decision import RejectedView
    from paictl.scheduler.placement.suggested import Suggested
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.scheduler.views import NodeIndex


@dataclass(slots=True)
class NodeUse:
    """A healthy, suggested node of a view."""

    room: int
    """Leaves that the request may have: free ones and those of weaker groups."""
    used: int
    """Leaves used at any priority: fuller nodes are walked first."""
    held: dict[str, int]
    """Leaves by group that the request may not preempt."""


@dataclass(slots=True)
class ViewSurvey:
    """What is to be found in one view: of virtual cells for a guaranteed request, else of physical ones.

    Both are counted alike by the functions below, whose ids are `Any` where they may be of either kind.
    """

    index: NodeIndex[Any]
    chain: ChainIndex
    usable: list[NodeUse] = field(default_factory=list)
    leaves: Counter[str] = field(default_factory=Counter)
    """By name of a field of `LeafCounts`."""
    nodes: Counter[str] = field(default_factory=Counter)
    held: Counter[str] = field(default_factory=Counter)
    """Leaves here by group that the request may not preempt."""
    cells: Counter[int] = field(default_factory=Counter)
    """Cells by level."""
    free: Counter[int] = field(default_factory=Counter)
    """Those of them that no group uses, on healthy and suggested nodes."""
    sizes: list[int] = field(default_factory=list)
    """Leaves of every node, bad ones too."""


def survey(state: State, request: PodRequest, index: NodeIndex[Any], suggested: Suggested | None) -> ViewSurvey:
    """Count a view for a request; walks every leaf of it."""
    cells = index.cells
    tree: Tree[Any] = state.virtual if request.guaranteed else state.physical
    found = ViewSurvey(index, tree.chain[cells[0]])
    for cell in cells:
        size = len(tree.shape(cell).leaves)
        found.sizes.append(size)
        found.cells.update(tree.shape(cell).levels)
        bound = state.binding.physical[cell] if request.guaranteed else cell
        if bound != UNBOUND and state.counts.dead[bound]:
            doomed = request.guaranteed and _is_doomed(state, cell)
            found.leaves["doomed" if doomed else "bad"] += size
            found.nodes["bad"] += 1
        elif suggested is not None and bound != UNBOUND and not suggested.node(bound):
            found.leaves["not_suggested"] += size
            found.nodes["not_suggested"] += 1
        else:
            found.usable.append(_look(state, request, cell, found))
    return found


def _is_doomed(state: State, cell: VirtualCell) -> bool:
    root = state.virtual.root[cell]
    return state.doomed.is_doomed(state.binding.physical[root], state.virtual.preassigned[root].vc)


def _look(state: State, request: PodRequest, cell: Any, found: ViewSurvey) -> NodeUse:
    """Count the leaves of a node that may be used."""
    counts, occupancy = state.counts, state.occupancy
    tree: Tree[Any] = state.virtual if request.guaranteed else state.physical
    priority = occupancy.virtual_priority if request.guaranteed else occupancy.priority
    used = counts.used[cell] if request.guaranteed else _used(state, cell)
    size = len(tree.shape(cell).leaves)
    node = NodeUse(size, used, {})
    bad = {leaf for leaf in tree.leaves(cell) if is_bad(state, tree, leaf)} if is_bad(state, tree, cell) else set()
    idle_bad = len(bad - priority.keys())
    found.leaves["free"] += size - used - idle_bad
    found.leaves["bad"] += idle_bad
    node.room -= idle_bad
    found.nodes["idle"] += not used
    if not used and not bad:
        found.free.update(tree.shape(cell).levels)
        return node
    for below, level in zip(tree.subtree(cell), tree.shape(cell).levels, strict=True):
        used_below = counts.used[below] if request.guaranteed else _used(state, below)
        found.free[level] += not used_below and not is_bad(state, tree, below)
    for leaf in tree.leaves(cell):
        if leaf not in priority:
            continue
        if request.guaranteed and priority[leaf] < request.priority:
            found.leaves["weaker"] += 1
            node.room -= leaf in bad
            continue
        place = state.binding.physical[leaf] if request.guaranteed else leaf
        reserver = occupancy.reserver.get(place)
        found.leaves["used" if reserver is None else "reserved"] += 1
        name = reserver or occupancy.user[place]
        node.held[name] = node.held.get(name, 0) + 1
        found.held[name] += 1
        node.room -= 1
    return node


def _used(state: State, cell: PhysicalCell) -> int:
    """Leaves in use below a physical cell."""
    return state.counts.opportunistic[cell] + state.counts.guaranteed[cell]


def sizes_of(request: PodRequest) -> list[int]:
    """Leaves of each pod of the group, ascending: the order in which pods are given nodes."""
    return [leaf_number for leaf_number, pods in request.members for _ in range(pods)]


def walk(room: Iterable[int], sizes: Sequence[int]) -> bool:
    """Whether a walk through nodes with so much room, which never goes back, finds a place for every pod."""
    waiting = iter(sizes)
    need = next(waiting)
    for free in room:
        while free >= need:
            free -= need
            need = next(waiting, 0)
            if not need:
                return True
    return False


def packs(room: Iterable[int], sizes: Sequence[int]) -> bool:
    """Whether nodes with so much room take all pods if the largest come first, each into the fullest that holds it."""
    left = sorted(room)
    if sum(left) < sum(sizes):
        return False
    for size in reversed(sizes):
        at = bisect_left(left, size)
        if at == len(left):
            return False
        insort(left, left.pop(at) - size)
    return True


def report(state: State, request: PodRequest, found: ViewSurvey, attempt: RejectedView) -> ViewReport:
    """A survey with what it means for the request."""
    chain = state.physical.chains[found.chain]
    by_name = state.groups.by_name
    holders = [holder(by_name[name], here) for name, here in found.held.items()]
    pods = []
    for leaf_number, number in request.members:
        rooms = [node.room // leaf_number for node in found.usable]
        pods.append(PodFit(leaf_number, number, sum(rooms), sum(room > 0 for room in rooms)))
    nodes = found.nodes
    return ViewReport(
        view=attempt.view,
        vc=attempt.vc,
        chain=chain.name,
        leaf_type=chain.leaf_type,
        failure=attempt.failure,
        needed=attempt.needed,
        leaves=LeafCounts(total=sum(found.sizes), **found.leaves),
        nodes=NodeCounts(len(found.sizes), nodes["bad"], nodes["not_suggested"], nodes["idle"]),
        levels=tuple(
            LevelCounts(chain.types[level], found.cells[level], found.free[level])
            for level in sorted(found.cells, reverse=True)
        ),
        pods=tuple(pods),
        promises=_promises(state, request, found) if request.guaranteed else (),
        holders=tuple(sorted(holders, key=lambda one: (-one.here, one.group))),
        ever=walk(found.sizes, sizes_of(request)),
        elsewhere=_elsewhere(state, found) if request.guaranteed else 0,
        by_order=attempt.failure is Failure.CAPACITY and packs([node.room for node in found.usable], sizes_of(request)),
    )


def _promises(state: State, request: PodRequest, found: ViewSurvey) -> tuple[PromiseUse, ...]:
    """The preassigned cells of a view, highest level first."""
    types = state.physical.chains[found.chain].types
    if request.pinned_id:
        root = state.virtual.root[found.index.cells[0]]
        return (PromiseUse(types[state.virtual.level[root]], 1, int(not state.counts.used[root]), 0),)
    out = []
    for level in range(len(types) - 1, 0, -1):
        key = (request.vc, found.chain, level)
        if roots := state.binding.roots.get(key):
            doomed = state.doomed.cells.get(key, 0).bit_count()
            out.append(PromiseUse(types[level], len(roots), state.binding.open_roots[key].bit_count(), doomed))
    return tuple(out)


def _idle_bad(state: State, node: PhysicalCell) -> int:
    """Bad leaves of a physical node that nobody holds."""
    if not state.counts.bad[node]:
        return 0
    held = state.occupancy.priority
    return sum(state.counts.bad[leaf] and leaf not in held for leaf in state.physical.leaves(node))


def _elsewhere(state: State, found: ViewSurvey) -> int:
    """Free leaves on healthy nodes of the chain that are not among the view's free ones."""
    chain, counts = state.physical.chains[found.chain], state.counts
    size = chain.leaves[chain.node_level]
    free = sum(
        size - counts.opportunistic[node] - counts.guaranteed[node] - _idle_bad(state, node)
        for node in state.physical.at[found.chain][chain.node_level]
        if not counts.dead[node]
    )
    return max(0, free - found.leaves["free"])
