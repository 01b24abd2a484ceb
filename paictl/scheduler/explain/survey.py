"""Counts one view: its leaves and nodes by what keeps them from the request, and the groups that hold them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import Failure
from paictl.scheduler.explain.data import LeafCounts, LevelCounts, NodeCounts, PodFit, PromiseUse, ViewReport
from paictl.scheduler.placement.search import is_bad
from paictl.scheduler.scratch import holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paictl.cells.ids import ChainIndex, PhysicalCell, VirtualCell
    from paictl.cells.tree import Tree
    from paictl.scheduler.decision import RejectedView
    from paictl.scheduler.placement.preferences import Suggested
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.scheduler.views import NodeIndex


@dataclass(slots=True)
class NodeUse:
    """A healthy, suggested node of a view."""

    room: int
    """Leaves that the request may take: free ones and those of weaker groups."""
    used: int
    """Leaves used at any priority: fuller nodes are walked first."""
    held: dict[str, int]
    """Leaves by group that the request may not preempt."""


@dataclass(slots=True)
class ViewSurvey:
    """The counts of one view: of virtual cells for a guaranteed request, else of physical ones.

    The functions below count both in the same way; their ids are `Any` where they may be of either kind.
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
    view_survey = ViewSurvey(index, tree.chain[cells[0]])
    for cell in cells:
        size = len(tree.shape(cell).leaves)
        view_survey.sizes.append(size)
        view_survey.cells.update(tree.shape(cell).levels)
        bound = state.binding.physical[cell] if request.guaranteed else cell
        if bound != UNBOUND and state.counts.dead[bound]:
            doomed = request.guaranteed and _is_doomed(state, cell)
            view_survey.leaves["doomed" if doomed else "bad"] += size
            view_survey.nodes["bad"] += 1
        elif suggested is not None and bound != UNBOUND and not suggested.node(bound):
            view_survey.leaves["not_suggested"] += size
            view_survey.nodes["not_suggested"] += 1
        else:
            view_survey.usable.append(_look(state, request, cell, view_survey))
    return view_survey


def _is_doomed(state: State, cell: VirtualCell) -> bool:
    root = state.virtual.root[cell]
    return state.doomed.is_doomed(state.binding.physical[root], state.virtual.preassigned[root].vc)


def _look(state: State, request: PodRequest, cell: Any, view_survey: ViewSurvey) -> NodeUse:
    """Count the leaves of a node that may be used."""
    counts, occupancy = state.counts, state.occupancy
    tree: Tree[Any] = state.virtual if request.guaranteed else state.physical
    priority = occupancy.virtual_priority if request.guaranteed else occupancy.priority
    used = counts.used[cell] if request.guaranteed else _used(state, cell)
    size = len(tree.shape(cell).leaves)
    node = NodeUse(size, used, {})
    bad = {leaf for leaf in tree.leaves(cell) if is_bad(state, tree, leaf)} if is_bad(state, tree, cell) else set()
    idle_bad = len(bad - priority.keys())
    view_survey.leaves["free"] += size - used - idle_bad
    view_survey.leaves["bad"] += idle_bad
    node.room -= idle_bad
    view_survey.nodes["idle"] += not used
    if not used and not bad:
        view_survey.free.update(tree.shape(cell).levels)
        return node
    for below, level in zip(tree.subtree(cell), tree.shape(cell).levels, strict=True):
        used_below = counts.used[below] if request.guaranteed else _used(state, below)
        view_survey.free[level] += not used_below and not is_bad(state, tree, below)
    for leaf in tree.leaves(cell):
        if leaf not in priority:
            continue
        if request.guaranteed and priority[leaf] < request.priority:
            view_survey.leaves["weaker"] += 1
            node.room -= leaf in bad
            continue
        place = state.binding.physical[leaf] if request.guaranteed else leaf
        reserver = occupancy.reserver.get(place)
        view_survey.leaves["used" if reserver is None else "reserved"] += 1
        name = reserver or occupancy.user[place]
        node.held[name] = node.held.get(name, 0) + 1
        view_survey.held[name] += 1
        node.room -= 1
    return node


def _used(state: State, cell: PhysicalCell) -> int:
    """Leaves in use below a physical cell."""
    return state.counts.opportunistic[cell] + state.counts.guaranteed[cell]


def sizes_of(request: PodRequest) -> list[int]:
    """Leaves of each pod of the group, ascending: the order in which pods are given nodes."""
    return [leaf_number for leaf_number, pods in request.members for _ in range(pods)]


def walk(room: Iterable[int], sizes: Sequence[int]) -> bool:
    """Whether a walk through nodes with this room, which never goes back, finds a place for every pod."""
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
    """Whether nodes with this room hold all pods, largest first, each on the fullest node that has room for it."""
    left = sorted(room)
    if sum(left) < sum(sizes):
        return False
    for size in reversed(sizes):
        at = bisect_left(left, size)
        if at == len(left):
            return False
        insort(left, left.pop(at) - size)
    return True


def report(state: State, request: PodRequest, view_survey: ViewSurvey, attempt: RejectedView) -> ViewReport:
    """A survey together with what it means for the request."""
    chain = state.physical.chains[view_survey.chain]
    by_name = state.groups.by_name
    holders = [holder(by_name[name], holding) for name, holding in view_survey.held.items()]
    pods = []
    for leaf_number, number in request.members:
        rooms = [node.room // leaf_number for node in view_survey.usable]
        pods.append(PodFit(leaf_number, number, sum(rooms), sum(room > 0 for room in rooms)))
    nodes = view_survey.nodes
    return ViewReport(
        view=attempt.view,
        vc=attempt.vc,
        chain=chain.name,
        leaf_type=chain.leaf_type,
        failure=attempt.failure,
        needed=attempt.needed,
        leaves=LeafCounts(total=sum(view_survey.sizes), **view_survey.leaves),
        nodes=NodeCounts(len(view_survey.sizes), nodes["bad"], nodes["not_suggested"], nodes["idle"]),
        levels=tuple(
            LevelCounts(chain.types[level], view_survey.cells[level], view_survey.free[level])
            for level in sorted(view_survey.cells, reverse=True)
        ),
        pods=tuple(pods),
        promises=_promises(state, request, view_survey) if request.guaranteed else (),
        holders=tuple(sorted(holders, key=lambda row: (-row.here, row.group))),
        ever=walk(view_survey.sizes, sizes_of(request)),
        elsewhere=_elsewhere(state, view_survey) if request.guaranteed else 0,
        by_order=attempt.failure is Failure.CAPACITY
        and packs([node.room for node in view_survey.usable], sizes_of(request)),
    )


def _promises(state: State, request: PodRequest, view_survey: ViewSurvey) -> tuple[PromiseUse, ...]:
    """The preassigned cells of a view, highest level first."""
    types = state.physical.chains[view_survey.chain].types
    if request.pinned_id:
        root = state.virtual.root[view_survey.index.cells[0]]
        return (PromiseUse(types[state.virtual.level[root]], 1, int(not state.counts.used[root]), 0),)
    out = []
    for level in range(len(types) - 1, 0, -1):
        key = (request.vc, view_survey.chain, level)
        if roots := state.binding.roots.get(key):
            doomed = state.doomed.cells.get(key, 0).bit_count()
            out.append(PromiseUse(types[level], len(roots), state.binding.open_roots[key].bit_count(), doomed))
    return tuple(out)


def _idle_bad(state: State, node: PhysicalCell) -> int:
    """Unused bad leaves of a physical node."""
    if not state.counts.bad[node]:
        return 0
    priorities = state.occupancy.priority
    return sum(state.counts.bad[leaf] and leaf not in priorities for leaf in state.physical.leaves(node))


def _elsewhere(state: State, view_survey: ViewSurvey) -> int:
    """Free leaves on healthy nodes of the chain that are not among the view's free ones."""
    chain, counts = state.physical.chains[view_survey.chain], state.counts
    size = chain.leaves[chain.node_level]
    free = sum(
        size - counts.opportunistic[node] - counts.guaranteed[node] - _idle_bad(state, node)
        for node in state.physical.at[view_survey.chain][chain.node_level]
        if not counts.dead[node]
    )
    return max(0, free - view_survey.leaves["free"])
