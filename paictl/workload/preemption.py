"""Who is preempted: the jobs that lose least work, and none before its minimum run time (`docs/preemption.md`).

Pure: the caller says what time it is and since when groups run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from paictl.frozen import frozen
from paictl.units import Millis
from paictl.workload.departments import Departments
from paictl.workload.devicelimits import devices_of

if TYPE_CHECKING:
    from paictl.scheduler.groups import Group

NO_SPANS: Final[Mapping[str, Millis]] = {}
"""A plain dict, as a mapping proxy cannot be written into a snapshot of the simulator."""
SISTER: Final = 10**16
"""Added to the loss of a sister's group for each of its devices: more than all strangers of a cluster lose together."""
NEARER: Final = 10**7
"""One device of a nearer sister counts as so many of a farther one: more than a cluster has. As departments are nested
no deeper than `departments.DEEPEST`, a minimum run time (`scheduler.sparing.SHIELD`) counts more than all sisters."""


class VictimChoice(StrEnum):
    """By what victims are chosen where a guarantee leaves a choice."""

    FEWEST_DEVICES = "fewest-devices"
    """HiveD's order: the cell on which the fewest devices are used without a guarantee."""
    LEAST_LOSS = "least-loss"


class PreemptionRules:
    """What a configuration says of victims; false where HiveD's order decides alone."""

    def __init__(
        self, victims: VictimChoice = VictimChoice.FEWEST_DEVICES, min_run_times: Mapping[str, Millis] = NO_SPANS
    ) -> None:
        self.victims = victims
        self.min_run_times = min_run_times
        """By virtual cluster; that of an empty name is for all others."""

    def __bool__(self) -> bool:
        return self.victims is VictimChoice.LEAST_LOSS or any(self.min_run_times.values())

    def min_run_time(self, vc: str) -> Millis:
        """How long jobs of a virtual cluster run before others of theirs may preempt them."""
        return self.min_run_times.get(vc, self.min_run_times.get("", Millis(0)))


@frozen
class GroupTimes:
    """Since when a group runs, and how often it saves its work (None: never; 0: when it is asked to stop)."""

    began: Millis
    checkpoint_every: Millis | None = None


def lost_time(began: Millis, now: Millis, checkpoint_every: Millis | None) -> Millis:
    """Work that is lost if a job is asked to stop now: since the beginning, or since the last checkpoint.

    Checkpoints every 0 ms: it saves its work when it is asked to stop, and loses nothing.
    """
    ran = Millis(max(0, now - began))
    if checkpoint_every is None:
        return ran
    return Millis(ran % checkpoint_every) if checkpoint_every else Millis(0)


class SparingRules:
    """What the scheduler's core asks about groups that run (`scheduler.sparing.Sparing`)."""

    def __init__(
        self,
        rules: PreemptionRules,
        times: Callable[[Group], GroupTimes | None],
        now: Callable[[], Millis],
        departments: Departments | None = None,
    ) -> None:
        """`times` of a group are None if none of its pods says since when it runs: it has nothing to lose then."""
        self.rules = rules
        self.departments = departments or Departments()
        self._times = times
        self._now = now

    def loss(self, group: Group, vc: str) -> int:
        """Device-milliseconds that are lost if the group gives way to a virtual cluster, and far more for its sisters.

        Where only departments are configured, nothing else counts, so that HiveD's order decides between strangers.
        """
        near = self.departments.closeness(vc, group.vc) if group.virtual is None else 0
        kin = devices_of(group.members) * SISTER * NEARER ** (near - 1) if near else 0
        return kin + (self._lost(group) if self.rules else 0)

    def _lost(self, group: Group) -> int:
        if self.rules.victims is VictimChoice.FEWEST_DEVICES:
            return devices_of(group.members)
        times = self._times(group)
        lost = 0 if times is None else lost_time(times.began, self._now(), times.checkpoint_every)
        return devices_of(group.members) * lost

    def shields(self, group: Group) -> bool:
        """Whether the group has run for less than its minimum run time."""
        until = self.shielded_until(group)
        return until is not None and self._now() < until

    def shielded_until(self, group: Group) -> Millis | None:
        """When a group's minimum run time is over; None if it has none, or has not begun to run.

        A pod that is bound and never starts would otherwise hold a stronger job up for ever.
        """
        span = self.rules.min_run_time(group.vc)
        times = self._times(group) if span else None
        return None if times is None else Millis(times.began + span)

    def next_end(self, groups: Mapping[str, Group]) -> Millis | None:
        """When the minimum run time of one of some groups is over next, so that stronger jobs may ask again."""
        now = self._now()
        ends = (self.shielded_until(group) for group in groups.values() if group.virtual is not None)
        return min((end for end in ends if end is not None and end > now), default=None)
