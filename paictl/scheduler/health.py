"""Which cells are bad.

Invariant: a cell is bad iff a leaf of it is. Nodes turn bad or healthy as a whole; what their cells are bound to
follows through `Doomed`. The order (a bad node from the top down, a healthy one from the leaves up) makes that
the parent of a bad bound cell is bound before it, and unbound after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PARENT

if TYPE_CHECKING:
    from paictl.cells.ids import ByCell, PhysicalCell
    from paictl.scheduler.doomed import Doomed
    from paictl.scheduler.journal import Journal


class Health:
    """Bad nodes by name; the flags by cell are in `Counts.bad`."""

    __slots__ = ("bad_children", "bad_nodes", "doomed", "journal", "tree")

    def __init__(self, doomed: Doomed, journal: Journal) -> None:
        self.doomed = doomed
        self.journal = journal
        self.tree = doomed.tree
        self.bad_children: ByCell[PhysicalCell, int] = journal.table("health.bad_children", [0] * len(self.tree))
        self.bad_nodes: dict[str, bool] = journal.table("health.bad_nodes", {})

    def turn_bad(self, name: str) -> None:
        """Mark a node bad; nothing happens if it is."""
        if name in self.bad_nodes:
            return
        self.journal.put(self.bad_nodes, name, True)
        tree, bad = self.tree, self.doomed.counts.bad
        for node in tree.nodes[name]:
            above, path = tree.parent[node], []
            while above != NO_PARENT and not bad[above]:
                path.append(above)
                above = tree.parent[above]
            for cell in reversed(path):
                self._turn_bad(cell)
            for cell in tree.subtree(node):
                self._turn_bad(cell)
            self.doomed.turned(tree.chain[node])

    def turn_healthy(self, name: str) -> None:
        """Mark a node healthy; nothing happens if it is."""
        if name not in self.bad_nodes:
            return
        self.journal.drop(self.bad_nodes, name)
        for node in self.tree.nodes[name]:
            self._heal_below(node)
            cell = self.tree.parent[node]
            while cell != NO_PARENT and not self.bad_children[cell]:
                self._turn_healthy(cell)
                cell = self.tree.parent[cell]
            self.doomed.turned(self.tree.chain[node])

    def _heal_below(self, cell: PhysicalCell) -> None:
        for child in self.tree.children(cell):
            self._heal_below(child)
        self._turn_healthy(cell)

    def _turn_bad(self, cell: PhysicalCell) -> None:
        self._mark(cell, 1)
        self.doomed.binding.views.turned_bad(cell, self.doomed.binding.virtual[cell])
        self.doomed.turned_bad(cell)

    def _turn_healthy(self, cell: PhysicalCell) -> None:
        self._mark(cell, 0)
        self.doomed.binding.views.turned_healthy(cell, self.doomed.binding.virtual[cell])
        self.doomed.turned_healthy(cell)

    def _mark(self, cell: PhysicalCell, bad: int) -> None:
        tree, journal = self.tree, self.journal
        journal.set_item(self.doomed.counts.bad, cell, bad)
        if self.doomed.buddy.free[cell]:
            (self.doomed.buddy.turned_bad if bad else self.doomed.buddy.turned_healthy)(cell)
        above = tree.parent[cell]
        if above != NO_PARENT:
            journal.set_item(self.bad_children, above, self.bad_children[above] + (1 if bad else -1))
