"""What the users of leaves lose if they have to go, for one search."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from paictl.cells.ids import PhysicalCell
    from paictl.scheduler.groups import Group
    from paictl.scheduler.state import State


class Losses:
    """Losses of whole groups: one falls as soon as one of its leaves is taken, and then costs nothing more."""

    __slots__ = ("_known", "_loss", "_state", "fallen")

    def __init__(self, state: State, loss: Callable[[Group], int]) -> None:
        self._state = state
        self._loss = loss
        self._known: dict[str, int] = {}
        self.fallen: frozenset[str] = frozenset()
        """Groups that go anyway, as far as the search has come."""

    def group(self, name: str) -> int:
        """What a group loses."""
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._loss(self._state.groups.by_name[name])
        return known

    def users(self, leaves: Iterable[PhysicalCell]) -> set[str]:
        """The groups that use some of the leaves."""
        user = self._state.occupancy.user
        return {user[leaf] for leaf in leaves if leaf in user}

    def of(self, leaves: Iterable[PhysicalCell]) -> int:
        """What all users of the leaves lose together, but those that go anyway."""
        return sum(map(self.group, self.users(leaves) - self.fallen))

    def fall(self, leaves: Iterable[PhysicalCell]) -> None:
        """The leaves are taken."""
        self.fallen |= self.users(leaves)
