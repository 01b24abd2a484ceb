"""Preassigned cells that the VCs hold and may still take, and whether the remaining cells can keep every promise.

Invariant: held + free = configured for every (VC, chain, level), and the surplus of the free physical cells over
the free quotas is never negative. Numbers count healthy and bad cells alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cells.quota import surplus
from paictl.scheduler.buddy import by_level

if TYPE_CHECKING:
    from paictl.cells.ids import ChainIndex, PhysicalCell
    from paictl.cells.tree import PhysicalTree, VirtualTree
    from paictl.scheduler.buddy import Buddy
    from paictl.scheduler.journal import Journal


class Ledger:
    """Free quota and cells left, by chain (index) and level.

    `free[vc][chain][level]` is what a VC may still take, `quota[chain][level]` the sum over all VCs.
    `left[chain][level]` are the physical cells that are free or lie in a free cell.
    """

    __slots__ = ("buddy", "free", "journal", "left", "quota", "tree", "vcs")

    def __init__(self, tree: PhysicalTree, virtual: VirtualTree, buddy: Buddy, journal: Journal) -> None:
        self.tree = tree
        self.buddy = buddy
        self.journal = journal
        self.free: dict[str, dict[ChainIndex, list[int]]] = {}
        self.quota = by_level("ledger.quota", tree, journal)
        self.left = by_level("ledger.left", tree, journal)
        for left, rows in zip(self.left, tree.at, strict=True):
            left[1:] = map(len, rows[1:])
        for cell, top in virtual.preassigned.items():
            chain, level = virtual.chain[cell], virtual.level[cell]
            by_chain = self.free.setdefault(top.vc, {})
            if chain not in by_chain:
                by_chain[chain] = journal.table(f"ledger.free/{top.vc}/{chain}", [0] * (tree.chains[chain].top + 1))
            by_chain[chain][level] += 1
            self.quota[chain][level] += 1
        self.vcs = [
            [(vc, by_chain[chain]) for vc, by_chain in sorted(self.free.items()) if chain in by_chain]
            for chain in tree.chain_indexes()
        ]
        """Per chain its VCs by name with their `free` levels."""

    def charge(self, vc: str, chain: ChainIndex, level: int, number: int) -> None:
        """A VC takes (1) or returns (-1) a preassigned cell."""
        levels, quota, set_item = self.free[vc][chain], self.quota[chain], self.journal.set_item
        set_item(levels, level, levels[level] - number)
        set_item(quota, level, quota[level] - number)
        self.leave(chain, level, -number)

    def leave(self, chain: ChainIndex, level: int, number: int) -> None:
        """`number` more (or fewer) cells of a level are left."""
        left = self.left[chain]
        self.journal.set_item(left, level, left[level] + number)

    def surplus(self, chain: ChainIndex) -> list[int]:
        """Free cells of each level over all free quotas at and above it."""
        return surplus(self.buddy.count[chain], self.quota[chain], self.tree.chains[chain].fanout)

    def may_take(self, cell: PhysicalCell) -> bool:
        """Whether a physical cell can be given to a VC that has quota at its level, and all promises still be kept.

        Splitting a free cell of level L for it costs one surplus cell at every level above its own up to L.
        """
        holder = self.buddy.holder(cell)
        if holder < 0:
            return False
        chain, level, top = self.tree.chain[cell], self.tree.level[cell], self.tree.level[holder]
        return top == level or min(self.surplus(chain)[level + 1 : top + 1]) > 0
