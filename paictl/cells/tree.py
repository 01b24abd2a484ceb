"""The immutable trees of physical and virtual cells.

Cells are dense integers in pre-order, so the subtree of `c` is ``range(c, tree.end(c))`` and every value that
belongs to a cell lives in a list indexed by it. Smaller id means earlier in the configuration, which is how
every tie in the scheduler is broken. All cells of one level of a chain have the same shape, so children
and leaves are arithmetic, not stored lists.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, Generic, cast

from paictl.cells.chain import Chain, build_chains, pinned_levels, preassigned_levels
from paictl.cells.ids import NO_PARENT, NO_PHYSICAL, NO_VIRTUAL, ByCell, C, ChainIndex, PhysicalCell, VirtualCell
from paictl.cells.spec import LEAF_LEVEL, MAX_CELLS, ClusterSpec, PhysicalCellSpec, SpecError
from paictl.frozen import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence


@frozen
class Template:
    """The subtree of any cell of one level of a chain, as offsets from that cell in pre-order."""

    levels: tuple[int, ...]
    parents: tuple[int, ...]
    """Offset of each cell's parent; that of the first is never used."""
    leaves: tuple[int, ...]


def template(chain: Chain, level: int) -> Template:
    """The shape of every cell of `level` in `chain`."""
    if level == LEAF_LEVEL:
        return Template((LEAF_LEVEL,), (0,), (0,))
    below = template(chain, level - 1)
    levels, parents, leaves = [level], [0], []
    for i in range(chain.fanout[level]):
        start = 1 + i * chain.cells[level - 1]
        levels += below.levels
        parents += [0, *(start + offset for offset in below.parents[1:])]
        leaves += [start + offset for offset in below.leaves]
    return Template(tuple(levels), tuple(parents), tuple(leaves))


@frozen
class Tree(Generic[C]):
    """What physical and virtual cells have in common; lists are indexed by cell and must not be changed."""

    chains: tuple[Chain, ...]
    chain: ByCell[C, ChainIndex] = field(default_factory=list)
    """Index into `chains`."""
    level: ByCell[C, int] = field(default_factory=list)
    parent: ByCell[C, C] = field(default_factory=list)
    templates: dict[tuple[ChainIndex, int], Template] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.level)

    def chain_indexes(self) -> Sequence[ChainIndex]:
        """All chains, as other lists are indexed by them."""
        return cast("Sequence[ChainIndex]", range(len(self.chains)))

    def cells(self) -> Sequence[C]:
        """All cells, smallest id first."""
        return cast("Sequence[C]", range(len(self.level)))

    def end(self, cell: C) -> int:
        """One past the last cell of the subtree of `cell`."""
        return cell + self.chains[self.chain[cell]].cells[self.level[cell]]

    def subtree(self, cell: C) -> Sequence[C]:
        """A cell and all cells below it, smallest id first."""
        return cast("Sequence[C]", range(cell, self.end(cell)))

    def children(self, cell: C) -> Sequence[C]:
        """The children of a cell, smallest id first; empty for a leaf."""
        cells = self.chains[self.chain[cell]].cells
        level = self.level[cell]
        # not `cast` here and in `leaves`: the scheduler asks so often that a call without effect would show
        return range(cell + 1, cell + cells[level], cells[level - 1]) if level > LEAF_LEVEL else range(0)  # type: ignore[return-value]

    def shape(self, cell: C) -> Template:
        """The template of a cell's subtree."""
        return self.shape_at(self.chain[cell], self.level[cell])

    def shape_at(self, chain: ChainIndex, level: int) -> Template:
        """The template of any cell of `level` in the chain with index `chain`."""
        shape = self.templates.get((chain, level))
        if shape is None:  # a cache of something immutable: filling it does not change the tree
            shape = self.templates[chain, level] = template(self.chains[chain], level)
        return shape

    def leaves(self, cell: C) -> list[C]:
        """The leaves below a cell (itself if it is one), smallest id first."""
        return [cell + offset for offset in self.shape(cell).leaves]  # type: ignore[misc]

    def type_of(self, cell: C) -> str:
        """Name of the cell's type."""
        return self.chains[self.chain[cell]].types[self.level[cell]]

    def ancestor(self, cell: C, level: int) -> C:
        """The cell of `level` above `cell` (or the cell itself)."""
        while self.level[cell] < level:
            cell = self.parent[cell]
        return cell


@frozen
class PhysicalTree(Tree[PhysicalCell]):
    """The cells of the cluster, in the order of `physicalCells`."""

    rank: ByCell[PhysicalCell, int] = field(default_factory=list)
    """Position of a cell among those of its chain and level; the children of rank r have ranks from r * fanout."""
    at: list[list[list[PhysicalCell]]] = field(default_factory=list)
    """``at[chain][level][rank]`` is the cell."""
    component: ByCell[PhysicalCell, str] = field(default_factory=list)
    """Last part of the cell's address: node name at node level, device index at a leaf."""
    nodes: dict[str, tuple[PhysicalCell, ...]] = field(default_factory=dict)
    """Node-level cells by node name (several if chains share a node)."""
    pinned: dict[str, PhysicalCell] = field(default_factory=dict)
    """Cells by pinned cell id."""

    def address(self, cell: PhysicalCell) -> str:
        """Full address: the components on the path from the top, joined with ``/``."""
        parts = [self.component[cell]]
        while (cell := self.parent[cell]) != NO_PARENT:
            parts.append(self.component[cell])
        return "/".join(reversed(parts))

    def node(self, cell: PhysicalCell) -> PhysicalCell:
        """The node-level cell at or above `cell`."""
        return self.ancestor(cell, self.chains[self.chain[cell]].node_level)

    def node_name(self, cell: PhysicalCell) -> str:
        """Name of the node that a cell at or below node level lies in."""
        return self.component[self.node(cell)]

    def device(self, leaf: PhysicalCell) -> int:
        """Index of a leaf's device within its node."""
        return int(self.component[leaf])

    def node_ranks(self, cell: PhysicalCell) -> range:
        """Ranks, among the chain's node-level cells, of the nodes that `cell` touches."""
        chain = self.chains[self.chain[cell]]
        level = self.level[cell]
        if level <= chain.node_level:
            rank = self.rank[cell] * chain.leaves[level] // chain.leaves[chain.node_level]
            return range(rank, rank + 1)
        nodes = chain.nodes(level)
        return range(self.rank[cell] * nodes, (self.rank[cell] + 1) * nodes)


@frozen
class Preassigned:
    """A top virtual cell: the unit of a VC's quota."""

    cell: VirtualCell
    vc: str
    number: int
    """Its place among the VC's preassigned cells, the last part of its address."""
    pinned_id: str | None


@frozen
class VirtualTree(Tree[VirtualCell]):
    """The cells promised to the VCs, VC by VC in order of declaration."""

    root: ByCell[VirtualCell, VirtualCell] = field(default_factory=list)
    """The preassigned cell above each cell (itself if it is one)."""
    preassigned: dict[VirtualCell, Preassigned] = field(default_factory=dict)
    """By cell, in order of id."""

    def vc(self, cell: VirtualCell) -> str:
        """Name of the VC that a cell belongs to."""
        return self.preassigned[self.root[cell]].vc

    def address(self, cell: VirtualCell) -> str:
        """``<vc>/<number>`` of the preassigned cell, then the running index per level below it."""
        path = []
        while (above := self.parent[cell]) != NO_PARENT:
            path.append((cell - above - 1) // self.chains[self.chain[cell]].cells[self.level[cell]])
            cell = above
        top = self.preassigned[cell]
        parts, index = [top.vc, str(top.number)], 0
        fanout, level = self.chains[self.chain[cell]].fanout, self.level[cell]
        for position in reversed(path):
            index = index * fanout[level] + position
            parts.append(str(index))
            level -= 1
        return "/".join(parts)


def build_physical(spec: ClusterSpec) -> PhysicalTree:
    """The physical tree of a cluster.

    Raises `SpecError` if the declared cells do not match their types (see `paictl.cells.chain`), a leaf's address is
    not a device index, or a device would have two leaf cells: it could be given to two pods at once.
    """
    chains = build_chains(spec)
    tree = PhysicalTree(tuple(chains.values()))
    tree.at.extend([[] for _ in range(chain.top + 1)] for chain in tree.chains)
    index = dict(zip(chains, tree.chain_indexes(), strict=True))
    pinned_levels(spec, chains)  # two cells with one id
    builder = _PhysicalBuilder(tree)
    for i, cell in enumerate(spec.physical_cells):
        builder.start(index[cell.cell_type])
        builder.add(cell, builder.chain.top, i, NO_PHYSICAL, f"physicalCluster.physicalCells[{i}]")
    _check_shared_nodes(spec, tree, builder.places)
    return tree


def _check_shared_nodes(spec: ClusterSpec, tree: PhysicalTree, places: dict[PhysicalCell, str]) -> None:
    """Cells of one node share no device, and a chain has a node once; other leaves are numbered type by type."""
    for name, cells in tree.nodes.items():
        if len(cells) == 1:
            continue
        chains: set[ChainIndex] = set()
        taken: dict[tuple[str, int], str] = {}
        for cell in cells:
            chain, where = tree.chains[tree.chain[cell]], places[cell]
            if tree.chain[cell] in chains:
                raise SpecError(where, f"node {name} is listed twice in the chain {chain.name}", hint=_TWICE)
            chains.add(tree.chain[cell])
            kind = "" if spec.is_device(chain.leaf_type) else chain.leaf_type
            for leaf in tree.leaves(cell):
                other = taken.setdefault((kind, tree.device(leaf)), chain.name)
                if other != chain.name:
                    what = f"device {tree.device(leaf)}" if not kind else f"{kind} {tree.device(leaf)}"
                    raise SpecError(where, f"{what} of node {name} is also in the chain {other}", hint=_TWICE)


_TWICE: Final = "give each device of a node to one cell: choose other addresses, or other names for the nodes"
_MAX_DEVICE_DIGITS: Final = 6


class _PhysicalBuilder:
    """Appends declared cells to a tree under construction, filling in what was left to defaults."""

    def __init__(self, tree: PhysicalTree) -> None:
        self.tree = tree
        self.nodes = tree.nodes
        self.places: dict[PhysicalCell, str] = {}
        """Path in the specification of each node-level cell."""
        self.default_components: dict[int, tuple[str, ...]] = {}

    def start(self, chain: ChainIndex) -> None:
        self.index = chain
        self.chain = self.tree.chains[chain]

    def add(self, spec: PhysicalCellSpec | None, level: int, default: int, parent: PhysicalCell, path: str) -> None:
        """Append a cell and its subtree; `default` is the index that makes its address if none is given."""
        tree, chain, cell = self.tree, self.chain, PhysicalCell(len(self.tree))
        component = str(default) if spec is None or spec.address is None else spec.address
        self._append(cell, level, component, parent)
        if spec is not None and spec.pinned_id is not None:
            tree.pinned[spec.pinned_id] = cell
        if level == LEAF_LEVEL:
            if not (component.isascii() and component.isdecimal() and len(component) <= _MAX_DEVICE_DIGITS):
                raise SpecError(path, f"address of a leaf cell must be its device index, is {component[:40]}")
            return
        if level == chain.node_level:
            self.nodes[component] = (*self.nodes.get(component, ()), cell)
            self.places[cell] = path
            default = 0  # running indices start anew in a node, so that leaves get device indices
            if spec is None or not spec.children:
                self._append_below_node(cell)
                return
        children: Sequence[PhysicalCellSpec | None] = (spec.children if spec else ()) or [None] * chain.fanout[level]
        for i, child in enumerate(children):
            where = path if child is None else f"{path}.cellChildren[{i}]"
            self.add(child, level - 1, default * chain.fanout[level] + i, cell, where)
        if level == chain.node_level:
            self._check_devices(cell, path)

    def _check_devices(self, node: PhysicalCell, path: str) -> None:
        """The leaves of a node, which were declared one by one, have different addresses."""
        tree, seen = self.tree, set[int]()
        for leaf in tree.leaves(node):
            device = tree.device(leaf)
            if device in seen:
                message = f"two {self.chain.leaf_type} cells of node {tree.component[node]} have the address {device}"
                raise SpecError(path, message, hint="addresses of leaf cells are device indices, each once in a node")
            seen.add(device)

    def _append(self, cell: PhysicalCell, level: int, component: str, parent: PhysicalCell) -> None:
        tree = self.tree
        row = tree.at[self.index][level]
        tree.rank.append(len(row))
        row.append(cell)
        tree.chain.append(self.index)
        tree.parent.append(parent)
        tree.component.append(component)
        tree.level.append(level)  # last: the tree's length is that of `level`

    def _append_below_node(self, node: PhysicalCell) -> None:
        """The undeclared inside of a node, which is the same for all nodes of the chain."""
        tree, shape = self.tree, self.tree.shape(node)
        rows, cells = tree.at[self.index], list(tree.subtree(node))
        for cell, level in zip(cells[1:], shape.levels[1:], strict=True):
            row = rows[level]
            tree.rank.append(len(row))
            row.append(cell)
        tree.chain.extend([self.index] * (len(shape.levels) - 1))
        tree.parent.extend([cells[above] for above in shape.parents[1:]])
        tree.component.extend(self._components())
        tree.level.extend(shape.levels[1:])

    def _components(self) -> tuple[str, ...]:
        components = self.default_components.get(self.index)
        if components is None:
            seen = [0] * (self.chain.node_level + 1)
            out = []
            for level in self.tree.shape_at(self.index, self.chain.node_level).levels[1:]:
                out.append(str(seen[level]))
                seen[level] += 1
            components = self.default_components[self.index] = tuple(out)
        return components


def build_virtual(spec: ClusterSpec, physical: PhysicalTree) -> VirtualTree:
    """The virtual tree of a cluster.

    Raises `SpecError` if a VC names a type or pinned cell that does not exist, or two VCs name the same pinned
    cell, or one pinned cell lies inside another, or there are more than `MAX_CELLS` cells.
    """
    chains = {chain.name: chain for chain in physical.chains}
    index = dict(zip(chains, physical.chain_indexes(), strict=True))
    pinned = pinned_levels(spec, chains)
    tree = VirtualTree(physical.chains, templates=physical.templates)
    owner: dict[str, str] = {}
    for vc in spec.virtual_clusters:
        for number, (chain_name, level, pinned_id) in enumerate(preassigned_levels(vc, chains, pinned)):
            if pinned_id is not None:
                where = f"virtualClusters.{vc.name}.pinnedCells"
                if pinned_id in owner:
                    raise SpecError(where, f"pinned cell {pinned_id} already belongs to VC {owner[pinned_id]}")
                owner[pinned_id] = vc.name
            cell, shape = VirtualCell(len(tree)), tree.shape_at(index[chain_name], level)
            size = len(shape.levels)
            if cell + size > MAX_CELLS:
                raise SpecError(
                    f"virtualClusters.{vc.name}", f"with it the VCs would have more than {MAX_CELLS:,} cells"
                )
            tree.preassigned[cell] = Preassigned(cell, vc.name, number, pinned_id)
            tree.chain.extend([index[chain_name]] * size)
            tree.level.extend(shape.levels)
            tree.root.extend([cell] * size)
            cells = list(tree.subtree(cell))
            tree.parent.append(NO_VIRTUAL)
            tree.parent.extend([cells[above] for above in shape.parents[1:]])
    _check_nesting(physical, owner)
    return tree


def _check_nesting(physical: PhysicalTree, owner: dict[str, str]) -> None:
    """A pinned cell that some VC owns must not lie inside another such cell."""
    owned = {physical.pinned[pinned_id]: pinned_id for pinned_id in owner}
    for cell, pinned_id in owned.items():
        above = cell
        while (above := physical.parent[above]) != NO_PARENT:
            if above in owned:
                raise SpecError(
                    f"virtualClusters.{owner[pinned_id]}.pinnedCells",
                    f"pinned cell {pinned_id} lies inside pinned cell {owned[above]}",
                )
