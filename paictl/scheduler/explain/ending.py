"""Which groups would have to end: few leaves, found node by node, then tried and cut down to what is needed."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf
from typing import TYPE_CHECKING, Final, TypeVar

from paictl.scheduler.explain.data import Change, ChangeKind
from paictl.scheduler.scratch import holder, smallest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paictl.scheduler.explain.survey import NodeUse, ViewSurvey
    from paictl.scheduler.request import Member
    from paictl.scheduler.scratch import Scratch


MANY: Final = 256
"""Groups that are candidates at most where counting leaves gave no answer."""
LONG: Final = 32
"""A longer list of groups to end is no advice."""

Price = tuple[int, tuple[str, ...]]
"""Leaves of the groups that have to end, and their names in order: cheaper is smaller."""
FREE_OF_CHARGE: Final[Price] = (0, ())


def groups_to_end(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> Change | None:
    """The groups whose end lets the request run, fewest leaves first, then by names; None if none are found.

    For each view a set is put together by counting leaves, and the cheapest is tried first. If that does not help
    (the virtual cells would be free, but no healthy physical ones), all holders in the chains are reduced to what is
    needed. Then everything cheaper is tried, because an end may help in ways that counting does not see, and fewer
    ends may help where more do not. At most `MANY` groups are candidates each time.
    """
    leaves = {group.name: holder(group).leaves for group in scratch.state.groups.by_name.values()}
    counts = (_Counting(survey, leaves).plan(scratch.request.members) for survey in surveys)
    plans = sorted(plan for plan in counts if plan is not None and len(plan[1]) <= LONG)
    plans = [plan for plan in plans if scratch.siblings.isdisjoint(plan[1])]
    held = {name for survey in surveys for name in survey.held} - scratch.siblings
    inside = _by_size(held, leaves)
    around = _by_size(_in_chains(scratch, surveys) - held - scratch.siblings, leaves)
    names = next((reduced for _, names in plans if (reduced := _needed(scratch, names, leaves))), None)
    for candidates in (inside, [*inside, *around]) if around else (inside,):
        names = names or _needed(scratch, candidates[:MANY], leaves)
    price = sum(leaves[name] for name in names) if names else inf
    rivals = [(leaves[name], name) for name in _by_size({*inside, *around}, leaves) if leaves[name] < price]
    fewer, complete = cheapest(
        scratch,
        rivals[:MANY],
        scratch.end,
        above=_least(scratch, surveys, leaves),
        below=price,
        budget=BUDGET if names else BUDGET // 5,
    )
    reduced = fewer or names
    return _ended(scratch, reduced, smallest=complete and len(rivals) <= MANY) if reduced else None


def _least(scratch: Scratch, surveys: Sequence[ViewSurvey], leaves: dict[str, int]) -> int:
    """A lower bound on the leaves of the groups that have to end, from one of the largest pods and from all leaves.

    0 where ending a group does more than free its leaves: with bad nodes, reservations, suggestions or promotions.
    """
    state, request = scratch.state, scratch.request
    counted = scratch.suggested is not None and not request.ignore_suggested
    if counted or any(state.counts.bad) or state.occupancy.reserver or scratch.engine.spec.lazy_preemption_recovery:
        return 0
    needed = sum(leaf_number * pods for leaf_number, pods in request.members)
    bounds = []
    for survey in surveys:
        pod_price = _Counting(survey, leaves).plan([(request.members[-1][0], 1)])
        lacking = needed - sum(node.room for node in survey.usable)
        bounds.append(max(lacking, pod_price[0] if pod_price else needed))
    return max(0, min(bounds, default=0))


def _needed(scratch: Scratch, names: Sequence[str], leaves: dict[str, int]) -> list[str] | None:
    """The groups needed of these, if their end helps and they are not too many."""
    reduced = smallest(scratch, _by_size(names, leaves), scratch.end) if names else None
    return reduced if reduced and len(reduced) <= LONG else None


def _ended(scratch: Scratch, names: Sequence[str], *, smallest: bool) -> Change | None:
    groups = tuple(holder(scratch.state.groups.by_name[name]) for name in names)
    with scratch.imagine():
        scratch.end(names)
        outcome = scratch.decide(scratch.request, scratch.suggested)
    return Change(ChangeKind.END, outcome, groups=groups, smallest=smallest) if outcome else None


def _by_size(names: Iterable[str], leaves: dict[str, int]) -> list[str]:
    return sorted(names, key=lambda name: (leaves[name], name))


def _in_chains(scratch: Scratch, surveys: Sequence[ViewSurvey]) -> set[str]:
    """Groups of any VC and priority that hold leaves in the chains of these views."""
    chains = {survey.chain for survey in surveys}
    chain_of = scratch.state.physical.chain
    first = ((name, next(group.leaves(), None)) for name, group in scratch.state.groups.by_name.items())
    return {name for name, leaf in first if leaf is not None and chain_of[leaf] in chains}


@dataclass(slots=True)
class _Offer:
    """The price of room for a pod on a node."""

    price: Price
    node: int


class _Counting:
    """Finds nodes for pods by counting leaves only; whether the scheduler agrees is tried afterwards."""

    def __init__(self, survey: ViewSurvey, leaves: dict[str, int]) -> None:
        self.nodes: list[NodeUse] = survey.usable
        self.leaves = leaves
        self.room = [node.room for node in self.nodes]
        self.held = [dict(node.held) for node in self.nodes]
        self.where: dict[str, list[int]] = {}
        for number, node in enumerate(self.nodes):
            for name in node.held:
                self.where.setdefault(name, []).append(number)

    def plan(self, members: Sequence[Member]) -> Price | None:
        """Leaves and names of groups whose end makes room for the pods; None if there are none, or too many.

        Places the largest pods first, on nodes that have room, then each where it costs least. Exact for one pod, a
        good guess for many.
        """
        ended: set[str] = set()
        for size, pods in reversed(members):
            left = self._fill(size, pods)
            while left:
                offer = self._cheapest(size)
                if offer is None or len(ended) > LONG:
                    return None
                for name in offer.price[1]:
                    ended.add(name)
                    for number in self.where[name]:
                        self.room[number] += self.held[number].pop(name)
                left = self._fill(size, left)
        return sum(self.leaves[name] for name in ended), tuple(sorted(ended))

    def _fill(self, size: int, pods: int) -> int:
        """Put pods on nodes that have room, fullest first; returns how many remain."""
        for room, number in sorted((room, number) for number, room in enumerate(self.room) if room >= size):
            fitting = min(pods, room // size)
            self.room[number] -= fitting * size
            pods -= fitting
            if not pods:
                break
        return pods

    def _cheapest(self, size: int) -> _Offer | None:
        """The cheapest node for a pod. A group costs at least the leaves that it frees, which ends the search early."""
        best: _Offer | None = None
        short = sorted((size - room, number) for number, room in enumerate(self.room))
        for deficit, number in short:
            if best is not None and best.price[0] < deficit:
                break
            price = self._price(number, deficit)
            if price is not None and (best is None or price < best.price):
                best = _Offer(price, number)
        return best

    def _price(self, number: int, deficit: int) -> Price | None:
        """The cheapest groups on a node that free `deficit` leaves: a knapsack over the leaves of one node."""
        held = self.held[number]
        if sum(held.values()) < deficit:
            return None
        best: dict[int, Price] = {0: FREE_OF_CHARGE}
        for name in sorted(held):
            for freed, (cost, names) in list(best.items()):
                total = min(deficit, freed + held[name])
                price = (cost + self.leaves[name], (*names, name))
                if total not in best or price < best[total]:
                    best[total] = price
        return best[deficit]


Item = TypeVar("Item")

BUDGET: Final = 1000
"""Changes that one search may try: a fraction of a second, whatever the size of the cluster."""
LOOKS: Final = 20_000
"""Subsets that one search may generate, including those too cheap to be worth a trial."""


def cheapest(
    scratch: Scratch,
    items: Sequence[tuple[int, Item]],
    change: Callable[[Iterable[Item]], None],
    *,
    above: int = 0,
    below: float,
    budget: int = BUDGET,
) -> tuple[list[Item] | None, bool]:
    """The cheapest subset of `items` (cost and item, cheapest first) that helps.

    It costs at least `above` and less than `below`; of subsets with the same cost, the one with the earlier items wins.
    Also returns whether all cheaper subsets were tried (True) or the budget ran out first. Each subset is generated
    once, in order of cost: one that ends with item i yields one that also has item i + 1, and one that has item i + 1
    instead of item i.
    """
    heap: list[tuple[int, tuple[int, ...]]] = [(items[0][0], (0,))] if items and items[0][0] < below else []
    if above >= below:
        return None, True
    trials, looks = budget, LOOKS
    while heap:
        cost, part = heappop(heap)
        if cost >= above:
            trials -= 1 + len(part)
            if trials < 0:
                return None, False
            chosen = [items[index][1] for index in part]
            with scratch.imagine():
                change(chosen)
                if scratch.helps():
                    return chosen, True
        looks -= 1
        if not looks:
            return None, False
        last = part[-1]
        if last + 1 < len(items):
            more = items[last + 1][0]
            for total, grown in (
                (cost + more, (*part, last + 1)),
                (cost + more - items[last][0], (*part[:-1], last + 1)),
            ):
                if total < below:
                    heappush(heap, (total, grown))
    return None, True
