"""Borrow limits: devices that a tenant may use without a guarantee at a time (`docs/borrow-limits.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.workload.groupdevices import DevicesBy

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


class BorrowedDevices(DevicesBy[str]):
    """Devices of groups without a guarantee by virtual cluster."""

    def _key(self, group: Group, _before: str | None) -> str | None:
        return group.vc if group.virtual is None else None
