"""Chains: the cell types under one top-level type, level by level, and the checks that make them sound."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from paictl.cells.spec import (
    LEAF_LEVEL,
    MAX_CELLS,
    MAX_LEVELS,
    CellTypeSpec,
    ClusterSpec,
    PhysicalCellSpec,
    SpecError,
    VirtualClusterSpec,
)
from paictl.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping


@frozen
class Levels:
    """The cell types below (and with) one top-level type, also of a configuration that may be wrong.

    Every tuple is indexed by level and has an unused entry 0, so that ``types[1]`` is the leaf type and
    ``types[top]`` the chain's own name. All cells of a level have the same shape.
    """

    name: str
    types: tuple[str, ...]
    fanout: tuple[int, ...]
    """Children of a cell at each level; 0 for a leaf."""
    leaves: tuple[int, ...]
    """Leaf cells in the subtree of a cell at each level."""

    @property
    def top(self) -> int:
        """Level of the chain's top-level cells."""
        return len(self.types) - 1

    @property
    def leaf_type(self) -> str:
        """The leaf cell type, that is, the kind of device."""
        return self.types[LEAF_LEVEL]

    def level_of(self, cell_type: str) -> int | None:
        """Level of a cell type in this chain, None if the chain does not have it."""
        return self.types.index(cell_type, LEAF_LEVEL) if cell_type in self.types[LEAF_LEVEL:] else None


@frozen
class Chain(Levels):
    """Levels that are sound, one of them that of nodes."""

    cells: tuple[int, ...]
    """Cells in the subtree of a cell at each level, itself included."""
    node_level: int
    """The level at which a cell is one node."""
    instances: int = 0
    """MIG instances of each GPU where the leaf cells are these (`ClusterSpec.mig_instances`); 0 for whole GPUs."""

    def nodes(self, level: int) -> int:
        """How many nodes a cell of `level` touches (1 at and below node level)."""
        return max(1, self.leaves[level] // self.leaves[self.node_level])


def build_chain(name: str, cell_types: Mapping[str, CellTypeSpec], path: str) -> Chain:
    """The chain under the type `name`.

    Raises `SpecError` (at `path`) if the types run in a circle, if the top is itself a leaf cell type, if
    not exactly one type of the chain is node-level, or if there are absurdly many levels or cells.
    """
    types = [name]
    while (spec := cell_types.get(types[-1])) is not None:
        if spec.child_type in types:
            raise SpecError(path, f"cell types contain each other in a cycle: {' > '.join([*types, spec.child_type])}")
        types.append(spec.child_type)
        if len(types) > MAX_LEVELS:
            raise SpecError(path, f"the chain {name} has more than {MAX_LEVELS} levels")
    if len(types) == 1:
        raise SpecError(path, f"cell type {name} is not defined in cellTypes", hint="define it, or fix the name")
    types.reverse()
    nodes = [level for level, kind in enumerate(types, 1) if kind in cell_types and cell_types[kind].is_node_level]
    if len(nodes) != 1:
        actual = "none is" if not nodes else f"{', '.join(types[level - 1] for level in nodes)} are"
        raise SpecError(path, f"exactly one type of the chain {name} must be node-level, {actual}")
    fanout, cells, leaves = [0, 0], [0, 1], [0, 1]
    for kind in types[1:]:
        number = cell_types[kind].child_number
        fanout.append(number)
        cells.append(1 + number * cells[-1])
        leaves.append(number * leaves[-1])
        if cells[-1] > MAX_CELLS:
            where = f"physicalCluster.cellTypes.{kind}.childCellNumber"
            raise SpecError(where, f"one {kind} would have {_more_cells(cells[-1])}", hint=_TOO_LARGE)
    return Chain(name, ("", *types), tuple(fanout), tuple(leaves), tuple(cells), nodes[0])


_TOO_LARGE = "check childCellNumber of the types and the number of cells: they multiply"


def _more_cells(number: int) -> str:
    return f"{number:,} cells of all levels, a cluster may have {MAX_CELLS:,}"


def build_chains(spec: ClusterSpec) -> dict[str, Chain]:
    """All chains of a cluster by name, in order of first appearance in `physicalCells`.

    Raises `SpecError` naming the field if a declared cell does not have the shape of its type, or there are too many.
    """
    chains: dict[str, Chain] = {}
    total = 0
    for i, cell in enumerate(spec.physical_cells):
        path = f"physicalCluster.physicalCells[{i}]"
        chain = chains.get(cell.cell_type)
        if chain is None:
            chain = build_chain(cell.cell_type, spec.cell_types, f"{path}.cellType")
            chain = chains[cell.cell_type] = replace(chain, instances=spec.mig_instances(cell.cell_type))
        _check_shape(cell, chain, chain.top, path)
        total += chain.cells[chain.top]
        if total > MAX_CELLS:
            raise SpecError(path, f"with it the cluster would have {_more_cells(total)}", hint=_TOO_LARGE)
    return chains


def _check_shape(cell: PhysicalCellSpec, chain: Chain, level: int, path: str) -> None:
    if cell.cell_type not in ("", chain.types[level]):
        raise SpecError(
            f"{path}.cellType", f"is {cell.cell_type}, but its place in the chain makes it a {chain.types[level]}"
        )
    if not cell.children:
        return
    if len(cell.children) != chain.fanout[level]:
        raise SpecError(
            f"{path}.cellChildren",
            f"cells below each {chain.types[level]}: {chain.fanout[level]} by its type, {len(cell.children)} listed",
        )
    for i, child in enumerate(cell.children):
        _check_shape(child, chain, level - 1, f"{path}.cellChildren[{i}]")


def pinned_levels(spec: ClusterSpec, chains: Mapping[str, Chain]) -> dict[str, tuple[str, int]]:
    """Chain and level of every pinned physical cell by its pinned cell id.

    Raises `SpecError` if an id is given to two cells.
    """
    levels: dict[str, tuple[str, int]] = {}

    def walk(cell: PhysicalCellSpec, chain: Chain, level: int, path: str) -> None:
        if cell.pinned_id is not None:
            if cell.pinned_id in levels:
                raise SpecError(f"{path}.pinnedCellId", f"{cell.pinned_id} is already given to another cell")
            levels[cell.pinned_id] = (chain.name, level)
        for i, child in enumerate(cell.children):
            walk(child, chain, level - 1, f"{path}.cellChildren[{i}]")

    for i, cell in enumerate(spec.physical_cells):
        chain = chains[cell.cell_type]
        walk(cell, chain, chain.top, f"physicalCluster.physicalCells[{i}]")
    return levels


def preassigned_levels(
    vc: VirtualClusterSpec, chains: Mapping[str, Chain], pinned: Mapping[str, tuple[str, int]]
) -> list[tuple[str, int, str | None]]:
    """Chain, level and pinned cell id (or None) of each preassigned cell of a virtual cluster, in address order.

    Raises `SpecError` if a cell type path does not lie in a chain, a pinned cell does not exist, or there are too many.
    """
    path = f"virtualClusters.{vc.name}"
    out: list[tuple[str, int, str | None]] = []
    total = 0
    for i, cell in enumerate(vc.cells):
        where = f"{path}.virtualCells[{i}].cellType"
        chain = chains.get(cell.chain)
        if chain is None:
            raise SpecError(
                where, f"no physical cell belongs to the chain {cell.chain}", hint="start with a top-level cell type"
            )
        level = chain.level_of(cell.cell_type)
        if level is None:
            raise SpecError(where, f"cell type {cell.cell_type} is not in the chain {chain.name}")
        total += cell.number * chain.cells[level]
        if total > MAX_CELLS:
            raise SpecError(f"{path}.virtualCells[{i}].cellNumber", f"with it the VC would have {_more_cells(total)}")
        out.extend([(chain.name, level, None)] * cell.number)
    for i, pinned_id in enumerate(vc.pinned_ids):
        if pinned_id not in pinned:
            raise SpecError(f"{path}.pinnedCells[{i}].pinnedCellId", f"no physical cell is pinned as {pinned_id}")
        out.append((*pinned[pinned_id], pinned_id))
    return out
