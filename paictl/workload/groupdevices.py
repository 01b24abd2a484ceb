"""Devices of groups, added up by whoever holds them and kept by the changes of groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from paictl.scheduler.events import GroupChange

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group

Key = TypeVar("Key", bound=Hashable)


class DevicesBy(ABC, Generic[Key]):
    """Devices of groups by a key of theirs.

    It alone guarantees that the numbers equal the sums over the groups that have a key.
    """

    def __init__(self) -> None:
        self.devices: Counter[Key] = Counter()
        """Whole gangs count, as soon as they have their place. A key without devices is not in it."""
        self._counted: dict[str, tuple[Key, int]] = {}
        """Key and devices of each group that counts."""

    @abstractmethod
    def _key(self, group: Group, before: Key | None) -> Key | None:
        """What a group counts for, and counted for until now; None: it does not count."""

    def start(self, groups: Mapping[str, Group]) -> None:
        """Count anew: these groups there are, and no others."""
        self.devices.clear()
        self._counted.clear()
        for name, group in groups.items():
            self._set(name, group)

    def note(self, outcomes: Iterable[object]) -> None:
        """Groups have changed so."""
        for outcome in outcomes:
            if isinstance(outcome, GroupChange):
                self._set(outcome.name, outcome.after)

    def _set(self, name: str, group: Group | None) -> None:
        before = self._counted.pop(name, None)
        if before is not None:
            self.devices[before[0]] -= before[1]
            if not self.devices[before[0]]:
                del self.devices[before[0]]
        key = None if group is None else self._key(group, None if before is None else before[0])
        if group is not None and key is not None:
            self._counted[name] = key, devices_of(group.members)
            self.devices[key] += devices_of(group.members)


def devices_of(members: Iterable[tuple[int, int]]) -> int:
    """Devices of a whole gang."""
    return sum(size * pods for size, pods in members)
