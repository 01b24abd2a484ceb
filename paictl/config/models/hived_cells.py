"""Physical cells of a hivedscheduler configuration: the trees that the file lists, with what follows by default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.models.hived_types import DeclaredChain, name_under
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode, SequenceNode
from paictl.config.reading.source import Located
from paictl.frozen import frozen

NO_DEFAULT = -1

MOST_DEVICES = 4096
"""Nodes with more devices than this are not searched for overlaps: their type is wrong already."""


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A physical cell that the file lists; cells that only follow from the type have none.

    `index` is the number that HiveD gives it where it has no address, `NO_DEFAULT` for a child too many; `listed` is
    the number of children that the file lists, `children` those that can be read.
    """

    chain: DeclaredChain
    level: int
    spec: MappingNode
    at: Node
    index: int
    parent: Cell | None
    listed: int = 0
    children: list[Cell] = field(default_factory=list)

    @property
    def type(self) -> str:
        """Name of its type."""
        return self.chain.types[self.level]

    @property
    def is_node(self) -> bool:
        """Whether it is one node."""
        return self.level == self.chain.node_level

    @property
    def place(self) -> Located:
        """Where to point if something is missing: its first key."""
        return next((entry.key for entry in self.spec), self.at)

    @property
    def address(self) -> ScalarNode | None:
        """The address that is written, None for an empty one."""
        entry = self.spec.entries.get("cellAddress")
        if entry is None or not isinstance(entry.value, ScalarNode):
            return None
        return entry.value if entry.value.tag != "null" and entry.value.text else None

    @property
    def name(self) -> str:
        """The address as HiveD reads it, or the default."""
        address = self.address
        if address is None:
            return "" if self.index == NO_DEFAULT else str(self.index)
        return address.text if isinstance(address.value, float) else str(address.value)

    @property
    def pin(self) -> ScalarNode | None:
        """Its pinned cell id, also under the key of HiveD before 0.3."""
        return name_under(self.spec, "pinnedCellId") or name_under(self.spec, "reservationId")

    @property
    def is_short(self) -> bool:
        """Whether it lists some children, but fewer than its type has."""
        return self.chain.countable and 0 < self.listed < self.chain.fanout[self.level]


@frozen
class Device:
    """A leaf cell of a node: `number` is None where the address is no device index."""

    number: int | None
    at: Located


def grow(spec: MappingNode, chain: DeclaredChain, index: int, cells: list[Cell]) -> Cell:
    """The tree of a top cell; all its cells are appended to `cells` in file order."""
    return _grow(spec, (chain, chain.top, index, None), cells)


def _grow(node: Node, where: tuple[DeclaredChain, int, int, Cell | None], cells: list[Cell]) -> Cell:
    chain, level, index, parent = where
    spec = node if isinstance(node, MappingNode) else MappingNode(node.source, node.start, node.start)
    below = spec.get("cellChildren") if level >= LEAF_LEVEL else None
    items = below.items if isinstance(below, SequenceNode) else []
    cell = Cell(chain, level, spec, node, index, parent, len(items))
    cells.append(cell)
    if level > LEAF_LEVEL and items:
        fanout = chain.fanout[level]
        # Default addresses start anew inside a node, so that those of leaves are device indices.
        first = 0 if cell.is_node else index * fanout
        for i, item in enumerate(items):
            if isinstance(item, MappingNode) or (isinstance(item, ScalarNode) and item.tag == "null"):
                default = first + i if i < fanout and index != NO_DEFAULT else NO_DEFAULT
                cell.children.append(_grow(item, (chain, level - 1, default, cell), cells))
    return cell


def devices(cell: Cell, index: int | None = None) -> Iterator[Device]:
    """The devices of a node, those that follow by default included (they stand at the lowest cell that is listed)."""
    index = 0 if index is None else index
    if cell.level == LEAF_LEVEL:
        yield Device(device_index(cell), cell.address or cell.place)
    elif cell.children:
        for child in cell.children:
            yield from devices(child, child.index)
    elif not cell.listed and index != NO_DEFAULT and cell.chain.countable:
        leaves = cell.chain.leaves[cell.level]
        at = cell.address or cell.place
        for number in range(index * leaves, (index + 1) * leaves):
            yield Device(number, at)


def device_index(leaf: Cell) -> int | None:
    """The device index of a leaf cell, None where its address is not one or it has none."""
    name = leaf.name
    return int(name) if name.isascii() and name.isdigit() and len(name) < 12 else None


def names_of_nodes(cell: Cell) -> list[str]:
    """Names of the nodes that a cell consists of, or of the one that it is a part of."""
    if cell.chain.node_level and cell.level < cell.chain.node_level:
        while cell.parent is not None and not cell.is_node:
            cell = cell.parent
    if cell.is_node or not cell.children:
        return [cell.name]
    return [name for child in cell.children for name in names_of_nodes(child)]


def location(cell: Cell) -> str:
    """Where a cell is: its nodes, and below node level the devices in square brackets."""
    where = ", ".join(names_of_nodes(cell))
    if cell.level >= (cell.chain.node_level or cell.chain.top):
        return where
    numbers = sorted(device.number for device in devices(cell, cell.index) if device.number is not None)
    return f"{where}[{','.join(map(str, numbers))}]"
