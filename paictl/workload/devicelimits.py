"""Limits on devices: what a user holds, what a tenant borrows, what new gangs leave free for repairs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.scheduler.events import GroupChange
from paictl.workload.budgets import EACH

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group


Key = TypeVar("Key", bound=Hashable)
EMPTY: Final[Mapping[str, int]] = {}
"""A plain dict, as a mapping proxy cannot be written into a snapshot of the simulator."""


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
        before = self._counted.get(name)
        key = None if group is None else self._key(group, None if before is None else before[0])
        after = None if group is None or key is None else (key, devices_of(group.members))
        if after == before:  # it never counts here, or one of its pods came or went
            return
        if before is not None:
            del self._counted[name]
            left = self.devices[before[0]] - before[1]
            if left:
                self.devices[before[0]] = left
            else:
                del self.devices[before[0]]
        if after is not None:
            self._counted[name] = after
            self.devices[after[0]] += after[1]


def devices_of(members: Iterable[tuple[int, int]]) -> int:
    """Devices of a whole gang."""
    total = 0
    for size, pods in members:  # a decision asks several times, and a generator costs more than the sum
        total += size * pods
    return total


@frozen
class UserLimit:
    """Devices with a guarantee that a user (or each) may hold in a virtual cluster at a time."""

    vc: str
    user: str
    devices: int


class UserLimits:
    """All limits of a cluster."""

    def __init__(self, limits: Iterable[UserLimit] = ()) -> None:
        self.all = tuple(limits)
        self._devices = {(limit.vc, limit.user): limit.devices for limit in self.all}

    def __bool__(self) -> bool:
        return bool(self.all)

    def of(self, vc: str, user: str) -> int | None:
        """Devices that a user may hold in a virtual cluster; None: any number."""
        return self._devices.get((vc, user), self._devices.get((vc, EACH)))

    def refusal(self, vc: str, user: str, devices: int, held: int) -> Text | None:
        """Why a user who holds so many devices gets no more than that now; None if they may have these, too."""
        most = self.of(vc, user)
        if most is None or held + devices <= most:
            return None
        return text(
            "user {user} may hold {most} guaranteed devices in virtual cluster {vc}, holds {held}, and this "
            "needs {devices}",
            user=user,
            most=most,
            vc=vc,
            held=held,
            devices=devices,
        )


class HeldDevices(DevicesBy[tuple[str, str]]):
    """Devices of groups with a guarantee by (virtual cluster, user); a group counts once its owner is known."""

    guaranteed: ClassVar[bool] = True
    """Whether groups with a guarantee count; otherwise those without one."""

    def __init__(self, owner: Callable[[str], str]) -> None:
        super().__init__()
        self._owner = owner
        """The user of a pod, by its uid; empty where that is not known."""

    def _key(self, group: Group, before: tuple[str, str] | None) -> tuple[str, str] | None:
        if (group.virtual is not None) is not self.guaranteed:
            return None
        user = before[1] if before is not None else self._owner_of(group)  # its pods may be forgotten before it
        return (group.vc, user) if user else None

    def _owner_of(self, group: Group) -> str:
        for row in group.pods:
            for uid in row:
                if uid and (user := self._owner(uid)):
                    return user
        return next(filter(None, map(self._owner, sorted(group.preempting))), "")


class BorrowLimits:
    """Devices that the jobs of a virtual cluster may use without a guarantee at a time, by virtual cluster."""

    def __init__(self, devices: Mapping[str, int] = EMPTY) -> None:
        self.devices = devices

    def __bool__(self) -> bool:
        return bool(self.devices)

    def refusal(self, vc: str, devices: int, borrowed: int) -> Text | None:
        """Why a virtual cluster that borrows so many devices gets no more than that; None if it may have these, too."""
        most = self.devices.get(vc)
        if most is None or borrowed + devices <= most:
            return None
        return text(
            "virtual cluster {vc} may borrow {most} devices, borrows {borrowed}, and this needs {devices}",
            vc=vc,
            most=most,
            borrowed=borrowed,
            devices=devices,
        )


class BorrowedDevices(DevicesBy[str]):
    """Devices of groups without a guarantee by virtual cluster."""

    def _key(self, group: Group, _before: str | None) -> str | None:
        return group.vc if group.virtual is None else None


@frozen
class SpareUse:
    """Devices promised to a virtual cluster, and those that its gangs hold with a guarantee."""

    promised: int
    held: int


class Spares:
    """Devices of a virtual cluster's promise that only repairs use, by virtual cluster."""

    def __init__(self, devices: Mapping[str, int] = EMPTY) -> None:
        self.devices = devices

    def __bool__(self) -> bool:
        return bool(self.devices)

    def use(self, vc: str, promised: Mapping[str, int], used: Mapping[tuple[str, bool], int]) -> SpareUse | None:
        """How the promise of a virtual cluster stands; None if no part of it is spare.

        `promised` is by virtual cluster, `used` by virtual cluster and whether with a guarantee (`DevicesInUse`).
        """
        if vc not in self.devices:
            return None
        return SpareUse(promised.get(vc, 0), used.get((vc, True), 0))

    def refusal(self, vc: str, devices: int, state: SpareUse | None) -> Text | None:
        """Why a gang with so many devices has to leave the spare ones free; None if it may start, or nobody knows."""
        spare = self.devices.get(vc)
        if spare is None or state is None or state.held + devices <= state.promised - spare:
            return None
        return text(
            "virtual cluster {vc} keeps {spare} of its {promised} devices for repairs, holds {held}, and this "
            "needs {devices}",
            vc=vc,
            spare=spare,
            promised=state.promised,
            held=state.held,
            devices=devices,
        )
