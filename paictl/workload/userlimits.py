"""Limits for a user in a virtual cluster: devices held with a guarantee at a time (`docs/user-limits.md`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.workload.budgets import EACH
from paictl.workload.groupdevices import DevicesBy

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


class HeldDevices(DevicesBy[tuple[str, str]]):
    """Devices of groups with a guarantee by (virtual cluster, user); a group counts once its owner is known."""

    def __init__(self, owner: Callable[[str], str]) -> None:
        super().__init__()
        self._owner = owner
        """The user of a pod, by its uid; empty where that is not known."""

    def _key(self, group: Group, before: tuple[str, str] | None) -> tuple[str, str] | None:
        if group.virtual is None:
            return None
        user = before[1] if before is not None else self._owner_of(group)  # its pods may be forgotten before it
        return (group.vc, user) if user else None

    def _owner_of(self, group: Group) -> str:
        uids = chain((uid for row in group.pods for uid in row if uid), sorted(group.preempting))
        return next(filter(None, map(self._owner, uids)), "")
