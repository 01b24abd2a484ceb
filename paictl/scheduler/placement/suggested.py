"""The nodes that kube-scheduler offers in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from paictl.cells.ids import ChainIndex, PhysicalCell
    from paictl.cells.tree import PhysicalTree


class Suggested:
    """A set of node names, asked by cell."""

    __slots__ = ("masks", "names", "tree")

    def __init__(self, names: AbstractSet[str], tree: PhysicalTree) -> None:
        self.names = names
        self.tree = tree
        self.masks: dict[ChainIndex, int] = {}

    def node(self, cell: PhysicalCell) -> bool:
        """Whether the first node of a cell is suggested."""
        tree = self.tree
        return tree.component[tree.at[tree.chain[cell]][self._node_level(cell)][tree.node_ranks(cell)[0]]] in self.names

    def any(self, cell: PhysicalCell) -> bool:
        """Whether some node of a cell is suggested."""
        ranks = self.tree.node_ranks(cell)
        return bool(self._mask(self.tree.chain[cell]) >> ranks.start & (1 << len(ranks)) - 1)

    def _node_level(self, cell: PhysicalCell) -> int:
        return self.tree.chains[self.tree.chain[cell]].node_level

    def _mask(self, chain: ChainIndex) -> int:
        """The suggested nodes of a chain as a set of ranks, made when first asked for."""
        mask = self.masks.get(chain)
        if mask is None:
            mask, tree = 0, self.tree
            for name in self.names:
                for cell in tree.nodes.get(name, ()):
                    if tree.chain[cell] == chain:
                        mask |= 1 << tree.rank[cell]
            self.masks[chain] = mask
        return mask
