"""The searches for changes that would help, down to a smaller group: each finds the smallest change of its kind."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

from paictl.scheduler.explain.data import Change, ChangeKind
from paictl.scheduler.explain.ending import BUDGET, cheapest, groups_to_end
from paictl.scheduler.explain.quota import more_quota
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.request import MAX_PRIORITY
from paictl.scheduler.scratch import smallest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from paictl.cells.ids import PhysicalCell
    from paictl.scheduler.explain.survey import ViewSurvey
    from paictl.scheduler.request import PodRequest
    from paictl.scheduler.scratch import Repair, Scratch


MANY_REPAIRS: Final = 256
"""Bad nodes and devices that are tried at most, or four for each pod of a larger group."""

_ORDER: Final = {kind: rank for rank, kind in enumerate(ChangeKind)}


def changes(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> tuple[Change, ...]:
    """At most one change of each kind: those that end the fewest leaves first, then the least disturbing ones."""
    helpful = [change for search in _SEARCHES if (change := search(scratch, surveys)) is not None]
    return tuple(sorted(helpful, key=lambda change: (change.harm, _ORDER[change.kind])))


def any_node(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> Change | None:  # noqa: ARG001 (all are called alike)
    """Not insisting on suggested nodes."""
    if scratch.request.ignore_suggested or scratch.suggested is None:
        return None
    outcome = scratch.decide(replace(scratch.request, ignore_suggested=True), scratch.suggested)
    return Change(ChangeKind.ANY_NODE, outcome) if outcome else None


def opportunistic(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> Change | None:  # noqa: ARG001
    """Running without a guarantee (and thus outside a pinned cell)."""
    if not scratch.request.guaranteed:
        return None
    outcome = scratch.decide(replace(scratch.request, priority=OPPORTUNISTIC, pinned_id=""), scratch.suggested)
    return Change(ChangeKind.OPPORTUNISTIC, outcome) if outcome else None


def priority(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> Change | None:  # noqa: ARG001
    """The lowest higher priority with which the request binds or preempts.

    Just above some group of its VC, or 0 for an opportunistic request: in between nothing changes.
    """
    request = scratch.request
    steps = {
        group.priority + 1
        for group in scratch.state.groups.by_name.values()
        if group.vc == request.vc and request.priority <= group.priority < MAX_PRIORITY
    }
    with scratch.imagine():  # in a transaction the core caches no index for these priorities
        for step in sorted({*steps, 0} if not request.guaranteed else steps):
            outcome = scratch.decide(replace(request, priority=step), scratch.suggested)
            if outcome is not None:
                return Change(ChangeKind.PRIORITY, outcome, priority=step)
    return None


def heal(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> Change | None:
    """The fewest bad nodes and devices that would have to heal: those bound to the VC's cells first, then by id."""
    state = scratch.state
    tree, virtual = state.physical, state.binding.virtual
    chains = {survey.chain for survey in surveys}
    bad: list[tuple[PhysicalCell, Repair]] = [
        (cell, (name, None)) for name in state.health.bad_nodes for cell in tree.nodes[name]
    ]
    bad += [(leaf, (tree.node_name(leaf), tree.device(leaf))) for leaf in state.health.bad_leaves]
    ranked = sorted(
        (
            (not (virtual[cell] >= 0 and state.virtual.vc(virtual[cell]) == scratch.request.vc), cell, repair)
            for cell, repair in bad
            if tree.chain[cell] in chains
        ),
        key=lambda row: row[:2],
    )
    pods = sum(number for _, number in scratch.request.members)
    all_repairs = list(dict.fromkeys(repair for _, _, repair in ranked))
    repairs = all_repairs[: max(MANY_REPAIRS, 4 * pods)]
    needed = smallest(scratch, repairs, scratch.heal) if repairs else None
    below = len(needed) if needed else inf
    budget = BUDGET if needed else BUDGET // 5
    fewer, complete = cheapest(scratch, [(1, repair) for repair in repairs], scratch.heal, below=below, budget=budget)
    needed = fewer or needed
    if not needed:
        return None
    with scratch.imagine():
        scratch.heal(needed)
        outcome = scratch.decide(scratch.request, scratch.suggested)
    if outcome is None:
        return None
    chosen = [repair for repair in repairs if repair in needed]
    nodes = tuple(name for name, device in chosen if device is None)
    devices = tuple((name, device) for name, device in chosen if device is not None)
    complete = complete and len(repairs) == len(all_repairs)
    return Change(ChangeKind.HEAL, outcome, nodes=nodes, devices=devices, smallest=complete)


_SEARCHES: Final[tuple[Callable[[Scratch, Sequence[ViewSurvey]], Change | None], ...]] = (
    any_node,
    heal,
    opportunistic,
    more_quota,
    priority,
    groups_to_end,
)


EACH: Final = 32
"""For groups of up to this many pods, every smaller number is tried."""


def smaller(scratch: Scratch) -> Change | None:
    """A group of as many pods as have room now; if not even one has, the same number of the largest pods that do.

    None if neither helps, and for groups with pods of several sizes: only their owner knows which could be left out.
    """
    request = scratch.request
    if len(request.members) != 1:
        return None
    ((leaves, pods),) = request.members
    fewer = _fewer(scratch, leaves, pods)
    if fewer is not None:
        return fewer
    return next((change for size in range(leaves - 1, 0, -1) if (change := _change_of_size(scratch, size, pods))), None)


def _fewer(scratch: Scratch, leaves: int, pods: int) -> Change | None:
    """As many pods as have room: tries each number, or halves the range for many pods.

    Pods are placed greedily, so fewer do not always fit where more do; but every result was tried.
    """
    if pods <= EACH:
        return next(
            (change for number in range(pods - 1, 0, -1) if (change := _change_of_size(scratch, leaves, number))), None
        )
    low, high, largest = 0, pods, None
    while high - low > 1:
        middle = (low + high) // 2
        change = _change_of_size(scratch, leaves, middle)
        low, high, largest = (middle, high, change) if change else (low, middle, largest)
    return largest


def _change_of_size(scratch: Scratch, leaves: int, pods: int) -> Change | None:
    outcome = scratch.decide(resized(scratch.request, leaves, pods), scratch.suggested)
    return Change(ChangeKind.SIZE, outcome, members=((leaves, pods),)) if outcome else None


def resized(request: PodRequest, leaves: int, pods: int) -> PodRequest:
    """The request of a pod of a group of `pods` pods with `leaves` leaf cells each."""
    return replace(request, leaf_number=leaves, members=((leaves, pods),))
