"""Progressive filling: the least number of devices with which a job keeps its deadline beside those planned before it.

Time is cut into slots from 0 (now); a profile says how many devices are free from a slot on. A job runs at levels
(numbers of devices, rising) with a rate each; in a slot it takes the largest level that is at most its quota and free.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from paictl.frozen import frozen

_NEARLY = 1 - 1e-9
"""Work is done when this part of it is: rates are rounded."""


@frozen
class Curve:
    """How fast a job runs: levels, rising, and the work of a slot at each, rising too."""

    levels: tuple[int, ...]
    rates: tuple[float, ...]

    def at_most(self, devices: int) -> int:
        """The place of the largest level that needs no more devices; -1: there is none."""
        return bisect_right(self.levels, devices) - 1


class Stretch(NamedTuple):
    """Slots from `first` to before `end` at a level (its place in the curve)."""

    first: int
    end: int
    level: int


class FreeDevices:
    """Free devices by slot; the last entry holds for ever."""

    def __init__(self, devices: int) -> None:
        self._starts = [0]
        self._free = [devices]

    def free(self, slot: int) -> int:
        """In a slot."""
        return self._free[bisect_right(self._starts, slot) - 1]

    def take(self, plan: Sequence[Stretch], curve: Curve) -> None:
        """The devices of a plan are not free any more."""
        for first, end, level in plan:
            low, high = self._cut(first), self._cut(end)
            for place in range(low, high):
                self._free[place] -= curve.levels[level]

    def _cut(self, slot: int) -> int:
        place = bisect_left(self._starts, slot)
        if place == len(self._starts) or self._starts[place] != slot:
            self._starts.insert(place, slot)
            self._free.insert(place, self._free[place - 1])
        return place

    def filled(self, curve: Curve, work: float, due: int) -> list[Stretch] | None:
        """With the least quota that does the work before slot `due`, as early as it goes; None if no quota does."""
        for quota in range(len(curve.levels)):
            if (plan := self._with(curve, quota, work, due)) is not None:
                return plan
        return None

    def _with(self, curve: Curve, quota: int, work: float, due: int) -> list[Stretch] | None:
        plan: list[Stretch] = []
        left = work * _NEARLY
        for place, first in enumerate(self._starts):
            if first >= due:
                break
            end = min(due, self._starts[place + 1]) if place + 1 < len(self._starts) else due
            level = min(quota, curve.at_most(self._free[place]))
            if level < 0:
                continue
            slots = ceil(left / curve.rates[level])
            if slots <= end - first:
                return [*plan, Stretch(first, first + slots, level)]
            plan.append(Stretch(first, end, level))
            left -= (end - first) * curve.rates[level]
        return None
