"""A hivedscheduler configuration as its rules, the capacity report and other files' rules see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from paictl.cells.spec import MIG_INSTANCES, MOST_INSTANCES
from paictl.config.models import per_document
from paictl.config.models.hived_cells import Cell, grow
from paictl.config.models.hived_promises import Promise, Reader
from paictl.config.models.hived_types import CellTypes, DeclaredChain, guess, name_under
from paictl.config.reading.document import Document
from paictl.config.reading.nodes import MappingNode, ScalarNode
from paictl.frozen import frozen


@frozen
class TopCell:
    """An entry of `physicalCells`.

    `cell` is None where its type leads nowhere; `meant` is the defined type that a misspelt one means.
    """

    at: ScalarNode
    cell: Cell | None
    meant: str | None = None


class HivedConfig:
    """The whole file; lists stand in file order.

    `chains` maps the top types in use to their chains, None for one whose types run in a circle or are incomplete;
    `cells` are all physical cells that the file lists.
    """

    def __init__(self, document: Document) -> None:
        top = document.top
        self.physical = top.mapping("physicalCluster")
        self.skus = self.physical.mapping("skuTypes")
        if "skuTypes" not in self.physical:
            self.skus = self.physical.mapping("gpuTypes")  # its name before HiveD 0.3
        self.types = CellTypes(self.physical)
        self.chains: dict[str, DeclaredChain | None] = {}
        self.cells: list[Cell] = []
        entries = [spec for spec in self.physical.sequence("physicalCells").items if isinstance(spec, MappingNode)]
        self.untyped = any(name_under(spec, "cellType") is None for spec in entries)
        """Whether a physical cell does not say its type: it may be of any that seems to be unused."""
        self.tops = [
            self._top(index, spec, at)
            for index, spec in enumerate(self.physical.sequence("physicalCells").items)
            if isinstance(spec, MappingNode) and (at := name_under(spec, "cellType")) is not None
        ]
        reader = Reader(self.types, self.chains, self.pins)
        self.vcs = [reader.read(entry.key, entry.value) for entry in top.mapping("virtualClusters")]

    def _top(self, index: int, spec: MappingNode, at: ScalarNode) -> TopCell:
        name, meant = at.text, None
        if name not in self.types.by_name:
            meant = None if name in self.types.leaves else guess(name, self.types.by_name)
            if meant is None:
                return TopCell(at, None)
            name = meant
        if name not in self.chains:
            self.chains[name] = self.types.chain(name)
        chain = self.chains[name]
        return TopCell(at, None if chain is None else grow(spec, chain, index, self.cells), meant)

    @property
    def sound_chains(self) -> Iterator[DeclaredChain]:
        """The chains whose types are known from top to leaf."""
        return (chain for chain in self.chains.values() if chain is not None)

    def mig_instances(self, leaf_type: str) -> int:
        """MIG instances that each GPU is divided into where leaf cells of this type are these; 0 for whole GPUs."""
        declared = self.skus.mapping(leaf_type).integer(MIG_INSTANCES) or 0
        return declared if 0 < declared <= MOST_INSTANCES else 0

    @cached_property
    def nodes(self) -> list[Cell]:
        """The cells that are nodes."""
        return [cell for cell in self.cells if cell.is_node]

    @cached_property
    def pins(self) -> dict[str, Cell]:
        """The pinned cells by id; of an id given twice the first."""
        by_id: dict[str, Cell] = {}
        for cell in self.cells:
            pin = cell.pin
            if pin is not None:
                by_id.setdefault(pin.text, cell)
        return by_id

    @cached_property
    def promises(self) -> list[Promise]:
        """What all virtual clusters are promised."""
        return [promise for vc in self.vcs for promise in vc.promises]

    @cached_property
    def claimed(self) -> dict[Cell, Promise]:
        """The pinned cells that a virtual cluster names, with the first that does."""
        claims: dict[Cell, Promise] = {}
        for promise in self.promises:
            if promise.pinned is not None:
                claims.setdefault(promise.pinned, promise)
        return claims

    def claimed_around(self, cell: Cell) -> Cell | None:
        """The claimed pinned cell that another one lies in, or None."""
        above = cell.parent
        while above is not None and above not in self.claimed:
            above = above.parent
        return above

    @cached_property
    def tops_by_chain(self) -> dict[str, list[Cell]]:
        """The top cells of each sound chain."""
        tops: dict[str, list[Cell]] = {chain.name: [] for chain in self.sound_chains}
        for top in self.tops:
            if top.cell is not None:
                tops[top.cell.chain.name].append(top.cell)
        return tops

    @cached_property
    def node_names(self) -> Counter[str]:
        """Names of the nodes that are written, with how often each stands in the file."""
        return Counter(cell.name for cell in self.nodes if cell.address is not None)


@per_document
def hived(document: Document) -> HivedConfig:
    """The hivedscheduler configuration in a document of that kind."""
    return HivedConfig(document)
