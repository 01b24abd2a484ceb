"""Cells put together from nodes, from the bottom up: a cell has parts of one look only, so that unlike parts are cells
of their own."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from paictl.config.making.discovered import DiscoveredNode
from paictl.frozen import frozen

_PREFIXES: Final = re.compile(r"^(GCE-TOPOLOGY-|TOPOLOGY-|NETWORK-NODE-|RDMA-)|(-ID)$")


@frozen
class DraftCell:
    """A physical cell above the devices; a node has no children here, but its name as `address`."""

    type: str
    address: str
    children: tuple[DraftCell, ...] = ()


@frozen
class DraftType:
    """A cell type."""

    child: str
    number: int
    is_node: bool = False


@dataclass
class CellShape:
    """A cell that is being put together: what it looks like, where it is, and once that is known its type."""

    level: str
    count: int
    parts: tuple[CellShape, ...]
    nodes: list[DiscoveredNode]
    labels: Mapping[str, str]
    address: str
    per_switch: int = 0
    """Devices of a node that are near each other: under one switch, or instances of one GPU (then `divided`)."""
    divided: bool = False
    type: str = ""
    ending: str = ""
    """What tells its type from others of its level."""

    @classmethod
    def of_node(cls, node: DiscoveredNode, leaf: str) -> CellShape:
        """A node whose devices are cells of the type `leaf`."""
        switched = 1 < node.per_switch < node.devices and node.devices % node.per_switch == 0
        near = node.per_switch if switched else 0
        return cls("NODE", node.devices, (), [node], node.labels, node.name, near, node.instances > 0, leaf)

    @property
    def look(self) -> tuple[object, ...]:
        """What makes two cells be of one type."""
        return self.level, self.count, self.per_switch, self.parts[0].look if self.parts else ()

    @property
    def leaves(self) -> int:
        """Devices."""
        return sum(node.devices for node in self.nodes)

    def cell(self) -> DraftCell:
        """As it is written down, once types have names."""
        return DraftCell(self.type, self.address, tuple(part.cell() for part in self.parts))

    def line(self, leaf: str, types: dict[str, DraftType]) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The cell types from here down and their devices; `types` gets those that it does not have."""
        if self.parts:
            below, leaves = self.parts[0].line(leaf, types)
            types[self.type] = DraftType(below[0], self.count)
            return (self.type, *below), (self.leaves, *leaves)
        if self.per_switch:
            switch = f"{leaf}-SWITCH" if self.per_switch == 2 else f"{leaf}-SWITCH-{self.per_switch}"
            if self.divided:
                switch = f"{leaf}-GPU"
            types[switch] = DraftType(leaf, self.per_switch)
            types[self.type] = DraftType(switch, self.count // self.per_switch, True)
            return (self.type, switch, leaf), (self.count, self.per_switch, 1)
        types[self.type] = DraftType(leaf, self.count, True)
        return (self.type, leaf), (self.count, 1)


def joined(shapes: Sequence[CellShape], level: str, address: str) -> list[CellShape]:
    """One cell for each look of its parts, in the order in which they come."""
    by_look: dict[tuple[object, ...], list[CellShape]] = defaultdict(list)
    for shape in shapes:
        by_look[shape.look].append(shape)
    return [
        CellShape(
            level, len(parts), tuple(parts), [node for part in parts for node in part.nodes], parts[0].labels, address
        )
        for parts in by_look.values()
    ]


def name_types(leaf: str, shapes: Iterable[CellShape]) -> None:
    """Give all cells the name of their type: device and level, and where that is not enough what they are made of."""
    below = list(shapes)
    levels = [below]
    while below := [part for shape in below for part in shape.parts]:
        levels.append(below)
    for members in reversed(levels):  # a cell may be told from others by its parts only
        by_look: dict[tuple[object, ...], list[CellShape]] = defaultdict(list)
        for shape in members:
            by_look[shape.look].append(shape)
        offers = zip(*(_endings(alike[0]) for alike in by_look.values()), strict=True)
        for alike, ending in zip(by_look.values(), next(offer for offer in offers if _differ(offer)), strict=True):
            for shape in alike:
                shape.ending, shape.type = ending, f"{leaf}-{shape.level}{ending}"


def _endings(shape: CellShape) -> tuple[str, ...]:
    """What may tell a cell type from others of its level, the plainest first; the last always does."""
    if not shape.parts:
        return "", f"-{shape.count}", f"-{shape.count}-{f'BY-{shape.per_switch}' if shape.per_switch else 'FLAT'}"
    part = shape.parts[0]
    return "", f"-{shape.count}", f"-{shape.count}{part.ending}"


def _differ(endings: Sequence[str]) -> bool:
    return len(set(endings)) == len(endings)


def useful(nodes: Sequence[DiscoveredNode], levels: Sequence[str]) -> list[str]:
    """The levels that tell nodes apart, and not each from every other."""
    labels: list[str] = []
    before = 1
    for label in levels:
        domains = len({tuple(node.labels[name] for name in (*labels, label)) for node in nodes})
        if before < domains < len(nodes):
            labels.append(label)
            before = domains
    return labels


def level_names(labels: Sequence[str]) -> dict[str, str]:
    """The part of cell types' names that stands for each label: ``RACK`` for ``cloud.provider.com/topology-rack``."""
    names: dict[str, str] = {}
    for label in labels:
        name = base = _PREFIXES.sub("", word(label.rpartition("/")[2]).upper()) or "LEVEL"
        number = 1
        while name in ("NODE", "SWITCH", "POOL", *names.values()):
            number += 1
            name = f"{base}-{number}"
        names[label] = name
    return names


def word(text: str) -> str:
    """A text as part of a name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which n2 comes before n10."""
    return tuple((1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", text))
