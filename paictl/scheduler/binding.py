"""Which virtual cell is bound to which physical cell.

Invariant: a bijection between bound cells; the parent of a bound virtual cell is bound to the parent of its
physical cell; a pinned cell is never unbound.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from paictl.cells.ids import NO_PARENT, NO_PHYSICAL, NO_VIRTUAL, ChainIndex
from paictl.scheduler.errors import InvariantError

if TYPE_CHECKING:
    from paictl.cells.ids import ByCell, PhysicalCell, VirtualCell
    from paictl.cells.tree import PhysicalTree, VirtualTree
    from paictl.scheduler.journal import Journal
    from paictl.scheduler.views import Views

UNBOUND: Final = -1
"""What `CellBinding` holds for a cell that is not bound, in either direction; to compare with."""

RootKey = tuple[str, ChainIndex, int]
"""VC, index of the chain, level."""


class CellBinding:
    """The two directions of the binding, and the preassigned cells that are not bound."""

    __slots__ = (
        "children",
        "journal",
        "open_roots",
        "physical",
        "physical_tree",
        "pinned",
        "roots",
        "tree",
        "views",
        "virtual",
    )

    def __init__(self, physical_tree: PhysicalTree, tree: VirtualTree, journal: Journal, views: Views) -> None:
        self.physical_tree = physical_tree
        self.tree = tree
        self.journal = journal
        self.views = views
        self.virtual: ByCell[PhysicalCell, VirtualCell] = journal.table(
            "binding.virtual", [NO_VIRTUAL] * len(physical_tree)
        )
        """Virtual cell by physical cell."""
        self.physical: ByCell[VirtualCell, PhysicalCell] = journal.table("binding.physical", [NO_PHYSICAL] * len(tree))
        """Physical cell by virtual cell."""
        self.children: ByCell[VirtualCell, int] = journal.table("binding.children", [0] * len(tree))
        """How many children of a virtual cell are bound."""
        self.pinned: dict[PhysicalCell, VirtualCell] = {}
        """Preassigned cell by the physical cell it is pinned to."""
        self.roots: dict[RootKey, list[VirtualCell]] = {}
        """Preassigned cells that are not pinned, by VC, chain and level."""
        self.open_roots: dict[RootKey, int] = journal.table("binding.open_roots", {}, bits=True)
        """Those of them that are unbound, as a set of positions in `roots`."""
        for cell, top in tree.preassigned.items():
            if top.pinned_id is None:
                self.roots.setdefault(self.key(cell), []).append(cell)
        for key, cells in self.roots.items():
            self.open_roots[key] = (1 << len(cells)) - 1

    def key(self, root: VirtualCell) -> RootKey:
        """The key under which a preassigned cell is listed."""
        return self.tree.preassigned[root].vc, self.tree.chain[root], self.tree.level[root]

    def pin(self, cell: PhysicalCell, root: VirtualCell) -> None:
        """Bind a pinned physical cell to its preassigned cell for good."""
        self.pinned[cell] = root
        self._set(cell, root)

    def free_root(self, key: RootKey) -> VirtualCell:
        """The unbound preassigned cell with the smallest id, `NO_VIRTUAL` if there is none."""
        bits = self.open_roots.get(key, 0)
        return self.roots[key][(bits & -bits).bit_length() - 1] if bits else NO_VIRTUAL

    def free_child(self, cell: VirtualCell) -> VirtualCell:
        """The unbound child of a virtual cell with the smallest id, `NO_VIRTUAL` if there is none."""
        physical = self.physical
        for child in self.tree.children(cell):
            if physical[child] == UNBOUND:
                return child
        return NO_VIRTUAL

    def bind(self, cell: PhysicalCell, virtual: VirtualCell) -> bool:
        """Bind a pair and those of their parents that are unbound; True if that bound a preassigned cell."""
        above, above_virtual = self.physical_tree.parent, self.tree.parent
        while True:
            self._set(cell, virtual)
            virtual = above_virtual[virtual]
            if virtual == NO_PARENT:
                return True
            cell = above[cell]
            if self.physical[virtual] != UNBOUND:
                if self.physical[virtual] != cell:
                    raise InvariantError(f"parent of {self.tree.address(virtual)} is bound elsewhere")
                return False

    def release(self, cell: PhysicalCell) -> None:
        """Unbind a physical cell that is no longer used, and every parent that has no bound child left."""
        while cell not in self.pinned:
            virtual = self.virtual[cell]
            self.unbind(cell)
            virtual = self.tree.parent[virtual]
            if virtual == NO_PARENT or self.children[virtual]:
                return
            cell = self.physical[virtual]

    def unbind(self, cell: PhysicalCell) -> VirtualCell:
        """Unbind one pair and return its virtual cell."""
        virtual, journal = self.virtual[cell], self.journal
        journal.set_item(self.virtual, cell, NO_VIRTUAL)
        journal.set_item(self.physical, virtual, NO_PHYSICAL)
        above = self.tree.parent[virtual]
        if above != NO_PARENT:
            journal.set_item(self.children, above, self.children[above] - 1)
        else:
            self._flip_root(virtual)
        self.views.unbound(virtual, cell)
        return virtual

    def _set(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        journal = self.journal
        if self.virtual[cell] != UNBOUND or self.physical[virtual] != UNBOUND:
            raise InvariantError(f"{self.physical_tree.address(cell)} or {self.tree.address(virtual)} is already bound")
        journal.set_item(self.virtual, cell, virtual)
        journal.set_item(self.physical, virtual, cell)
        above = self.tree.parent[virtual]
        if above != NO_PARENT:
            journal.set_item(self.children, above, self.children[above] + 1)
        else:
            self._flip_root(virtual)
        self.views.bound(virtual, cell)

    def _flip_root(self, root: VirtualCell) -> None:
        key = self.key(root)
        cells = self.roots.get(key)
        if cells is None or self.tree.preassigned[root].pinned_id is not None:
            return
        position = bisect_left(cells, root)  # ids ascend
        self.journal.put(self.open_roots, key, self.open_roots[key] ^ 1 << position)
