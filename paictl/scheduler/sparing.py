"""Least-loss preemption: of the places that a guarantee permits, the one whose victims lose least.

The core has no clock, so the caller says what a group would lose (`Engine.sparing`); otherwise HiveD's order decides.
This only chooses the victims. It never decides whether a guaranteed group gets a place, with one exception: while the
caller shields a group, no stronger group of its own VC preempts it. Source: docs/preemption.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from paictl.scheduler.decision import Failure, RejectedView
from paictl.scheduler.groups import GroupState
from paictl.scheduler.placement.preferences import Losses, Suggested
from paictl.scheduler.placement.search import FoundPlacement, candidate_views, search
from paictl.scheduler.views import NodeIndex, VirtualIndex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paictl.cells.ids import PhysicalCell
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State

TRIES: Final = 8
"""Searches for a gang after the first ones: enough to halve the costs of 256 nodes down to one."""
SINGLES: Final = 32
"""Nodes on which a single pod is tried."""
SHIELD: Final = 10**60
"""Added to the loss of a shielded group: it is a victim only where no other place is permitted, whatever losses the
caller gives for the groups that would have to go instead."""
BAR: Final = 10**90
"""Added to the loss of a group that must not go for the request: any number of other groups, shielded or not, go
first. Otherwise their shields could refuse a place in which the request's own promise has room."""


class Sparing(Protocol):
    """What the caller knows about running groups. Neither answer may change while a decision is made."""

    def loss(self, group: Group, vc: str) -> int:
        """What is lost if the group has to go for a request of a VC, never negative: work in device-milliseconds, plus
        a surcharge for groups that the caller would rather keep."""

    def shields(self, group: Group) -> bool:
        """Whether the group has run for less than its minimum run time."""


def search_sparing(
    state: State, request: PodRequest, suggested: Suggested | None, sparing: Sparing
) -> FoundPlacement | tuple[RejectedView, ...]:
    """Like `search`, but takes the place whose victims lose least among those considered.

    A request that gets a place from `search` gets one here, unless shields rule out all the places considered.
    """
    plain = search(state, request, suggested)
    if not isinstance(plain, FoundPlacement) or state.occupancy.user.keys().isdisjoint(_leaves(plain)):
        return plain
    losses = Losses(state, lambda group: _cost(group, request, sparing))
    if not losses.of(_leaves(plain)):
        return plain
    candidate = _Choice(state, request, suggested, losses).least(plain)
    if any(_is_barred(state.groups.by_name[name], request, sparing) for name in losses.users(_leaves(candidate))):
        return _refusal(state, request)
    return candidate


class _Choice:
    """The search for a place that costs less than the one in HiveD's order."""

    def __init__(self, state: State, request: PodRequest, suggested: Suggested | None, losses: Losses) -> None:
        self.state = state
        self.request = request
        self.suggested = suggested
        self.losses = losses
        self.best: FoundPlacement | None = None
        self.loss = 0

    def least(self, plain: FoundPlacement) -> FoundPlacement:
        """The cheapest place that a bounded number of searches finds.

        Two searches prefer cells whose users lose little, the second counting each gang by its parts. A single pod is
        then tried on one node after another, cheapest first. For a gang, further searches leave out all nodes that
        cost more than a bound, which is halved as long as there is a place: the victims are then those that started,
        or saved their work, last.
        """
        self.best, self.loss = plain, self.losses.of(_leaves(plain))
        single = sum(pods for _, pods in self.request.members) == 1
        self._try(self.suggested)
        if not single:
            self._try(self.suggested, in_parts=True)
        if self.loss:
            (self._single if single else self._gang)(self._costs())
        return self.best

    def _try(self, nodes: Suggested | None, *, in_parts: bool = False) -> bool:
        """Whether there is a place on these nodes; it is kept if it is the best so far."""
        self.losses.in_parts = in_parts
        result = search(self.state, self.request, nodes, self.losses)
        self.losses.in_parts = False
        if not isinstance(result, FoundPlacement):
            return False
        loss = self.losses.of(_leaves(result))
        if loss < self.loss:
            self.best, self.loss = result, loss
        return True

    def _single(self, costs: list[tuple[int, str]]) -> None:
        """Try one node after another, as long as the next may beat the best so far."""
        for cost, name in costs[:SINGLES]:
            if cost >= self.loss:
                return
            self._try(Suggested(frozenset((name,)), self.state.physical))

    def _gang(self, costs: list[tuple[int, str]]) -> None:
        """Halve the bound on what a node may cost."""
        bounds = sorted({cost for cost, _ in costs})
        low, high = 0, len(bounds)
        for _ in range(TRIES):
            if low >= high or not self.loss:
                return
            middle = (low + high) // 2
            names = frozenset(name for cost, name in costs if cost <= bounds[middle])
            low, high = (low, middle) if self._try(Suggested(names, self.state.physical)) else (middle + 1, high)

    def _costs(self) -> list[tuple[int, str]]:
        """A lower bound on what the smallest pod costs on each node where it may have room, cheapest nodes first.

        It takes as many leaves as it needs, so its victims lose at least as much as the dearest of the cheapest leaves.
        """
        need, user, by_name = self.request.members[0][0], self.state.occupancy.user, self.state.groups.by_name
        tree, bad, priced = self.state.physical, self.state.counts.bad, list[tuple[int, str]]()
        loss_of: dict[str, int | None] = {}
        for name, cells in tree.nodes.items():
            if self.suggested is not None and name not in self.suggested.names:
                continue
            leaves = list[int]()
            for leaf in (leaf for cell in cells for leaf in tree.leaves(cell) if not bad[leaf]):
                group = user.get(leaf)
                if group is not None and group not in loss_of:
                    loss_of[group] = self.losses.group(group) if _weaker(by_name[group], self.request) else None
                cost = 0 if group is None else loss_of[group]
                if cost is not None:
                    leaves.append(cost)
            if len(leaves) >= need:
                priced.append((sorted(leaves)[need - 1], name))
        return sorted(priced)


def _weaker(group: Group, request: PodRequest) -> bool:
    """Whether a group may have to go for a request."""
    return group.virtual is None or (group.vc == request.vc and group.priority < request.priority)


def _cost(group: Group, request: PodRequest, sparing: Sparing) -> int:
    if group.state is GroupState.BEING_PREEMPTED:
        return 0  # it goes anyway
    loss = sparing.loss(group, request.vc)
    if _is_barred(group, request, sparing):
        return loss + BAR
    return loss + SHIELD if sparing.shields(group) else loss


def _is_barred(group: Group, request: PodRequest, sparing: Sparing) -> bool:
    """Whether a group must not go: it holds a guarantee of the request's own VC, and has not run for long enough."""
    guaranteed = group.virtual is not None and group.state is GroupState.ALLOCATED
    return guaranteed and group.vc == request.vc and sparing.shields(group)


def _refusal(state: State, request: PodRequest) -> tuple[RejectedView, ...]:
    needed = sum(size * pods for size, pods in request.members)
    views = candidate_views(state, request)
    return tuple(RejectedView(label, request.vc, Failure.SHIELDED, _free(view), needed) for label, view in views)


def _free(view: NodeIndex[Any]) -> int:
    return view.free() if isinstance(view, VirtualIndex) else 0


def _leaves(candidate: FoundPlacement) -> Iterator[PhysicalCell]:
    return (leaf for pods in candidate.placement.physical for row in pods for leaf in row)
