"""Cells as pages draw them: what each device does, whose it is as far as the reader may know, and where a job would go.

A user sees which devices are in use, and of the jobs on them only the own ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from paictl.cluster.picture import ChainPicture
from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.scheduler.explain.data import ANOTHER
from paictl.scheduler.groups import Hold
from paictl.scheduler.inspection import PhysicalCellStatus
from paictl.scheduler.wire import isolation_text
from paictl.server.calls import Call

MOST_LEAVES: Final = 4096
"""Devices that are drawn one by one; of a larger cluster each node is one number."""


@frozen
class DrawnCell:
    """A cell as it is drawn: `look` is the style of a device, `title` what a pointer on it tells."""

    name: str
    kind: str
    is_node: bool
    look: str = ""
    title: str = ""
    used: int = 0
    total: int = 0
    parts: tuple[DrawnCell, ...] = ()


@frozen
class DrawnChain:
    """A chain as it is drawn; `hidden` top cells are left out."""

    name: str
    types: tuple[str, ...]
    cells: tuple[DrawnCell, ...]
    used: int
    total: int
    hidden: int = 0


@frozen
class PictureMarks:
    """What a picture points at: devices that a job would get, as (node, device), and jobs that are in its way."""

    places: frozenset[tuple[str, str]] = frozenset()
    jobs: frozenset[str] = frozenset()
    taken: bool = False
    """Whether the job has the devices already."""

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes of the devices."""
        return frozenset(node for node, _ in self.places)


class Whose:
    """Whose jobs the caller may see."""

    def __init__(self, call: Call) -> None:
        self.call = call

    def mine(self, job: str) -> bool:
        """Whether the name of a job may be shown."""
        return self.call.me.admin or job.partition("~")[0] == self.call.me.name

    def named(self, job: str) -> str:
        """A job as the caller may know it."""
        return job if self.mine(job) else text(ANOTHER).of(self.call.language)

    def told(self, message: Text) -> str:
        """In the caller's language."""
        return message.of(self.call.language)


_NOTHING: Final = PictureMarks()


class Drawing:
    """One picture for one reader."""

    def __init__(self, call: Call, *, detailed: bool, marks: PictureMarks = _NOTHING) -> None:
        self._whose = Whose(call)
        self._detailed = detailed
        """Whether devices are drawn one by one on every node, not only on those that are pointed at."""
        self._marks = marks
        self._nodes = marks.nodes

    def chain(self, chain: ChainPicture) -> DrawnChain:
        """A chain; of a large one the cells that are pointed at alone, if any are."""
        cells = chain.cells
        if not self._detailed and self._nodes:
            cells = tuple(cell for cell in cells if any(node.name in self._nodes for node in cell.nodes()))
        leaves = [leaf for cell in chain.cells for leaf in cell.leaves()]
        used = sum(leaf.hold is not Hold.NONE for leaf in leaves)
        drawn = tuple(self._cell(cell, "", chain.instances) for cell in cells)
        return DrawnChain(chain.name, chain.types, drawn, used, len(leaves), len(chain.cells) - len(cells))

    def _cell(self, cell: PhysicalCellStatus, node: str, instances: int) -> DrawnCell:
        if not cell.parts:
            look, words = self._leaf(cell, node or cell.name, instances)
            return DrawnCell(cell.name, cell.kind, cell.is_node, look, words, int(cell.hold is not Hold.NONE), 1)
        leaves = list(cell.leaves())
        used = sum(leaf.hold is not Hold.NONE for leaf in leaves)
        node = cell.name if cell.is_node else node
        parts: tuple[DrawnCell, ...] = ()
        if self._detailed or not cell.is_node or cell.name in self._nodes:
            parts = tuple(self._cell(part, node, instances) for part in cell.parts)
        return DrawnCell(cell.name, cell.kind, cell.is_node, used=used, total=len(leaves), parts=parts)

    def _leaf(self, leaf: PhysicalCellStatus, node: str, instances: int) -> tuple[str, str]:
        """How a device looks, and what is said of it; `instances` as `ChainPicture.instances`."""
        whose = self._whose
        words, look = [isolation_text((int(leaf.name),), instances) if instances else leaf.name], "free"
        if leaf.hold is not Hold.NONE:
            guaranteed = leaf.hold is Hold.GUARANTEED
            look = "held" if guaranteed else "reserved" if leaf.hold is Hold.PREEMPTING else "lent"
            look += " mine" if leaf.job and whose.mine(leaf.job) and not whose.call.me.admin else ""
            words.append(whose.named(leaf.job))
            words.append(whose.told(text("VC {vc}", vc=leaf.vc)) if leaf.vc else "")
            words.append("" if guaranteed else whose.told(text("without a guarantee")))
        if leaf.reserver:
            look = "reserved"
            words.append(whose.told(text("reserved for {job}", job=whose.named(leaf.reserver))))
        if not leaf.healthy:
            look += " bad"
            words.append(whose.told(text("bad")))
        if leaf.job and leaf.job in self._marks.jobs:
            look += " blocks"
            words.append(whose.told(text("in the way")))
        if (node, leaf.name) in self._marks.places:
            look += " place"
            words.append(whose.told(text("here it runs") if self._marks.taken else text("here it would run")))
        return look, ", ".join(word for word in words if word)


def drawn(call: Call, chains: Collection[ChainPicture], marks: PictureMarks = _NOTHING) -> list[DrawnChain]:
    """Some chains of a cluster; devices one by one if there are few enough."""
    leaves = sum(1 for chain in chains for cell in chain.cells for _ in cell.leaves())
    drawing = Drawing(call, detailed=leaves <= MOST_LEAVES, marks=marks)
    return [drawing.chain(chain) for chain in chains]
