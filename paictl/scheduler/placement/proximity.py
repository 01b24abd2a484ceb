"""A place for members of a gang, as near as possible to where one was: its node, its rack, and so on upwards.

Within a cell, cells that the VC already has there are preferred to ones that it would have to take. A free place is
preferred to one from which other pods have to go, even if that one is nearer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from paictl.cells.ids import NO_PARENT
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.decision import Failure
from paictl.scheduler.placement.preferences import Suggested
from paictl.scheduler.placement.search import FoundPlacement, SearchAttempt, candidate_views

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.cells.tree import Tree
    from paictl.scheduler.decision import Placed, RejectedView
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State
    from paictl.scheduler.views import NodeIndex

MAPPINGS: Final = 32
"""Virtual nodes that are tried in one cell: where each of them lies is known only once it is mapped."""


def search_near(
    state: State, request: PodRequest, anchor: PhysicalCell, offered: Collection[str] | None
) -> FoundPlacement | tuple[RejectedView, ...]:
    """A place for a request in the chain of `anchor`, the leaf to stay close to; several pods get theirs in one cell.

    `offered` are the names of the nodes that count, None for all. The reasons for a failure concern the whole chain.
    Raises `RequestError` as `search` does.
    """
    chain = state.physical.chain[anchor]
    kind, needed = state.physical.chains[chain], sum(leaves * pods for leaves, pods in request.members)
    views = [view for view in candidate_views(state, request) if _chain(state, request, view[1]) == chain]
    fallback: FoundPlacement | None = None
    suggested = Suggested(frozenset(), state.physical)  # no node, in case none of the chain is offered
    for names in _scopes(state, anchor, offered):
        suggested = Suggested(names, state.physical)
        if len(names) * kind.leaves[kind.node_level] < needed:
            continue
        for bound in (True, False) if request.guaranteed else (False,):
            for _, index in views:
                result = _Near(state, request, suggested, bound=bound).find(index)
                if not isinstance(result, FoundPlacement) or _is_bad(state, result):
                    continue
                if not result.lazy and not _used(state, result):
                    return result
                fallback = fallback or result
    if fallback is not None:
        return fallback
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


def _used(state: State, candidate: FoundPlacement) -> bool:
    """Whether a place is used or reserved, even in part."""
    user, reserver = state.occupancy.user, state.occupancy.reserver
    return any(
        leaf in user or leaf in reserver for pods in candidate.placement.physical for row in pods for leaf in row
    )


def _is_bad(state: State, candidate: FoundPlacement) -> bool:
    """Whether a place has a bad leaf: the unbound part of a node was mapped onto it."""
    return any(state.counts.bad[leaf] for pods in candidate.placement.physical for row in pods for leaf in row)


def _failure(result: FoundPlacement | Failure) -> Failure:
    return Failure.BAD_NODE if isinstance(result, FoundPlacement) else result  # the place found has a bad leaf


class _Near(SearchAttempt):
    """A search within one cell; with `bound`, only on virtual cells that are bound there already."""

    def __init__(self, state: State, request: PodRequest, suggested: Suggested | None, *, bound: bool) -> None:
        super().__init__(state, request, suggested)
        self.bound = bound
        self.tried: set[VirtualCell] = set()
        """Virtual nodes that could not be mapped into the cell."""

    def find(self, index: NodeIndex[Any]) -> FoundPlacement | Failure:
        """A place in a view."""
        if not self.request.guaranteed:
            return self.opportunistic(index)
        result: FoundPlacement | Failure
        for _ in range(MAPPINGS):
            before = len(self.tried)
            result = self.guaranteed(index)  # type: ignore[arg-type]
            if isinstance(result, FoundPlacement) or len(self.tried) == before:
                break
        return result

    def _allowed(self) -> Callable[[VirtualCell], bool] | None:
        """Whether a virtual node may lie in the cell: the first bound cell at or above it decides."""
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

    def _map(self, virtual: Placed[VirtualCell]) -> FoundPlacement | Failure:
        result = super()._map(virtual)
        if not isinstance(result, FoundPlacement):
            pods = [row for rows in virtual for row in rows]
            mapped, failed = 0, len(pods)
            while failed - mapped > 1:  # find the first pod that cannot be mapped; its node is not tried again
                middle = (mapped + failed) // 2
                if isinstance(super()._map((tuple(pods[:middle]),)), FoundPlacement):
                    mapped = middle
                else:
                    failed = middle
            cell, nodes = pods[failed - 1][0], self.state.views.nodes
            while cell not in nodes:
                cell = self.state.virtual.parent[cell]
            self.tried.add(cell)
        return result
