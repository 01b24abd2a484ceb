"""What the users of leaves lose if they have to go, for one search."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paictl.cells.ids import PhysicalCell
    from paictl.scheduler.groups import Group
    from paictl.scheduler.state import State


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
