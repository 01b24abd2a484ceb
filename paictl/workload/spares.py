"""Spare devices of a tenant's promise that new gangs leave free, so that repairs find room (`docs/repair.md`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.scheduler.request import gang_of
from paictl.workload.groupdevices import devices_of

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group


@frozen
class Spare:
    """Devices of a virtual cluster's promise that only repairs use."""

    vc: str
    devices: int


@frozen
class SpareUse:
    """Devices promised to a virtual cluster, and those that its gangs hold with a guarantee."""

    promised: int
    held: int


class Spares:
    """All spare devices of a cluster."""

    def __init__(self, spares: Iterable[Spare] = ()) -> None:
        self.devices: Mapping[str, int] = {one.vc: one.devices for one in spares}
        """By virtual cluster."""

    def __bool__(self) -> bool:
        return bool(self.devices)

    def use(self, groups: Mapping[str, Group], promised: Mapping[tuple[str, str], int]) -> dict[str, SpareUse]:
        """How the promises stand of which a part is spare.

        `promised` is by virtual cluster and leaf type. A member that waits for a repair counts with its gang, and the
        preemption for it not once more.
        """
        held = dict.fromkeys(self.devices, 0)
        for name, group in groups.items():
            if group.vc in held and group.virtual is not None and gang_of(name) == name:
                held[group.vc] += devices_of(group.members)
        return {
            vc: SpareUse(sum(number for (of, _), number in promised.items() if of == vc), number)
            for vc, number in held.items()
        }

    def refusal(self, vc: str, devices: int, use: Mapping[str, SpareUse]) -> Text | None:
        """Why a gang with so many devices has to leave the spare ones free; None if it may start, or nobody knows."""
        spare, state = self.devices.get(vc), use.get(vc)
        if spare is None or state is None or state.held + devices <= state.promised - spare:
            return None
        return text(
            "virtual cluster {vc} keeps {spare} of its {promised} devices for repairs, holds {held}, and this "
            "needs {devices}",
            vc=vc, spare=spare, promised=state.promised, held=state.held, devices=devices,
        )  # fmt: skip
