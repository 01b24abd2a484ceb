"""Lend limits: how much of a virtual cluster's promise others may use at a time (`docs/lend-limits.md`).

A promise is not tied to devices until its owner uses them, so what is lent is a number, not a set: whatever
opportunistic jobs use beyond their own virtual cluster's idle promise and the devices that nobody was promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from paictl.frozen import frozen
from paictl.i18n import Text, counted, text
from paictl.workload.departments import DevicesInUse, UsedDevices
from paictl.workload.devicelimits import EMPTY
from paictl.workload.usage import promises

if TYPE_CHECKING:
    from paictl.scheduler.state import State


@frozen
class LendUse:
    """How promises stand: devices that no guaranteed gang uses, by virtual cluster, and who borrows devices."""

    idle: Mapping[str, int]
    borrowed: Mapping[str, int]
    unpromised: int
    """Devices beyond what idle promises need of those that are free or borrowed; below 0 where so many are bad that not
    all promises could be kept."""
    promised: Mapping[str, int] = field(default_factory=dict)
    """Devices of the promises by virtual cluster."""

    @property
    def used(self) -> UsedDevices:
        """Devices in use, as departments count them."""
        held = {(vc, True): number - self.idle.get(vc, 0) for vc, number in self.promised.items()}
        return held | {(vc, False): number for vc, number in self.borrowed.items()}


def lend_use(state: State, promised: Mapping[str, int] | None = None, used: UsedDevices | None = None) -> LendUse:
    """How the promises of an engine's state stand.

    A caller that keeps what is promised and used, by virtual cluster, saves adding it up.
    """
    if promised is None:
        promised = promises_by_vc(state)
    if used is None:
        counted = DevicesInUse()
        counted.start(state.groups.by_name)
        used = counted.devices
    idle, borrowed, reclaimed = Counter(promised), Counter[str](), _reclaimed(state)
    for (vc, guaranteed), held in used.items():
        devices = held - reclaimed[vc, guaranteed]
        if guaranteed:
            idle[vc] -= devices
        else:
            borrowed[vc] += devices
    unpromised = _free(state) - sum(idle.values()) + sum(borrowed.values())
    return LendUse(idle, borrowed, unpromised, promised)


def promises_by_vc(state: State) -> Counter[str]:
    """Devices that are promised, by virtual cluster."""
    promised: Counter[str] = Counter()
    for (vc, _), number in promises(state).items():
        promised[vc] += number
    return promised


def _reclaimed(state: State) -> Counter[tuple[str, bool]]:
    """Devices of victims that count for the gang which preempts them, by virtual cluster and guarantee of the victim.

    Until victims have ended, both have the same devices.
    """
    groups, user = state.groups.by_name, state.occupancy.user
    victims = (groups[user[leaf]] for leaf in state.occupancy.reserver if leaf in user)
    return Counter((group.vc, group.virtual is not None) for group in victims)


def _free(state: State) -> int:
    """Healthy devices that are neither used nor reserved by a preemption. A job on a bad device takes no good one."""
    tree, health, user, reserver = state.physical, state.health, state.occupancy.user, state.occupancy.reserver
    bad = {leaf for name in health.bad_nodes for cell in tree.nodes[name] for leaf in tree.leaves(cell)}
    taken = reserver.keys() | bad | health.bad_leaves.keys()
    return sum(len(at[1]) for at in tree.at) - len(user) - sum(leaf not in user for leaf in taken)


class LendLimits:
    """Devices of its promise that a virtual cluster lends at most, by virtual cluster.

    Invariant: when an opportunistic gang starts, all that is borrowed fits into the idle promises of those who borrow,
    the devices that nobody was promised, and what the others lend.
    """

    def __init__(self, devices: Mapping[str, int] = EMPTY) -> None:
        self.devices = devices

    def __bool__(self) -> bool:
        return bool(self.devices)

    def lendable(self, use: LendUse) -> dict[str, int]:
        """Devices of each virtual cluster's promise that others may use, those that they use already among them."""
        own = {vc: max(0, number - use.borrowed.get(vc, 0)) for vc, number in use.idle.items()}
        return {vc: min(number, self.devices.get(vc, number)) for vc, number in own.items()}

    def left(self, vc: str, use: LendUse) -> int:
        """Devices that jobs of a virtual cluster may still use without a guarantee, as far as lending goes.

        First those of its own idle promise that it does not lend anyway; each further one is one less for others.
        """
        lendable = self.lendable(use)
        lent = sum(max(0, number - use.idle.get(of, 0)) for of, number in use.borrowed.items())
        own = max(0, use.idle.get(vc, 0) - use.borrowed.get(vc, 0)) - lendable.get(vc, 0)
        return own + max(0, use.unpromised + sum(lendable.values()) - lent)

    def refusal(self, vc: str, devices: int, use: LendUse | None) -> Text | None:
        """Why a gang may not borrow so many devices now; None if it may, or if no limit is the reason."""
        if use is None or not self or devices <= (left := self.left(vc, use)):
            return None
        if devices > LendLimits().left(vc, use):
            return None  # there are not so many: the scheduler says what it waits for
        lendable, free = self.lendable(use), LendLimits().lendable(use)
        keep = {of: free[of] - number for of, number in sorted(lendable.items()) if free[of] > number and of != vc}
        vcs = ", ".join(f"{of} {number}" for of, number in keep.items())
        if not left:
            return text("no devices can be borrowed now; lend limits keep them free for: {vcs}", vcs=vcs)
        return counted(
            "only {count} device can be borrowed now and this needs {devices}; lend limits keep the others free "
            "for: {vcs}",
            "only {count} devices can be borrowed now and this needs {devices}; lend limits keep the others free "
            "for: {vcs}",
            left,
            devices=devices,
            vcs=vcs,
        )
