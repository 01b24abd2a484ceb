"""Virtual clusters of a hivedscheduler configuration: what each is promised, and whether the words lead anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Table
from dataclasses import dataclass
from enum import Enum, auto

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.models.hived_cells import Cell
from paictl.config.models.hived_types import CellTypes, DeclaredChain, guess, name_under
from paictl.config.reading.nodes import MappingNode, Node, ScalarNode
from paictl.config.reading.source import Located, Span
from paictl.frozen import frozen


class PathRole(Enum):
    """What a component of a cell path is for."""

    CHAIN = auto()
    BETWEEN = auto()
    END = auto()


@frozen
class PathFault:
    """A component of a cell path that is wrong.

    `expected` is the text that belongs in its place where only one can be meant; `before` the component before it;
    `chain` the chain that the path is read in, None where there is none.
    """

    at: Located
    word: str
    role: PathRole
    expected: str | None = None
    before: str = ""
    chain: DeclaredChain | None = None

    @property
    def exact(self) -> bool:
        """Whether the place holds the component and nothing else, so that it can be replaced."""
        return self.at.source.text[self.at.start : self.at.end] == self.word


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """Cells that a virtual cluster is promised: `number` cells of a level, or one pinned cell.

    `at` is the scalar that names them. `chain` is None and `level` 0 where that leads nowhere; `pinned` is the
    physical cell of a pinned one.
    """

    vc: str
    at: ScalarNode
    chain: DeclaredChain | None
    level: int
    number: int
    number_at: Located
    faults: tuple[PathFault, ...] = ()
    pin_id: str | None = None
    pinned: Cell | None = None
    meant: str | None = None

    @property
    def type(self) -> str:
        """Name of the promised cell type; only where there is a chain and a level."""
        return self.chain.types[self.level] if self.chain is not None else ""


@frozen
class VirtualCluster:
    """One tenant: its `promises` in file order, virtual cells first."""

    key: ScalarNode
    spec: MappingNode
    promises: tuple[Promise, ...]

    @property
    def name(self) -> str:
        """Name of the virtual cluster."""
        return self.key.text

    @property
    def misplaced(self) -> Iterator[tuple[MappingNode, ScalarNode]]:
        """Entries of `virtualCells` that hold pinned cells (HiveD issue: they are ignored there), with the key."""
        for entry in self.spec.sequence("virtualCells").mappings():
            for key in ("pinnedCells", "pinnedCellId", "reservedCells"):
                at = entry.key(key)
                if at is not None:
                    yield entry, at


class Reader:
    """Reads the promises of virtual clusters against the chains and pinned cells that exist."""

    def __init__(self, types: CellTypes, chains: Table[str, DeclaredChain | None], pins: Table[str, Cell]) -> None:
        self.types = types
        self.chains = chains
        self.pins = pins
        self.sound = [chain for chain in chains.values() if chain is not None]
        self.dotted = [name for name in types.by_name if "." in name]

    def read(self, key: ScalarNode, node: Node) -> VirtualCluster:
        """A virtual cluster."""
        spec = node if isinstance(node, MappingNode) else MappingNode(key.source, key.end, key.end)
        promises = [
            self._virtual(key.text, entry, path)
            for entry in spec.sequence("virtualCells").mappings()
            if (path := name_under(entry, "cellType")) is not None
        ]
        for list_name, id_name in (("pinnedCells", "pinnedCellId"), ("reservedCells", "reservationId")):
            for entry in spec.sequence(list_name).mappings():
                at = name_under(entry, id_name) or name_under(entry, "reservationId")
                if at is not None:
                    promises.append(self._pinned(key.text, at))
        return VirtualCluster(key, spec, tuple(promises))

    def _virtual(self, vc: str, entry: MappingNode, path: ScalarNode) -> Promise:
        chain, level, faults = self._walk(path)
        number = entry.integer("cellNumber")
        at = entry.get("cellNumber") or path
        return Promise(vc, path, chain, level, max(number or 0, 0), at, faults)

    def _pinned(self, vc: str, at: ScalarNode) -> Promise:
        cell = self.pins.get(at.text)
        meant = guess(at.text, self.pins) if cell is None else None
        target = cell or self.pins.get(meant or "")
        if target is None:
            return Promise(vc, at, None, 0, 1, at, pin_id=at.text)
        return Promise(vc, at, target.chain, target.level, 1, at, pin_id=at.text, pinned=target, meant=meant)

    def _walk(self, path: ScalarNode) -> tuple[DeclaredChain | None, int, tuple[PathFault, ...]]:
        """(chain, level, faults) of a cell path; the level is 0 where its last component names no type."""
        if any(name in path.text for name in self.dotted):
            return None, 0, ()  # a dot in a type's name has a rule of its own
        parts = list(_parts(path))
        word, at = parts[0]
        if word in self.chains:
            chain, faults = self.chains[word], []
        else:
            chain, fault = self._meant(word, at)
            faults = [fault]
            if chain is not None and word in chain.types:
                parts.insert(0, (chain.name, at))  # the path is right, but starts too low
        if chain is None:
            return None, 0, tuple(faults)
        level = chain.top
        for i, (word, at) in enumerate(parts[1:], 1):
            role = PathRole.END if i == len(parts) - 1 else PathRole.BETWEEN
            level, fault_here = self._step(chain, level, (word, at), role)
            if fault_here is not None and not (faults and faults[0].at is at):
                faults.append(fault_here)
        return chain, level, tuple(faults)

    def _meant(self, word: str, at: Located) -> tuple[DeclaredChain | None, PathFault]:
        """The chain that a wrong first component means."""
        holding = [chain for chain in self.sound if chain.level_of(word)]
        if holding:
            chain = holding[0]
            expected = chain.path(chain.level_of(word)) if len(holding) == 1 else None
            return (chain if len(holding) == 1 else None), PathFault(at, word, PathRole.CHAIN, expected, chain=chain)
        near = guess(word, self.chains)
        return self.chains.get(near or ""), PathFault(at, word, PathRole.CHAIN, near)

    def _step(
        self, chain: DeclaredChain, level: int, part: tuple[str, Located], role: PathRole
    ) -> tuple[int, PathFault | None]:
        """One component down: the new level and what is wrong with the component."""
        word, at = part
        before = chain.types[level] if level else ""
        if level == 0:
            return 0, None  # what stands behind a component that leads nowhere cannot be judged
        target = chain.level_of(word)
        if target == level - 1 and target >= LEAF_LEVEL:
            return target, None
        if LEAF_LEVEL <= target < level:  # types in between are left out
            expected = ".".join(reversed(chain.types[target:level]))
            return target, PathFault(at, word, role, expected, before, chain)
        near = None if target else guess(word, chain.types[LEAF_LEVEL:level])
        if near is not None:
            return chain.level_of(near), PathFault(at, word, role, near, before, chain)
        return (level if role is PathRole.BETWEEN else target), PathFault(at, word, role, None, before, chain)


def _parts(path: ScalarNode) -> Iterator[tuple[str, Located]]:
    """The components of a cell path with their places (the whole scalar where quotes or folds shift them)."""
    offset = path.start + (0 if path.plain else 1)
    written = path.source.text
    for word in path.text.split("."):
        end = offset + len(word)
        exact = bool(word) and written[offset:end] == word
        yield word, Span(path.source, offset, end) if exact else path
        offset = end + 1
