"""Free physical cells per chain and level: split when taken, merged when given back.

Invariant: free cells and taken ones partition the leaves, and free siblings never fill their parent (it would
have been merged). Source: HiveD paper §4, "buddy cell allocation".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from paictl.cells.ids import NO_PARENT
from paictl.scheduler.errors import InvariantError

if TYPE_CHECKING:
    from paictl.cells.ids import ByCell, PhysicalCell
    from paictl.cells.tree import PhysicalTree
    from paictl.scheduler.journal import Journal


PARTLY_BAD: Final = 1 << 32
"""Added to the row of a cell in a node that is bad in part; more than any node has leaves."""


class Buddy:
    """The free lists of all chains.

    `bits[chain][level]` is the set of ranks of free cells, `count` its size. `open[chain][level]` splits the set
    by the number of leaves used opportunistically, without cells that are a single dead node; those of a node that
    is bad in part come after all others (`PARTLY_BAD`): the order in which `placement.mapping` wants them.
    """

    __slots__ = ("bad", "bits", "count", "dead", "free", "journal", "open", "opportunistic", "tree")

    def __init__(
        self,
        tree: PhysicalTree,
        journal: Journal,
        bad: ByCell[PhysicalCell, int],
        dead: ByCell[PhysicalCell, int],
        opportunistic: ByCell[PhysicalCell, int],
    ) -> None:
        self.tree = tree
        self.journal = journal
        self.bad = bad
        self.dead = dead
        self.opportunistic = opportunistic
        self.free: ByCell[PhysicalCell, int] = journal.table("buddy.free", bytearray(len(tree)))
        """1 for a cell that is in a free list (not for the cells below it)."""
        self.bits = by_level("buddy.bits", tree, journal, bits=True)
        self.count = by_level("buddy.count", tree, journal)
        self.open: list[list[dict[int, int]]] = [
            [journal.table(f"buddy.open/{index}/{level}", {}, bits=True) for level in range(chain.top + 1)]
            for index, chain in enumerate(tree.chains)
        ]
        for index, chain in enumerate(tree.chains):
            for cell in tree.at[index][chain.top]:
                self._add(cell)

    def holder(self, cell: PhysicalCell) -> PhysicalCell:
        """The free cell that `cell` is or lies in, `NO_PARENT` if it is taken or split."""
        free, parent = self.free, self.tree.parent
        while cell != NO_PARENT and not free[cell]:
            cell = parent[cell]
        return cell

    def take(self, cell: PhysicalCell) -> int:
        """Take a cell out, splitting the free cell it lies in; returns the level of that free cell."""
        tree = self.tree
        holder = self.holder(cell)
        if holder == NO_PARENT:
            raise InvariantError(f"cell {tree.address(cell)} is taken but not free")
        top = tree.level[holder]
        self._remove(holder)
        while holder != cell:
            inner = tree.ancestor(cell, tree.level[holder] - 1)
            for child in tree.children(holder):
                if child != inner:
                    self._add(child)
            holder = inner
        return top

    def give(self, cell: PhysicalCell) -> int:
        """Put a taken cell back and merge it with its siblings; returns the level it merged up to."""
        tree = self.tree
        chain = tree.chain[cell]
        fanout, bits = tree.chains[chain].fanout, self.bits[chain]
        while (parent := tree.parent[cell]) != NO_PARENT:
            level, number = tree.level[cell], fanout[tree.level[parent]]
            family = ((1 << number) - 1) << tree.rank[parent] * number
            if (bits[level] | 1 << tree.rank[cell]) & family != family:
                break
            for child in tree.children(parent):
                if child != cell:
                    self._remove(child)
            cell = parent
        self._add(cell)
        return tree.level[cell]

    def split(self, cell: PhysicalCell, level: int) -> None:
        """Split a free cell all the way down to cells of `level`."""
        tree = self.tree
        self._remove(cell)
        cells = [cell]
        for _ in range(tree.level[cell] - level):
            cells = [child for above in cells for child in tree.children(above)]
        for part in cells:
            self._add(part)

    def moved(self, cell: PhysicalCell, before: int, after: int) -> None:
        """A free cell's opportunistic use changed."""
        if self._usable(cell):
            self._close(cell, before)
            self._open(cell, after)

    def unlist(self, cell: PhysicalCell) -> None:
        """The flags of a cell are about to change."""
        if self.free[cell] and self._usable(cell):
            self._close(cell, self.opportunistic[cell])

    def relist(self, cell: PhysicalCell) -> None:
        """The flags of a cell have changed."""
        if self.free[cell] and self._usable(cell):
            self._open(cell, self.opportunistic[cell])

    def _is_one_node(self, cell: PhysicalCell) -> bool:
        return self.tree.chains[self.tree.chain[cell]].nodes(self.tree.level[cell]) == 1

    def _usable(self, cell: PhysicalCell) -> bool:
        return not self.dead[cell] or not self._is_one_node(cell)

    def _row(self, cell: PhysicalCell, used: int) -> int:
        return used + (PARTLY_BAD if self.bad[cell] and self._is_one_node(cell) else 0)

    def _add(self, cell: PhysicalCell) -> None:
        chain, level, journal = self.tree.chain[cell], self.tree.level[cell], self.journal
        journal.set_item(self.free, cell, 1)
        bits, count = self.bits[chain], self.count[chain]
        journal.set_item(bits, level, bits[level] | 1 << self.tree.rank[cell])
        journal.set_item(count, level, count[level] + 1)
        if self._usable(cell):
            self._open(cell, self.opportunistic[cell])

    def _remove(self, cell: PhysicalCell) -> None:
        chain, level, journal = self.tree.chain[cell], self.tree.level[cell], self.journal
        journal.set_item(self.free, cell, 0)
        bits, count = self.bits[chain], self.count[chain]
        journal.set_item(bits, level, bits[level] ^ 1 << self.tree.rank[cell])
        journal.set_item(count, level, count[level] - 1)
        if self._usable(cell):
            self._close(cell, self.opportunistic[cell])

    def _open(self, cell: PhysicalCell, used: int) -> None:
        box, row = self.open[self.tree.chain[cell]][self.tree.level[cell]], self._row(cell, used)
        self.journal.put(box, row, box.get(row, 0) | 1 << self.tree.rank[cell])

    def _close(self, cell: PhysicalCell, used: int) -> None:
        box, row = self.open[self.tree.chain[cell]][self.tree.level[cell]], self._row(cell, used)
        left = box[row] ^ 1 << self.tree.rank[cell]
        if left:
            self.journal.put(box, row, left)
        else:
            self.journal.drop(box, row)


def by_level(name: str, tree: PhysicalTree, journal: Journal, *, bits: bool = False) -> list[list[int]]:
    """A registered list by level, all zero, for each chain."""
    return [
        journal.table(f"{name}/{index}", [0] * (chain.top + 1), bits=bits) for index, chain in enumerate(tree.chains)
    ]
