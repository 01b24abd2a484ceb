"""Limits for a user in a virtual cluster: devices held with a guarantee at a time (`docs/user-limits.md`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.scheduler.events import GroupChange
from paictl.workload.budgets import EACH

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group


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
        self._devices = {(one.vc, one.user): one.devices for one in self.all}

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
            user=user, most=most, vc=vc, held=held, devices=devices,
        )  # fmt: skip


class HeldDevices:
    """Devices of groups with a guarantee by (virtual cluster, user), kept by the changes of groups.

    It alone guarantees that the numbers equal the sums over the groups of whose pods the owner is known.
    """

    def __init__(self, owner: Callable[[str], str]) -> None:
        self._owner = owner
        """The user of a pod, by its uid; empty where that is not known."""
        self._held: Counter[tuple[str, str]] = Counter()
        self._counted: dict[str, tuple[str, str, int]] = {}
        """(virtual cluster, user, devices) of each group that counts: its pods may be forgotten before it."""

    def held(self) -> Mapping[tuple[str, str], int]:
        """What all users hold who hold something."""
        return self._held

    def start(self, groups: Mapping[str, Group]) -> None:
        """Count anew: these groups there are, and no others."""
        self._held.clear()
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
            vc, user, devices = before
            self._held[vc, user] -= devices
            if not self._held[vc, user]:
                del self._held[vc, user]
        if group is not None and group.virtual is not None:
            user = before[1] if before is not None else self._owner_of(group)
            if user:
                devices = devices_of(group.members)
                self._counted[name] = group.vc, user, devices
                self._held[group.vc, user] += devices

    def _owner_of(self, group: Group) -> str:
        uids = chain((uid for row in group.pods for uid in row if uid), sorted(group.preempting))
        return next(filter(None, map(self._owner, uids)), "")


def devices_of(members: Iterable[tuple[int, int]]) -> int:
    """Devices of a whole gang."""
    return sum(size * pods for size, pods in members)
