"""Cell types of a hivedscheduler configuration, and the chains that they form.

A misspelt childCellType is read as the type it most likely means; `CellType.meant` remembers that, for the one rule
that reports it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

from paictl.cells.chain import Levels
from paictl.cells.spec import LEAF_LEVEL
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode
from paictl.frozen import frozen
from paictl.suggestions import nearest

MOST_NAMES = 400
"""Above this many names nobody is asked "did you mean": the comparison with each costs more than it helps."""


def name_under(spec: MappingNode, key: str) -> ScalarNode | None:
    """The name under a key, None for none or an empty one; a number without quotes is a name too (SHP102 warns)."""
    at = spec.scalar(key)
    return at if at is not None and at.tag != "null" and at.text else None


def guess(word: str, known: Iterable[str]) -> str | None:
    """The name that a mistyped word most likely means, or None."""
    return _guess(word, tuple(known))


@cache
def _guess(word: str, known: tuple[str, ...]) -> str | None:
    return nearest(word, known) if len(known) <= MOST_NAMES else None


@frozen
class CellType:
    """One key of `cellTypes`.

    `child` is the type of its children, None where the file does not say; `number` how many they are, 0 where it does
    not say; `meant` the defined type that a misspelt childCellType means (`child` then is that type).
    """

    key: ScalarNode
    spec: MappingNode
    child: str | None
    number: int
    meant: str | None = None

    @property
    def name(self) -> str:
        """Name of the type."""
        return self.key.text

    @property
    def node_level(self) -> ScalarNode | None:
        """The `true` that makes it node-level, also in quotes or under a misspelt key (which the schema reports)."""
        flag = _value_under(self.spec, "isNodeLevel")
        return flag if flag is not None and flag.value not in (False, None, "false") else None


@frozen
class DeclaredChain(Levels):
    """The types below (and with) a top type, as the file has them.

    `node_level` is 0 where not exactly one type is node-level; `countable` is False where some childCellNumber is
    missing, so that `fanout` and `leaves` say nothing.
    """

    node_levels: tuple[int, ...]
    countable: bool

    @property
    def node_level(self) -> int:
        """The level at which a cell is a node, 0 if the file leaves that open."""
        return self.node_levels[0] if len(self.node_levels) == 1 else 0

    def level_of(self, cell_type: str) -> int:
        """Level of a type, 0 if the chain does not have it."""
        return Levels.level_of(self, cell_type) or 0

    def path(self, level: int) -> str:
        """How a virtual cluster names the cells of a level: all types from the top down, joined by dots."""
        return ".".join(reversed(self.types[level:]))

    def pod(self, level: int) -> int:
        """Leaf cells that one pod can have in a cell of a level: those of one node."""
        return min(self.leaves[level], self.leaves[self.node_level or self.top])


class CellTypes:
    """The table of cell types; `by_name` holds those defined, in file order.

    `without_devices` are the leaf types whose cells are only shares of cores and memory (SKUs with
    gpu 0): their indices may be those of devices on the same machine, as OpenPAI's manual has it.
    """

    def __init__(self, physical: MappingNode) -> None:
        specs = physical.mapping("cellTypes")
        self.by_name = {entry.name: _cell_type(entry.key, entry.value) for entry in specs}
        skus = physical.mapping("skuTypes")
        self.without_devices = frozenset(entry.name for entry in skus if _has_no_devices(entry.value))
        self._repair(skus)
        self.leaves = self._leaves()
        self.cycles = tuple(self._cycles())

    def chain(self, top: str) -> DeclaredChain | None:
        """The chain below a defined type; None where it runs in a circle or a childCellType is missing."""
        names = [top]
        seen = {top}
        while (cell_type := self.by_name.get(names[-1])) is not None:
            if cell_type.child is None or cell_type.child in seen:
                return None
            names.append(cell_type.child)
            seen.add(cell_type.child)
        names.reverse()
        fanout, leaves, nodes = [0, 0], [0, 1], []
        for level, name in enumerate(names[1:], LEAF_LEVEL + 1):
            cell_type = self.by_name[name]
            fanout.append(cell_type.number)
            leaves.append(leaves[-1] * cell_type.number)
            if cell_type.node_level is not None:
                nodes.append(level)
        return DeclaredChain(top, ("", *names), tuple(fanout), tuple(leaves), tuple(nodes), 0 not in fanout[2:])

    def _leaves(self) -> dict[str, ScalarNode]:
        """Leaf types, each with the first childCellType that names it."""
        leaves: dict[str, ScalarNode] = {}
        for cell_type in self.by_name.values():
            at = cell_type.spec.scalar("childCellType")
            if at is not None and cell_type.child is not None and cell_type.child not in self.by_name:
                leaves.setdefault(cell_type.child, at)
        return leaves

    def _repair(self, skus: MappingNode) -> None:
        """Read each childCellType that looks like a misspelt type as that type."""
        parents: dict[str, list[str]] = defaultdict(list)
        for name, cell_type in self.by_name.items():
            if cell_type.child is not None:
                parents[cell_type.child].append(name)
        for child in [child for child in parents if child not in self.by_name and child not in skus]:
            above = _above(child, parents)
            meant = guess(child, (name for name in self.by_name if name not in above))
            # A leaf type is told from a typo by its digits: V100-2 and P100-2 are two models, not one misspelt.
            if meant is None or _digits(meant) != _digits(child):
                continue
            for name in parents[child]:
                old = self.by_name[name]
                self.by_name[name] = CellType(old.key, old.spec, meant, old.number, meant)

    def _cycles(self) -> Iterator[tuple[str, ...]]:
        """The circles that types form, each once, ending with the type that closes it (the last in the file)."""
        order = {name: index for index, name in enumerate(self.by_name)}
        done: set[str] = set()
        for start in self.by_name:
            path: dict[str, None] = {}
            name: str | None = start
            while name in self.by_name and name not in done and name not in path:
                path[name] = None
                name = self.by_name[name].child
            if name in path:
                circle = list(path)[list(path).index(name) :]
                last = circle.index(max(circle, key=order.__getitem__))
                yield (*circle[last + 1 :], *circle[: last + 1])
            done.update(path)


def _has_no_devices(sku: Node) -> bool:
    """Whether a leaf cell of a SKU comes with no device: gpu is 0, or left out beside an amount of cores."""
    return isinstance(sku, MappingNode) and (sku.integer("gpu") == 0 or ("gpu" not in sku and "cpu" in sku))


def _cell_type(key: ScalarNode, value: object) -> CellType:
    spec = value if isinstance(value, MappingNode) else MappingNode(key.source, key.end, key.end)
    child = _value_under(spec, "childCellType")
    name = child.text if child is not None and child.tag != "null" and child.text else None
    return CellType(key, spec, name, _number(spec))


def _number(spec: MappingNode) -> int:
    """The childCellNumber, 0 if there is none of use."""
    at = _value_under(spec, "childCellNumber")
    return max(at.value, 0) if at is not None and isinstance(at.value, int) and at.tag == "int" else 0


_KEYS = ("childCellType", "childCellNumber", "isNodeLevel")


def _value_under(spec: MappingNode, key: str) -> ScalarNode | None:
    """The value under a key of a cell type, or under a misspelt one, which the schema reports."""
    if key in spec or all(name in _KEYS for name in spec.entries):
        return spec.scalar(key)
    return next((spec.scalar(name) for name in spec.entries if name not in _KEYS and guess(name, _KEYS) == key), None)


def _above(name: str, parents: dict[str, list[str]]) -> set[str]:
    """All types that contain a type."""
    ancestors: set[str] = set()
    waiting = list(parents.get(name, ()))
    while waiting:
        ancestor = waiting.pop()
        if ancestor not in ancestors:
            ancestors.add(ancestor)
            waiting.extend(parents.get(ancestor, ()))
    return ancestors


def _digits(name: str) -> str:
    return "".join(filter(str.isdigit, name))
