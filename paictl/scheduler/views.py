"""Indexes of the nodes that `placement.pack` walks: the healthy ones, ordered by how much they are used.

A view is the part of the cluster that a request is tried in: the preassigned cells of a VC in one chain, one pinned
cell, or a physical chain. Its nodes are numbered by id (slots) and kept as bit sets (Python integers: immutable,
so the journal keeps an old set for free, and the smallest id in a set is its lowest bit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic

from paictl.cells.ids import C, VirtualCell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from paictl.cells.ids import ByCell, ChainIndex, PhysicalCell
    from paictl.cells.tree import PhysicalTree, VirtualTree
    from paictl.scheduler.journal import Journal


class Counts:
    """How many leaves below each cell are used, and which cells are bad, or bad throughout.

    `opportunistic` and `guaranteed` are indexed by physical cell, `used` by virtual cell, `bad` and
    `dead` by physical cell (1 if a leaf, or every leaf below is bad). Written by `Occupancy` and `Health`, read by
    everyone.
    """

    __slots__ = ("bad", "dead", "guaranteed", "opportunistic", "used")

    def __init__(self, physical: int, virtual: int, journal: Journal) -> None:
        self.opportunistic: ByCell[PhysicalCell, int] = journal.table("counts.opportunistic", [0] * physical)
        self.guaranteed: ByCell[PhysicalCell, int] = journal.table("counts.guaranteed", [0] * physical)
        self.used: ByCell[VirtualCell, int] = journal.table("counts.used", [0] * virtual)
        self.bad: ByCell[PhysicalCell, int] = journal.table("counts.bad", bytearray(physical))
        self.dead: ByCell[PhysicalCell, int] = journal.table("counts.dead", bytearray(physical))


class NodeIndex(Generic[C]):
    """Nodes of one view that are not dead: ``rows[row][column]`` is the set of slots with these counts.

    In a VC's view the row is the number of used leaves and the column of free ones. In a physical chain the row
    is the number of leaves used opportunistically and the column of those used by guaranteed groups. `leaves`
    is the size of the largest node. Empty sets are not kept. The counts do not know which leaves are bad: `bad[0]`
    is the set of slots of bad nodes, of which `exact` counts the leaves again.
    """

    __slots__ = ("bad", "cells", "journal", "leaves", "rows")

    def __init__(self, name: str, cells: list[C], leaves: int, journal: Journal) -> None:
        self.cells: list[C] = cells
        self.leaves = leaves
        self.journal = journal
        self.bad: list[int] = journal.table(f"views/{name}/bad", [0], bits=True)
        self.rows: list[dict[int, int]] = [
            journal.table(f"views/{name}/{row}", {}, bits=True) for row in range(leaves + 1)
        ]

    def insert(self, slot: int, row: int, column: int) -> None:
        """Add a node."""
        _add(self.rows[row], column, slot, self.journal)

    def remove(self, slot: int, row: int, column: int) -> None:
        """Take a node out."""
        _take(self.rows[row], column, slot, self.journal)

    def mark(self, slot: int, *, bad: bool) -> None:
        """A node has a bad leaf, or no longer has one."""
        if bool(self.bad[0] >> slot & 1) != bad:
            self.journal.set_item(self.bad, 0, self.bad[0] ^ 1 << slot)

    def exact(self, steps: Iterable[dict[int, int]], room: Callable[[C], int]) -> Iterable[dict[int, int]]:
        """Steps of a walk with the `room` of each bad node instead of what the counts say."""
        return (self._exact(step, room) for step in steps) if self.bad[0] else steps

    def _exact(self, step: dict[int, int], room: Callable[[C], int]) -> dict[int, int]:
        bad = self.bad[0]
        if not any(slots & bad for slots in step.values()):
            return step
        corrected = {free: slots & ~bad for free, slots in step.items() if slots & ~bad}
        for slot in (slot for slots in step.values() for slot in members(slots & bad)):
            free = room(self.cells[slot])
            corrected[free] = corrected.get(free, 0) | 1 << slot
        return corrected


class PriorityView:
    """The nodes of a VC's view as a request of one priority sees them: what is used at a lower one counts as free.

    `rows` as in `NodeIndex`, but with these free leaves as columns; `free` holds them for every slot.
    """

    __slots__ = ("free", "rows")

    def __init__(self, leaves: int, free: list[int]) -> None:
        self.rows: list[dict[int, int]] = [{} for _ in range(leaves + 1)]
        self.free = free


class VirtualIndex(NodeIndex[VirtualCell]):
    """The nodes of a VC's view, also by priority.

    `by_priority` counts the used leaves of the view per priority. `weaker` caches the index per priority of those
    requests that could not be placed without preemption. Making an entry costs a walk of the view, and keeping it up
    to date costs something at every change, so only a few are held.
    """

    __slots__ = ("by_priority", "weaker")

    CACHED = 4

    def __init__(self, name: str, cells: list[VirtualCell], leaves: int, journal: Journal) -> None:
        super().__init__(name, cells, leaves, journal)
        self.by_priority: dict[int, int] = journal.table(f"views/{name}/by_priority", {})
        self.weaker: dict[int, PriorityView] = {}

    def insert(self, slot: int, row: int, column: int) -> None:
        """Add a node."""
        super().insert(slot, row, column)
        for weaker in self.weaker.values():
            _add(weaker.rows[row], weaker.free[slot], slot, self.journal)

    def remove(self, slot: int, row: int, column: int) -> None:
        """Take a node out."""
        super().remove(slot, row, column)
        for weaker in self.weaker.values():
            _take(weaker.rows[row], weaker.free[slot], slot, self.journal)

    def count(self, slot: int, priority: int, number: int) -> None:
        """`number` more (or fewer) leaves of a node, which must not be in the index now, are used at `priority`."""
        used = self.by_priority.get(priority, 0) + number
        if used:
            self.journal.put(self.by_priority, priority, used)
        else:
            self.journal.drop(self.by_priority, priority)
        for limit, weaker in self.weaker.items():
            if priority >= limit:
                self.journal.set_item(weaker.free, slot, weaker.free[slot] - number)

    def free(self) -> int:
        """Free leaves of all healthy nodes."""
        return sum(column * slots.bit_count() for row in self.rows for column, slots in row.items())

    def could_preempt(self, priority: int, needed: int) -> bool:
        """Whether there are weaker leaves at all, and enough with the free ones."""
        below = sum(used for at_priority, used in self.by_priority.items() if at_priority < priority)
        return below > 0 and below + self.free() >= needed


def _add(box: dict[int, int], column: int, slot: int, journal: Journal) -> None:
    journal.put(box, column, box.get(column, 0) | 1 << slot)


def _take(box: dict[int, int], column: int, slot: int, journal: Journal) -> None:
    left = box[column] ^ 1 << slot
    if left:
        journal.put(box, column, left)
    else:
        journal.drop(box, column)


class Views:
    """All views of a cluster, kept in step with bindings and health; counts are kept in step by `Occupancy`."""

    __slots__ = ("counts", "journal", "nodes", "physical", "physical_tree", "pinned", "tree", "virtual")

    def __init__(self, physical_tree: PhysicalTree, tree: VirtualTree, counts: Counts, journal: Journal) -> None:
        self.physical_tree = physical_tree
        self.tree = tree
        self.counts = counts
        self.journal = journal
        self.physical: list[NodeIndex[PhysicalCell]] = []
        """By chain."""
        self.virtual: dict[tuple[str, ChainIndex], VirtualIndex] = {}
        """By VC and chain, without pinned cells."""
        self.pinned: dict[tuple[str, str], VirtualIndex] = {}
        """By VC and pinned cell id."""
        self.nodes: dict[VirtualCell, tuple[VirtualIndex, int]] = {}
        """View and slot of each virtual cell that is a node of its view."""
        for index, chain in enumerate(physical_tree.chains):
            nodes = physical_tree.at[index][chain.node_level]
            view = NodeIndex(f"physical/{index}", nodes, chain.leaves[chain.node_level], journal)
            for slot in range(len(view.cells)):
                view.insert(slot, 0, 0)
            self.physical.append(view)
        self._build_virtual()

    def _build_virtual(self) -> None:
        tree = self.tree
        cells: dict[tuple[str, ChainIndex | str], list[VirtualCell]] = {}
        for root, top in tree.preassigned.items():
            chain = tree.chains[tree.chain[root]]
            key = (top.vc, tree.chain[root] if top.pinned_id is None else top.pinned_id)
            level, nodes = tree.level[root], [root]
            while level > chain.node_level:
                nodes = [child for cell in nodes for child in tree.children(cell)]
                level -= 1
            cells.setdefault(key, []).extend(nodes)
        for (vc, name), nodes in cells.items():
            nodes.sort(key=lambda cell: -tree.level[cell])  # stable; larger nodes first, as HiveD's cluster view
            leaves = max(len(tree.shape(cell).leaves) for cell in nodes)
            view = VirtualIndex(f"virtual/{vc!r}/{name!r}", nodes, leaves, self.journal)
            if isinstance(name, str):
                self.pinned[vc, name] = view
            else:
                self.virtual[vc, name] = view
            for slot, cell in enumerate(nodes):
                self.nodes[cell] = (view, slot)
                view.insert(slot, 0, len(tree.shape(cell).leaves))

    def weaker(self, view: VirtualIndex, priority: int, priorities: dict[VirtualCell, int]) -> PriorityView:
        """`view` as a request of `priority` sees it; `held` is the priority of used virtual leaves."""
        priority_view = view.weaker.get(priority)
        if priority_view is not None:
            return priority_view
        tree, used, low = self.tree, self.counts.used, priority - 1
        free = []
        for cell in view.cells:
            if used[cell]:
                free.append(len([leaf for leaf in tree.leaves(cell) if priorities.get(leaf, low) < priority]))
            else:
                free.append(len(tree.shape(cell).leaves))
        priority_view = PriorityView(view.leaves, free)
        for row, by_column in zip(priority_view.rows, view.rows, strict=True):
            for slots in by_column.values():
                for slot in members(slots):
                    row[free[slot]] = row.get(free[slot], 0) | 1 << slot
        if not self.journal.depth:  # what is imagined in a transaction must not outlive it
            if len(view.weaker) == view.CACHED:
                del view.weaker[next(iter(view.weaker))]
            view.weaker[priority] = priority_view
        return priority_view

    def bound(self, virtual: VirtualCell, cell: PhysicalCell) -> None:
        """A virtual cell was bound: if to a dead cell, it is no longer a node to walk."""
        self._mark(virtual, bad=bool(self.counts.bad[cell]))
        if self.counts.dead[cell]:
            self._remove(virtual)

    def unbound(self, virtual: VirtualCell, cell: PhysicalCell) -> None:
        """A virtual cell was unbound: to its VC it looks healthy again."""
        self._mark(virtual, bad=False)
        if self.counts.dead[cell]:
            self._insert(virtual)

    def turned_bad(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        """A physical cell turned bad; `virtual` is the cell bound to it (negative if none)."""
        self._mark_both(cell, virtual, bad=True)

    def turned_healthy(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        """A physical cell turned healthy; `virtual` is the cell bound to it (negative if none)."""
        self._mark_both(cell, virtual, bad=False)

    def died(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        """All leaves of a physical cell are bad now: it is no longer a node to walk."""
        if self._is_node(cell):
            counts, tree = self.counts, self.physical_tree
            view = self.physical[tree.chain[cell]]
            view.remove(tree.rank[cell], counts.opportunistic[cell], counts.guaranteed[cell])
        if virtual >= 0:
            self._remove(virtual)

    def revived(self, cell: PhysicalCell, virtual: VirtualCell) -> None:
        """A leaf of a dead physical cell is healthy again."""
        if self._is_node(cell):
            counts, tree = self.counts, self.physical_tree
            view = self.physical[tree.chain[cell]]
            view.insert(tree.rank[cell], counts.opportunistic[cell], counts.guaranteed[cell])
        if virtual >= 0:
            self._insert(virtual)

    def _is_node(self, cell: PhysicalCell) -> bool:
        tree = self.physical_tree
        return tree.level[cell] == tree.chains[tree.chain[cell]].node_level

    def _mark_both(self, cell: PhysicalCell, virtual: VirtualCell, *, bad: bool) -> None:
        if self._is_node(cell):
            self.physical[self.physical_tree.chain[cell]].mark(self.physical_tree.rank[cell], bad=bad)
        if virtual >= 0:
            self._mark(virtual, bad=bad)

    def _mark(self, virtual: VirtualCell, *, bad: bool) -> None:
        place = self.nodes.get(virtual)
        if place is not None:
            place[0].mark(place[1], bad=bad)

    def _insert(self, virtual: VirtualCell) -> None:
        place = self.nodes.get(virtual)
        if place is not None:
            used = self.counts.used[virtual]
            place[0].insert(place[1], used, len(self.tree.shape(virtual).leaves) - used)

    def _remove(self, virtual: VirtualCell) -> None:
        place = self.nodes.get(virtual)
        if place is not None:
            used = self.counts.used[virtual]
            place[0].remove(place[1], used, len(self.tree.shape(virtual).leaves) - used)


class ViewPlaces:
    """Answers about views that are needed again and again and never change; not a part of the state."""

    __slots__ = ("_of_leaf", "_views", "by_request")

    def __init__(self, views: Views) -> None:
        self._views = views
        self.by_request: dict[tuple[str, str, str], tuple[VirtualIndex, ...]] = {}
        """By virtual cluster, device type and pinned cell: the views for guaranteed requests; filled by callers."""
        self._of_leaf: dict[VirtualCell, tuple[VirtualIndex, int]] = {}

    def of_leaf(self, leaf: VirtualCell) -> tuple[VirtualIndex, int]:
        """View and slot of the node of a virtual leaf."""
        place = self._of_leaf.get(leaf)
        if place is None:
            cell, nodes = leaf, self._views.nodes
            while cell not in nodes:
                cell = self._views.tree.parent[cell]
            place = self._of_leaf[leaf] = nodes[cell]
        return place


def members(bits: int) -> Iterator[int]:
    """The elements of a bit set, smallest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
