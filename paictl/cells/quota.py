"""Whether quotas fit into cells: the one formula, used by config validation, the scheduler and reports.

With cells of a level free and quota promised at every level, what is left over at level l after all promises
at or above it is ``surplus(l) = free(l) + surplus(l + 1) * fanout(l + 1) - quota(l)``: a surplus cell may be split
into its children, a promised one may not. Quotas fit iff no surplus is negative. A pinned cell counts as quota
at its level until it is taken out of the free cells. Source: HiveD paper §4, "VC safety".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence


@frozen
class Shortfall:
    """The highest level at which promises exceed cells, in cells of that level."""

    level: int
    needed: int
    available: int


def surplus(free: Sequence[int], quota: Sequence[int], fanout: Sequence[int]) -> list[int]:
    """Cells left at each level once all promises at and above it are kept.

    All three are indexed by level 1..top with an unused entry 0, and so is the result; `fanout[l]` is the
    number of children of a cell of level l. Negative entries mean that the quotas do not fit.
    """
    left = [0] * len(free)
    above = 0
    for level in range(len(free) - 1, 0, -1):
        above = left[level] = free[level] + above - quota[level]
        above *= fanout[level]
    return left


def shortfall(free: Sequence[int], quota: Sequence[int], fanout: Sequence[int]) -> Shortfall | None:
    """The highest level whose quota does not fit, or None if all quotas fit; arguments as for `surplus`."""
    above = 0
    for level in range(len(free) - 1, 0, -1):
        available = free[level] + above
        if available < quota[level]:
            return Shortfall(level, quota[level], available)
        above = (available - quota[level]) * fanout[level]
    return None
