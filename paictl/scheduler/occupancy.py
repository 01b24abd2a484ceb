"""Who uses and who reserves each leaf, at which priority, and the counts above it.

No other module writes them. Invariant: Free/Used/Reserving/Reserved is a function of (user?, reserver?), and every
count is the sum over the leaves below. A leaf's priority (its *rank*) is that of the group that holds it: the reserver
if there is one, else the user; opportunistic (-1) if that group holds no virtual leaf.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from paictl.cells.ids import NO_PARENT
from paictl.scheduler.errors import InvariantError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paictl.cells.ids import ByCell, C, PhysicalCell, VirtualCell
    from paictl.scheduler.buddy import Buddy
    from paictl.scheduler.journal import Journal
    from paictl.scheduler.views import Views

OPPORTUNISTIC: Final = -1
"""Priority of a group without a guarantee."""
FREE_PRIORITY: Final = -2
"""Priority of an unused cell."""


class CellState(StrEnum):
    """What a cell is doing; that of a cell with parts is Used if a part is, else what all parts are, else Free."""

    FREE = "Free"
    USED = "Used"
    RESERVING = "Reserving"
    """Used by one group, reserved by another."""
    RESERVED = "Reserved"


class Occupancy:
    """Users, reservers, priorities and counts.

    `user` and `reserver` map a physical leaf to a group's name, `priority` and `virtual_priority` a physical or
    virtual leaf to its priority; a leaf that is not in them has none.
    """

    __slots__ = ("buddy", "counts", "journal", "physical", "priority", "reserver", "user", "views", "virtual_priority")

    def __init__(
        self, views: Views, buddy: Buddy, physical: ByCell[VirtualCell, PhysicalCell], journal: Journal
    ) -> None:
        self.counts = views.counts
        self.physical = physical
        self.views = views
        self.buddy = buddy
        self.journal = journal
        self.user: dict[PhysicalCell, str] = journal.table("occupancy.user", {})
        self.reserver: dict[PhysicalCell, str] = journal.table("occupancy.reserver", {})
        self.priority: dict[PhysicalCell, int] = journal.table("occupancy.priority", {})
        self.virtual_priority: dict[VirtualCell, int] = journal.table("occupancy.virtual_priority", {})

    def state(self, leaf: PhysicalCell) -> CellState:
        """State of a physical leaf."""
        if leaf in self.user:
            return CellState.RESERVING if leaf in self.reserver else CellState.USED
        return CellState.RESERVED if leaf in self.reserver else CellState.FREE

    def use(self, leaves: Iterable[PhysicalCell], group: str) -> None:
        """A group uses physical leaves that no other group uses."""
        user, put = self.user, self.journal.put
        for leaf in leaves:
            if user.get(leaf, group) != group:
                raise InvariantError(f"group {group} is to run on a leaf that {user[leaf]} uses")
            put(user, leaf, group)

    def release(self, leaves: Iterable[PhysicalCell]) -> None:
        """These leaves are no longer used."""
        for leaf in leaves:
            self.journal.drop(self.user, leaf)

    def reserve(self, leaves: Iterable[PhysicalCell], group: str) -> None:
        """A group reserves physical leaves that no other group reserves, whether or not they are used."""
        for leaf in leaves:
            if leaf in self.reserver:
                raise InvariantError(f"group {group} is to reserve a leaf that {self.reserver[leaf]} reserves")
            self.journal.put(self.reserver, leaf, group)

    def unreserve(self, leaves: Iterable[PhysicalCell]) -> None:
        """These leaves are no longer reserved."""
        for leaf in leaves:
            self.journal.drop(self.reserver, leaf)

    def rank(self, leaves: Sequence[PhysicalCell], priority: int) -> None:
        """Free physical leaves of one node get a priority."""
        put = self.journal.put
        for leaf in leaves:
            put(self.priority, leaf, priority)
        self._count_physical(leaves, priority, 1)

    def unrank(self, leaves: Sequence[PhysicalCell]) -> None:
        """Physical leaves of one node lose their priority (all opportunistic, or all guaranteed)."""
        priority = self.priority[leaves[0]]
        drop = self.journal.drop
        for leaf in leaves:
            drop(self.priority, leaf)
        self._count_physical(leaves, priority, -1)

    def rank_virtual(self, leaves: Sequence[VirtualCell], priority: int) -> None:
        """Free virtual leaves of one node get a priority."""
        put = self.journal.put
        for leaf in leaves:
            put(self.virtual_priority, leaf, priority)
        self._count_virtual(leaves, priority, 1)

    def unrank_virtual(self, leaves: Sequence[VirtualCell]) -> None:
        """Used virtual leaves become free."""
        by_priority: dict[int, list[VirtualCell]] = {}
        for leaf in leaves:
            by_priority.setdefault(self.virtual_priority[leaf], []).append(leaf)
            self.journal.drop(self.virtual_priority, leaf)
        for priority, ranked in by_priority.items():
            self._count_virtual(ranked, priority, -1)

    def _count_physical(self, leaves: Sequence[PhysicalCell], priority: int, sign: int) -> None:
        """Carry a change of the leaves up to the top, and the node and free cells on the way to their new place."""
        counts, tree = self.counts, self.views.physical_tree
        opportunistic = priority == OPPORTUNISTIC
        box = counts.opportunistic if opportunistic else counts.guaranteed
        node = tree.node(leaves[0])
        if not node <= min(leaves) <= max(leaves) < tree.end(node):  # a node that lies in two chains
            for leaf in leaves:
                self._count_physical((leaf,), priority, sign)
            return
        view = self.views.physical[tree.chain[node]]
        listed = not counts.dead[node]
        if listed:
            view.remove(tree.rank[node], counts.opportunistic[node], counts.guaranteed[node])
        free, set_item = self.buddy.free, self.journal.set_item
        for cell, number in rising(leaves, tree.parent):
            before = box[cell]
            set_item(box, cell, before + sign * number)
            if opportunistic and free[cell]:
                self.buddy.moved(cell, before, before + sign * number)
        if listed:
            view.insert(tree.rank[node], counts.opportunistic[node], counts.guaranteed[node])

    def _count_virtual(self, leaves: Sequence[VirtualCell], priority: int, sign: int) -> None:
        """Carry a change of the leaves up to the preassigned cell, and the node on the way to its new place."""
        counts, tree = self.counts, self.views.tree
        used, set_item, nodes = counts.used, self.journal.set_item, self.views.nodes
        bound = self.physical
        for cell, number in rising(leaves, tree.parent):
            before = used[cell]
            after = before + sign * number
            set_item(used, cell, after)
            place = nodes.get(cell)
            if place is not None:
                view, slot = place
                size = len(tree.shape(cell).leaves)
                listed = bound[cell] < 0 or not counts.dead[bound[cell]]
                if listed:
                    view.remove(slot, before, size - before)
                view.count(slot, priority, sign * number)
                if listed:
                    view.insert(slot, after, size - after)


def rising(leaves: Sequence[C], parent: ByCell[C, C]) -> list[tuple[C, int]]:
    """The cells at and above some leaves, lowest level first, each with the number of these leaves below it."""
    out: list[tuple[C, int]] = []
    cells = dict.fromkeys(leaves, 1)
    while cells:
        out += cells.items()
        above: dict[C, int] = {}
        for cell, number in cells.items():
            top = parent[cell]
            if top != NO_PARENT:
                above[top] = above.get(top, 0) + number
        cells = above
    return out
