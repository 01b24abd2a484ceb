"""A place for members of a gang, as near as possible to where one was: its node, its rack, and so on upwards.

Within a cell the VC's own cells that are bound there already go before ones that would have to be taken. A free place
goes before one for which others have to leave, even if that one is nearer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from paictl.cells.ids import NO_PARENT
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import Failure
from paictl.scheduler.placement.search import Found, SearchAttempt, candidate_views
from paictl.scheduler.placement.suggested import Suggested

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.cells.tree import Tree
    from paictl.scheduler.decision import Placed, RejectedView
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.scheduler.views import NodeIndex

MAPPINGS: Final = 32
"""Virtual nodes that are tried in one cell: which of them stands where is only known once it is mapped."""


def search_near(
    state: State, request: PodRequest, anchor: PhysicalCell, offered: Collection[str] | None
) -> Found | tuple[RejectedView, ...]:
    """A place for a request in the chain of `anchor`, the leaf to stay close to; several pods get theirs in one cell.

    `offered` are the names of the nodes that count, None for all. Why there is none is said of the whole chain. Raises
    `RequestError` as `search` does.
    """
    chain = state.physical.chain[anchor]
    kind, needed = state.physical.chains[chain], sum(leaves * pods for leaves, pods in request.members)
    views = [view for view in candidate_views(state, request) if _chain(state, request, view[1]) == chain]
    second: Found | None = None
    suggested = Suggested(frozenset(), state.physical)  # of no node, if none of the chain is offered
    for names in _scopes(state, anchor, offered):
        suggested = Suggested(names, state.physical)
        if len(names) * kind.leaves[kind.node_level] < needed:
            continue
        for bound in (True, False) if request.guaranteed else (False,):
            for _, index in views:
                found = _Near(state, request, suggested, bound=bound).find(index)
                if not isinstance(found, Found) or _is_bad(state, found):
                    continue
                if not found.lazy and not _used(state, found):
                    return found
                second = second or found
    if second is not None:
        return second
    attempt = _Near(state, request, suggested, bound=False)
    return tuple(attempt.failed(label, index, _failure(attempt.find(index))) for label, index in views)


def _chain(state: State, request: PodRequest, index: NodeIndex[Any]) -> int:
    """The chain of a view; a view without nodes has none."""
    tree: Tree[Any] = state.virtual if request.guaranteed else state.physical
    first = next(iter(index.cells), None)
    return -1 if first is None else tree.chain[first]


def _scopes(state: State, anchor: PhysicalCell, offered: Collection[str] | None) -> Iterator[frozenset[str]]:
    """Names of the nodes of each cell around a leaf, from its node upwards, and of its whole chain; each once."""
    tree = state.physical
    cell, before = tree.node(anchor), frozenset[str]()
    chain = tree.at[tree.chain[anchor]]
    nodes = chain[tree.chains[tree.chain[anchor]].node_level]
    while True:
        within = nodes if cell == NO_PARENT else [nodes[rank] for rank in tree.node_ranks(cell)]
        names = frozenset(tree.component[node] for node in within)
        if offered is not None:
            names &= frozenset(offered)
        if names != before:
            yield names
        before = names
        if cell == NO_PARENT:
            return
        cell = tree.parent[cell]


def _used(state: State, found: Found) -> bool:
    """Whether somebody has to leave a place, or has reserved it."""
    user, reserver = state.occupancy.user, state.occupancy.reserver
    return any(leaf in user or leaf in reserver for pods in found.placement.physical for row in pods for leaf in row)


def _is_bad(state: State, found: Found) -> bool:
    """Whether a place has a bad leaf: the unbound part of a node was mapped onto it."""
    return any(state.counts.bad[leaf] for pods in found.placement.physical for row in pods for leaf in row)


def _failure(found: Found | Failure) -> Failure:
    return Failure.BAD_NODE if isinstance(found, Found) else found  # one was found in vain: it has a bad leaf


class _Near(SearchAttempt):
    """The pods in one cell; with `bound` only on virtual cells below one that stands there already."""

    def __init__(self, state: State, request: PodRequest, suggested: Suggested | None, *, bound: bool) -> None:
        super().__init__(state, request, suggested)
        self.bound = bound
        self.tried: set[VirtualCell] = set()
        """Virtual nodes that could not be mapped into the cell."""

    def find(self, index: NodeIndex[Any]) -> Found | Failure:
        """A place in a view."""
        if not self.request.guaranteed:
            return self.opportunistic(index)
        found: Found | Failure
        for _ in range(MAPPINGS):
            before = len(self.tried)
            found = self.guaranteed(index)  # type: ignore[arg-type]
            if isinstance(found, Found) or len(self.tried) == before:
                break
        return found

    def _allowed(self) -> Callable[[VirtualCell], bool] | None:
        """Whether a virtual node may stand in the cell, as far as it or a cell above it is bound."""
        suggested, virtual, physical = self.suggested, self.state.virtual, self.state.binding.physical
        assert suggested is not None  # noqa: S101 - there is always a scope

        def may_stand(node: VirtualCell) -> bool:
            if node in self.tried:
                return False
            cell = node
            while physical[cell] == UNBOUND:
                if virtual.parent[cell] == NO_PARENT:
                    return not self.bound
                cell = virtual.parent[cell]
            return suggested.any(physical[cell])

        return may_stand

    def _map(self, virtual: Placed[VirtualCell]) -> Found | Failure:
        found = super()._map(virtual)
        if not isinstance(found, Found):
            pods = [row for rows in virtual for row in rows]
            mapped, failed = 0, len(pods)
            while failed - mapped > 1:  # its node is tried no more with which those before it have no place
                middle = (mapped + failed) // 2
                if isinstance(super()._map((tuple(pods[:middle]),)), Found):
                    mapped = middle
                else:
                    failed = middle
            cell, nodes = pods[failed - 1][0], self.state.views.nodes
            while cell not in nodes:
                cell = self.state.virtual.parent[cell]
            self.tried.add(cell)
        return found
