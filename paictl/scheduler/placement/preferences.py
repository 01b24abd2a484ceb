"""What one search goes by beside the views: nodes that kube-scheduler offers, and what users of leaves would lose."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from paictl.cells.ids import ChainIndex, PhysicalCell
    from paictl.cells.tree import PhysicalTree
    from paictl.scheduler.groups import Group
    from paictl.scheduler.state import State


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


class Losses:
    """Losses of whole groups: a group falls as soon as one of its leaves is taken, and then costs nothing more."""

    __slots__ = ("_loss", "_loss_of", "_state", "fallen", "in_parts")

    def __init__(self, state: State, loss: Callable[[Group], int]) -> None:
        self._state = state
        self._loss = loss
        self._loss_of: dict[str, int] = {}
        self.in_parts = False
        """Whether a leaf costs only its share of its group's loss: the search may use the other leaves as well."""
        self.fallen: frozenset[str] = frozenset()
        """Groups that have to go for the leaves taken so far."""

    def group(self, name: str) -> int:
        """What a group loses."""
        loss = self._loss_of.get(name)
        if loss is None:
            loss = self._loss_of[name] = self._loss(self._state.groups.by_name[name])
        return loss

    def users(self, leaves: Iterable[PhysicalCell]) -> set[str]:
        """The groups that use some of the leaves."""
        user = self._state.occupancy.user
        return {user[leaf] for leaf in leaves if leaf in user}

    def of(self, leaves: Iterable[PhysicalCell]) -> int:
        """What all users of the leaves lose together, without those that have fallen."""
        if self.in_parts:
            user = self._state.occupancy.user
            counts = Counter(user[leaf] for leaf in leaves if leaf in user and user[leaf] not in self.fallen)
            return sum(self.group(name) * taken // self._size(name) for name, taken in counts.items())
        return sum(map(self.group, self.users(leaves) - self.fallen))

    def _size(self, name: str) -> int:
        return sum(size * pods for size, pods in self._state.groups.by_name[name].members)

    def fall(self, leaves: Iterable[PhysicalCell]) -> None:
        """The leaves are taken."""
        self.fallen |= self.users(leaves)
