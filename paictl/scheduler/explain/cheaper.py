"""Whether less would do as well: parts of a change are tried from the cheapest up, as far as a budget goes."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from paictl.scheduler.explain.scratch import Scratch

Item = TypeVar("Item")

BUDGET: Final = 1000
"""Changes that one search may try: a fraction of a second, whatever the size of the cluster."""
LOOKS: Final = 20_000
"""Parts that one search may look at, those too cheap to be worth a trial among them."""


def cheapest(
    scratch: Scratch,
    items: Sequence[tuple[int, Item]],
    change: Callable[[Iterable[Item]], None],
    *,
    above: int = 0,
    below: float,
    budget: int = BUDGET,
) -> tuple[list[Item] | None, bool]:
    """The cheapest part of `items` (cost and item, cheapest first) that helps.

    It costs at least `above` and less than `below`; of parts that cost the same it is the one with the earlier items.
    Comes with whether all cheaper parts were tried (True) or the budget ended before. Each part is generated once, in
    order of cost: from one whose last item is the i-th come the one with the next item as well, and the one with the
    next item instead.
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
