"""Which cells are bad, and which are bad throughout.

Invariant: a leaf is bad iff its node is, or it was reported bad by itself; a cell is bad iff a leaf of it is, and
*dead* iff all are. A dead node takes no pods; a node that is bad in part takes them on its other leaves. What cells
are bound to follows through `Doomed`. Cells turn bad from the top down and heal from the leaves up, so that the parent
of a bad bound cell is bound before it and unbound after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PARENT

if TYPE_CHECKING:
    from paictl.cells.ids import ByCell, PhysicalCell
    from paictl.scheduler.doomed import Doomed
    from paictl.scheduler.journal import Journal


class Health:
    """Bad nodes by name and bad leaves; the flags by cell are in `Counts.bad` and `Counts.dead`."""

    __slots__ = ("bad_children", "bad_leaves", "bad_nodes", "dead_children", "doomed", "journal", "tree")

    def __init__(self, doomed: Doomed, journal: Journal) -> None:
        self.doomed = doomed
        self.journal = journal
        self.tree = doomed.tree
        self.bad_children: ByCell[PhysicalCell, int] = journal.table("health.bad_children", [0] * len(self.tree))
        self.dead_children: ByCell[PhysicalCell, int] = journal.table("health.dead_children", [0] * len(self.tree))
        self.bad_nodes: dict[str, bool] = journal.table("health.bad_nodes", {})
        self.bad_leaves: dict[PhysicalCell, bool] = journal.table("health.bad_leaves", {})
        """Leaves that were reported bad by themselves, those on bad nodes too."""

    def turn_bad(self, name: str) -> None:
        """Mark a node bad; does nothing if it already is."""
        if name in self.bad_nodes:
            return
        self.journal.put(self.bad_nodes, name, True)
        tree, bad = self.tree, self.doomed.counts.bad
        for node in tree.nodes[name]:
            self._spoil_above(node)
            for cell in tree.subtree(node):
                if not bad[cell]:
                    self._turn_bad(cell)
            self.doomed.turned(tree.chain[node])

    def turn_healthy(self, name: str) -> None:
        """Mark a node healthy; does nothing if it already is. Leaves that are bad by themselves stay bad."""
        if name not in self.bad_nodes:
            return
        self.journal.drop(self.bad_nodes, name)
        for node in self.tree.nodes[name]:
            self._heal_below(node)
            self._heal_above(self.tree.parent[node])
            self.doomed.turned(self.tree.chain[node])

    def spoil(self, leaf: PhysicalCell) -> None:
        """Mark one leaf bad, whatever the health of its node; does nothing if it already is."""
        if leaf in self.bad_leaves:
            return
        self.journal.put(self.bad_leaves, leaf, True)
        if not self.doomed.counts.bad[leaf]:
            self._spoil_above(leaf)
            self._turn_bad(leaf)
            self.doomed.turned(self.tree.chain[leaf])

    def heal(self, leaf: PhysicalCell) -> None:
        """One leaf is no longer bad by itself; it is healthy if its node is."""
        if leaf not in self.bad_leaves:
            return
        self.journal.drop(self.bad_leaves, leaf)
        if self.tree.node_name(leaf) not in self.bad_nodes:
            self._turn_healthy(leaf)
            self._heal_above(self.tree.parent[leaf])
            self.doomed.turned(self.tree.chain[leaf])

    def _spoil_above(self, cell: PhysicalCell) -> None:
        above, path = self.tree.parent[cell], []
        while above != NO_PARENT and not self.doomed.counts.bad[above]:
            path.append(above)
            above = self.tree.parent[above]
        for ancestor in reversed(path):
            self._turn_bad(ancestor)

    def _heal_above(self, cell: PhysicalCell) -> None:
        while cell != NO_PARENT and not self.bad_children[cell]:
            self._turn_healthy(cell)
            cell = self.tree.parent[cell]

    def _heal_below(self, cell: PhysicalCell) -> None:
        for child in self.tree.children(cell):
            self._heal_below(child)
        if not self.bad_children[cell] and cell not in self.bad_leaves:
            self._turn_healthy(cell)

    def _turn_bad(self, cell: PhysicalCell) -> None:
        self._mark(cell, 1)
        self.doomed.binding.views.turned_bad(cell, self.doomed.binding.virtual[cell])
        self.doomed.turned_bad(cell)
        if self._is_leaf(cell):
            self._die(cell)

    def _turn_healthy(self, cell: PhysicalCell) -> None:
        if self._is_leaf(cell):
            self._revive(cell)
        self._mark(cell, 0)
        self.doomed.binding.views.turned_healthy(cell, self.doomed.binding.virtual[cell])
        self.doomed.turned_healthy(cell)

    def _is_leaf(self, cell: PhysicalCell) -> bool:
        return self.tree.end(cell) == cell + 1

    def _mark(self, cell: PhysicalCell, bad: int) -> None:
        """Set or clear the flag of a bad cell; a free cell moves to another list."""
        buddy = self.doomed.buddy
        buddy.unlist(cell)
        self.journal.set_item(self.doomed.counts.bad, cell, bad)
        buddy.relist(cell)
        above = self.tree.parent[cell]
        if above != NO_PARENT:
            self.journal.set_item(self.bad_children, above, self.bad_children[above] + (1 if bad else -1))

    def _die(self, leaf: PhysicalCell) -> None:
        """A leaf is dead, and so is every cell above it that had no other live leaf."""
        cell = leaf
        while True:
            self._mark_dead(cell, 1)
            cell = self.tree.parent[cell]
            if cell == NO_PARENT:
                return
            dead = self.dead_children[cell] + 1
            self.journal.set_item(self.dead_children, cell, dead)
            if dead < len(self.tree.children(cell)):
                return

    def _revive(self, leaf: PhysicalCell) -> None:
        """A leaf is no longer dead, and neither are the cells above it."""
        cell = leaf
        while True:
            self._mark_dead(cell, 0)
            cell = self.tree.parent[cell]
            if cell == NO_PARENT:
                return
            dead = self.dead_children[cell]
            self.journal.set_item(self.dead_children, cell, dead - 1)
            if dead < len(self.tree.children(cell)):
                return

    def _mark_dead(self, cell: PhysicalCell, dead: int) -> None:
        binding, buddy = self.doomed.binding, self.doomed.buddy
        buddy.unlist(cell)
        self.journal.set_item(self.doomed.counts.dead, cell, dead)
        buddy.relist(cell)
        (binding.views.died if dead else binding.views.revived)(cell, binding.virtual[cell])
