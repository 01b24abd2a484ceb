"""Borrow limits: devices that a tenant may use without a guarantee at a time (`docs/borrow-limits.md`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.scheduler.events import GroupChange
from paictl.workload.userlimits import devices_of

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group


@frozen
class BorrowLimit:
    """Devices that the jobs of a virtual cluster may use without a guarantee at a time."""

    vc: str
    devices: int


class BorrowLimits:
    """All borrow limits of a cluster."""

    def __init__(self, limits: Iterable[BorrowLimit] = ()) -> None:
        self.devices: Mapping[str, int] = {one.vc: one.devices for one in limits}
        """By virtual cluster."""

    def __bool__(self) -> bool:
        return bool(self.devices)

    def refusal(self, vc: str, devices: int, borrowed: int) -> Text | None:
        """Why a virtual cluster that borrows so many devices gets no more than that; None if it may have these, too."""
        most = self.devices.get(vc)
        if most is None or borrowed + devices <= most:
            return None
        return text(
            "virtual cluster {vc} may borrow {most} devices, borrows {borrowed}, and this needs {devices}",
            vc=vc, most=most, borrowed=borrowed, devices=devices,
        )  # fmt: skip


class BorrowedDevices:
    """Devices of groups without a guarantee by virtual cluster, kept by the changes of groups.

    It alone guarantees that the numbers equal the sums over the groups.
    """

    def __init__(self) -> None:
        self.by_vc: Counter[str] = Counter()
        self._counted: dict[str, tuple[str, int]] = {}

    def start(self, groups: Mapping[str, Group]) -> None:
        """Count anew: these groups there are, and no others."""
        self.by_vc.clear()
        self._counted.clear()
        for name, group in groups.items():
            self._set(name, group)

    def note(self, outcomes: Iterable[object]) -> None:
        """Groups have changed so."""
        for outcome in outcomes:
            if isinstance(outcome, GroupChange):
                self._set(outcome.name, outcome.after)

    def _set(self, name: str, group: Group | None) -> None:
        if (before := self._counted.pop(name, None)) is not None:
            self.by_vc[before[0]] -= before[1]
        if group is not None and group.virtual is None:
            self._counted[name] = group.vc, devices_of(group.members)
            self.by_vc[group.vc] += devices_of(group.members)
