"""Preemption that spares: of the places that a guarantee permits, the one whose victims lose least.

The core has no clock, so the caller says what a group would lose (`Engine.sparing`); without that, HiveD's order
decides. What is chosen is only which victims go. Whether a guaranteed group gets a place is not, but for one case: a
group is not preempted by a stronger one of its own VC while the caller shields it. Source: docs/preemption.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from paictl.scheduler.decision import NO_LEAF, Failure, RejectedView
from paictl.scheduler.groups import GroupState
from paictl.scheduler.placement.losses import Losses
from paictl.scheduler.placement.search import Found, candidate_views, search
from paictl.scheduler.placement.suggested import Suggested
from paictl.scheduler.views import NodeIndex, VirtualIndex

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from paictl.cells.ids import PhysicalCell
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.state import State

TRIES: Final = 8
"""Searches beside the first: enough to halve the losses of 256 groups down to one."""
SHIELD: Final = 10**18
"""Added to the loss of a group that is shielded: it falls only where no other place is permitted."""


class Sparing(Protocol):
    """What the caller knows of groups that run. Both must not change while a decision is made."""

    def loss(self, group: Group) -> int:
        """Work that is lost if the group has to start again, in device-milliseconds, never negative."""

    def shields(self, group: Group) -> bool:
        """Whether the group has run for less than its minimum run time."""


def search_sparing(
    state: State, request: PodRequest, suggested: Suggested | None, sparing: Sparing
) -> Found | tuple[RejectedView, ...]:
    """As `search`, with the place whose victims lose least among those that were looked at.

    Who gets a place from `search` gets one here, unless a shield forbids all that were looked at.
    """
    plain = search(state, request, suggested)
    if not isinstance(plain, Found):
        return plain
    losses = Losses(state, lambda group: _cost(group, sparing))
    if not losses.of(_leaves(plain)):
        return plain
    found = _Choice(state, request, suggested, losses).least(plain)
    if any(_is_barred(state.groups.by_name[name], request, sparing) for name in losses.users(_leaves(found))):
        return _refusal(state, request)
    return found


class _Choice:
    """The search for a place that costs less than the one in HiveD's order."""

    def __init__(self, state: State, request: PodRequest, suggested: Suggested | None, losses: Losses) -> None:
        self.state = state
        self.request = request
        self.suggested = suggested
        self.losses = losses

    def least(self, plain: Found) -> Found:
        """The best of some places.

        Two searches prefer cells whose users lose little, the second by parts of gangs. Others leave out all nodes on
        which a weaker group would lose more than some bound, which is halved as long as there is a place: the victims
        are then those that started, or saved their work, last.
        """
        weaker = [group for group in self.state.groups.by_name.values() if _weaker(group, self.request)]
        bounds = sorted({self.losses.group(group.name) for group in weaker})
        best, least = plain, self.losses.of(_leaves(plain))
        widest = None if least < SHIELD else SHIELD - 1
        tries: list[tuple[int | None, bool]] = [(widest, False)]
        if sum(pods for _, pods in self.request.members) > 1:
            tries.append((widest, True))
        low, high = 0, len(bounds)
        for _ in range(TRIES):
            halving = not tries
            bound, in_parts = (bounds[(low + high) // 2], False) if halving else tries.pop(0)
            found = self._within(weaker, bound, in_parts=in_parts)
            if found is not None and (loss := self.losses.of(_leaves(found))) < least:
                best, least = found, loss
            if halving:
                middle = (low + high) // 2
                low, high = (low, middle) if found is not None else (middle + 1, high)
            if not least or (not tries and low >= high):
                break
        return best

    def _within(self, weaker: Sequence[Group], bound: int | None, *, in_parts: bool) -> Found | None:
        """A place on nodes where no weaker group would lose more than a bound; on any node without one."""
        nodes = self.suggested if bound is None else _without(self.state, self.suggested, self._shut(weaker, bound))
        self.losses.in_parts = in_parts
        found = search(self.state, self.request, nodes, self.losses)
        self.losses.in_parts = False
        return found if isinstance(found, Found) else None

    def _shut(self, weaker: Sequence[Group], bound: int) -> set[str]:
        tree = self.state.physical
        dear = (group for group in weaker if self.losses.group(group.name) > bound)
        return {tree.node_name(leaf) for group in dear for leaf in group.leaves() if leaf != NO_LEAF}


def _without(state: State, suggested: Suggested | None, shut: set[str]) -> Suggested:
    tree = state.physical
    return Suggested((tree.nodes.keys() if suggested is None else suggested.names) - shut, tree)


def _weaker(group: Group, request: PodRequest) -> bool:
    """Whether a group may have to go for a request."""
    return group.virtual is None or (group.vc == request.vc and group.priority < request.priority)


def _cost(group: Group, sparing: Sparing) -> int:
    if group.state is GroupState.BEING_PREEMPTED:
        return 0  # it goes anyway
    return sparing.loss(group) + (SHIELD if sparing.shields(group) else 0)


def _is_barred(group: Group, request: PodRequest, sparing: Sparing) -> bool:
    """Whether a group must not go: it holds its VC's own promise, and has not run for long enough."""
    held = group.virtual is not None and group.state is GroupState.ALLOCATED
    return held and group.vc == request.vc and sparing.shields(group)


def _refusal(state: State, request: PodRequest) -> tuple[RejectedView, ...]:
    needed = sum(size * pods for size, pods in request.members)
    views = candidate_views(state, request)
    return tuple(RejectedView(label, request.vc, Failure.SHIELDED, _free(view), needed) for label, view in views)


def _free(view: NodeIndex[Any]) -> int:
    return view.free() if isinstance(view, VirtualIndex) else 0


def _leaves(found: Found) -> Iterator[PhysicalCell]:
    return (leaf for pods in found.placement.physical for row in pods for leaf in row)
