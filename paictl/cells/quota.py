"""Whether quotas fit into cells, and which promises break without some nodes: one formula for all who ask.

With cells of a level free and quota promised at every level, what is left over at level l after all promises
at or above it is ``surplus(l) = free(l) + surplus(l + 1) * fanout(l + 1) - quota(l)``: a surplus cell may be split
into its children, a promised one may not. Quotas fit iff no surplus is negative. A pinned cell counts as quota
at its level until it is taken out of the free cells. Source: HiveD paper §4, "VC safety".
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PARENT
from paictl.cells.tree import build_physical, build_virtual
from paictl.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paictl.cells.ids import ChainIndex, PhysicalCell
    from paictl.cells.spec import ClusterSpec
    from paictl.cells.tree import PhysicalTree


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


def cells_at_risk(spec: ClusterSpec, nodes: Collection[str]) -> dict[str, int]:
    """Preassigned cells by virtual cluster that may find no cell while nodes are away; only those that have some.

    Where the cells that are left of a level do not suffice for all promises, every virtual cluster with a promise of
    that level is at risk, of as many cells as are short, or as it was promised. Source of the sum: `cells.quota`.
    """
    physical = build_physical(spec)
    virtual, failing = build_virtual(spec, physical), {cell for name in nodes for cell in physical.nodes.get(name, ())}
    if not failing:
        return {}
    touched = _touched(physical, failing)
    promised: dict[tuple[ChainIndex, int], dict[str, int]] = {}
    at_risk: dict[str, int] = {}
    for cell, top in virtual.preassigned.items():
        if top.pinned_id is not None:
            if physical.pinned[top.pinned_id] in touched:
                at_risk[top.vc] = at_risk.get(top.vc, 0) + 1
            continue
        of_level = promised.setdefault((virtual.chain[cell], virtual.level[cell]), {})
        of_level[top.vc] = of_level.get(top.vc, 0) + 1
    free = _free(physical, touched)
    for chain in physical.chain_indexes():
        above = 0
        for level in range(len(free[chain]) - 1, 0, -1):
            quota = promised.get((chain, level), {})
            left = free[chain][level] + above - sum(quota.values())
            for vc, number in quota.items() if left < 0 else ():
                at_risk[vc] = at_risk.get(vc, 0) + min(number, -left)
            above = max(left, 0) * physical.chains[chain].fanout[level]
    return dict(sorted(at_risk.items()))


def _touched(tree: PhysicalTree, failing: Collection[PhysicalCell]) -> set[PhysicalCell]:
    """The cells of which a part is gone."""
    touched: set[PhysicalCell] = set()
    for node in failing:
        touched.update(tree.subtree(node))
        cell = tree.parent[node]
        while cell != NO_PARENT:
            touched.add(cell)
            cell = tree.parent[cell]
    return touched


def _free(tree: PhysicalTree, touched: set[PhysicalCell]) -> list[list[int]]:
    """Whole cells that are left, by chain and level: none is counted that lies in another, and none that is pinned."""
    free = [[0] * (chain.top + 1) for chain in tree.chains]
    pinned = set(tree.pinned.values())
    around = _touched(tree, pinned)
    stack = [cell for cell in tree.cells() if tree.parent[cell] == NO_PARENT]
    while stack:
        cell = stack.pop()
        if cell in pinned:
            continue
        if cell in touched or cell in around:
            stack.extend(tree.children(cell))
        else:
            free[tree.chain[cell]][tree.level[cell]] += 1
    return free
