"""Preemption that spares: of the places that a guarantee permits, the one whose victims lose least.

The core has no clock, so the caller says what a group would lose (`Engine.sparing`); without that, HiveD's order
decides. What is chosen is only which victims go. Whether a guaranteed group gets a place is not, but for one case: a
group is not preempted by a stronger one of its own VC while the caller shields it. Source: docs/preemption.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from paictl.scheduler.decision import NO_LEAF, Failure, RejectedView
from paictl.scheduler.groups import GroupState
from paictl.scheduler.placement.losses import Losses
from paictl.scheduler.placement.search import Found, search
from paictl.scheduler.placement.suggested import Suggested

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    The first search prefers cells whose users lose little. Others leave out all nodes on which a group would lose more
    than some bound, which is halved as long as there is a place: the victims are then those that started, or saved
    their work, last.
    """
    losses = Losses(state, lambda group: _cost(group, sparing))
    found = search(state, request, suggested, losses)
    if not isinstance(found, Found):
        return found
    least = losses.of(_leaves(found))
    if least:
        found = _spared(state, request, suggested, losses, found, least)
    if any(_is_barred(state.groups.by_name[name], request, sparing) for name in losses.users(_leaves(found))):
        return (_refusal(state, request, found),)
    return found


def _spared(
    state: State, request: PodRequest, suggested: Suggested | None, losses: Losses, first: Found, least: int
) -> Found:
    """The best of the first place and those found without the nodes of groups that lose much."""
    weaker = sorted({losses.group(group.name) for group in state.groups.by_name.values() if _weaker(group, request)})
    low, high, best = 0, len(weaker), first
    for _ in range(TRIES):
        if low >= high:
            break
        middle = (low + high) // 2
        attempt = search(state, request, _without(state, request, suggested, losses, weaker[middle]), losses)
        if not isinstance(attempt, Found):
            low = middle + 1
            continue
        high, loss = middle, losses.of(_leaves(attempt))
        if loss < least:
            best, least = attempt, loss
    return best


def _without(
    state: State, request: PodRequest, suggested: Suggested | None, losses: Losses, bound: int
) -> Suggested:
    """The nodes on which no weaker group would lose more than a bound."""
    tree = state.physical
    shut = {
        tree.node_name(leaf)
        for group in state.groups.by_name.values()
        if _weaker(group, request) and losses.group(group.name) > bound
        for leaf in group.leaves() if leaf != NO_LEAF
    }  # fmt: skip
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


def _refusal(state: State, request: PodRequest, found: Found) -> RejectedView:
    chain = state.physical.chains[state.physical.chain[next(_leaves(found))]]
    view = f"pinned cell {request.pinned_id}" if request.pinned_id else f"chain {chain.name}"
    return RejectedView(view, request.vc, Failure.SHIELDED, 0, sum(size * pods for size, pods in request.members))


def _leaves(found: Found) -> Iterator[PhysicalCell]:
    return (leaf for pods in found.placement.physical for row in pods for leaf in row)
