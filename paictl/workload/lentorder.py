"""The order in which opportunistic gangs are tried: first those for which a department has unused devices
(`docs/departments.md`), then by what was used without a guarantee lately (`docs/opportunistic-order.md`).

Use loses half of its weight in each half-life. Pure: the caller says what time it is, in milliseconds of its clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from math import exp2, expm1, log
from typing import Any, Final

from paictl.frozen import frozen
from paictl.units import Millis
from paictl.workload.departments import UnusedPart, UnusedPromises
from paictl.workload.devicelimits import EMPTY, HeldDevices
from paictl.workload.usage import UsageKind, UsageSpan
from paictl.workload.usagereport import HOUR

AHEAD: Final = Millis(HOUR)
"""For how long devices in use count in advance, so that one tenant does not get all that becomes free at an instant."""
HALF_LIFE: Final = Millis(24 * HOUR)
_LN2: Final = log(2)

Who = tuple[str, str]
"""(virtual cluster, user)."""
WaitingGang = tuple[str, str, int]
"""Virtual cluster, user and devices of a gang that waits."""
Rank = tuple[int, float, int]
"""Less goes first."""
RecentUse = Mapping[Who, int]
"""Device-milliseconds without a guarantee by (virtual cluster, user), the older the less they count."""


class OrderBy(StrEnum):
    """By what opportunistic gangs are ordered before the order of submission."""

    DECAYED_USE = "decayed-use"


@frozen
class OpportunisticOrder:
    """What a configuration says of the order."""

    by: OrderBy = OrderBy.DECAYED_USE
    half_life: Millis = HALF_LIFE


class DecayedUse:
    """Device time without a guarantee of what has ended.

    It alone guarantees that the use of a device at an instant counts half for each half-life since then, to a
    device-millisecond for each span.
    """

    def __init__(self, half_life: Millis) -> None:
        self.half_life = half_life
        self._used: dict[Who, tuple[int, Millis]] = {}
        """Use, and the instant as of which it counts so much."""

    def add(self, span: UsageSpan) -> None:
        """A span has ended; those with a guarantee and promises do not count."""
        if span.kind is UsageKind.OPPORTUNISTIC:
            self.spread((span.vc, span.user), span.devices * (span.end - span.start), span.start, span.end)

    def spread(self, who: Who, amount: int, start: Millis, end: Millis) -> None:
        """So many device-milliseconds were used evenly from `start` until `end`."""
        used, at = self._used.get(who, (0, end))
        now = max(at, end)
        weighed = self._weighed(amount, start, end, now)
        self._used[who] = self._decayed(used, at, now) + weighed, Millis(now)

    def until(self, now: Millis, open_spans: Iterable[UsageSpan]) -> Counter[Who]:
        """The use as it counts at an instant, that of the spans that go on with it."""
        used = Counter({who: self._decayed(amount, at, now) for who, (amount, at) in self._used.items()})
        for span in open_spans:
            if span.kind is UsageKind.OPPORTUNISTIC and span.start < now:
                used[span.vc, span.user] += self._weighed(span.devices * (now - span.start), span.start, now, now)
        return used

    def change(self, half_life: Millis, now: Millis) -> None:
        """From now on use decays with another half-life."""
        if half_life != self.half_life:
            self._used = {who: (self._decayed(amount, at, now), now) for who, (amount, at) in self._used.items()}
            self.half_life = half_life

    def _decayed(self, amount: int, at: int, now: int) -> int:
        return round(amount * exp2(-max(0, now - at) / self.half_life))

    def _weighed(self, amount: int, start: Millis, end: Millis, now: int) -> int:
        """The integral of the weight over a use that is even from `start` until `end`."""
        if end <= start:
            return 0
        lives = (end - start) / self.half_life * _LN2
        return round(amount * exp2(-(now - end) / self.half_life) * (-expm1(-lives) / lives))

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"half-life": self.half_life, "used": [[*who, *used] for who, used in self._used.items()]}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> DecayedUse:
        """The inverse of `dump`. Raises `KeyError`, `TypeError` or `ValueError` for anything else."""
        use = cls(Millis(data["half-life"]))
        use._used = {(vc, user): (int(amount), Millis(at)) for vc, user, amount, at in data["used"]}
        return use


class LentDevices(HeldDevices):
    """Devices of groups without a guarantee by (virtual cluster, user); a group counts once its owner is known."""

    guaranteed = False


class Turns:
    """Who goes first at an instant."""

    def __init__(
        self,
        used: RecentUse,
        devices: Mapping[Who, int],
        promised: Mapping[str, int],
        half_life: Millis,
        unused: UnusedPromises | None = None,
    ) -> None:
        """`devices` are those in use without a guarantee, `promised` those of the promises by virtual cluster.

        `unused` is None where there are no departments.
        """
        self._promised = promised
        self._unused = unused
        self._users: Counter[Who] = Counter(used)
        ahead = min(AHEAD, half_life)
        for who, number in devices.items():
            self._users[who] += number * ahead
        self._vcs: Counter[str] = Counter()
        for (vc, _), amount in self._users.items():
            self._vcs[vc] += amount

    @classmethod
    def by_departments(cls, unused: UnusedPromises) -> Turns:
        """The order where recent use does not count."""
        return cls({}, {}, EMPTY, HALF_LIFE, unused)

    def rank(self, vc: str, user: str, devices: int) -> Rank:
        """Less goes first: how near the unused devices are promised that a gang would use, then what was used.

        That is the use of a virtual cluster for each device that it is promised, then that of its user. A virtual
        cluster without a promise counts as one of a single device.
        """
        return self._part(vc, devices).level, self.use(vc), self._users[vc, user]

    def _part(self, vc: str, devices: int) -> UnusedPart:
        return UnusedPart(0) if self._unused is None else self._unused.of(vc, devices)

    def use(self, vc: str) -> float:
        """The use of a virtual cluster for each device that it is promised, in milliseconds."""
        return self._vcs[vc] / max(1, self._promised.get(vc, 0))

    def ahead(self, own: WaitingGang, waiting: Iterable[WaitingGang]) -> LineAhead | None:
        """Who goes before a gang because of departments or of what they used; None if no other does.

        `waiting` are the gangs that wait.
        """
        rank = self.rank(*own)
        before = [gang for gang in waiting if self.rank(*gang) < rank]
        if not before:
            return None
        vc, user, devices = min(before, key=lambda gang: (self.rank(*gang), gang))
        part = self._part(vc, devices)
        if part.level < rank[0]:
            return LineAhead(len(before), vc, "", 0.0, own[0], 0.0, department=part.department, unused=part.unused)
        if vc != own[0]:
            return LineAhead(len(before), vc, "", self.use(vc) / HOUR, own[0], self.use(own[0]) / HOUR)
        users = self._users[vc, user] / HOUR, self._users[own[:2]] / HOUR
        return LineAhead(len(before), vc, user, users[0], own[1], users[1])


@frozen
class LineAhead:
    """Whose opportunistic gangs are tried before another: those of a virtual cluster, or of a user in the same one."""

    gangs: int
    vc: str
    user: str
    """Empty where the virtual clusters differ, or use is not the reason."""
    used: float
    """Device hours: of a virtual cluster for each device that it is promised, of a user as they are."""
    than: str
    """The virtual cluster or the user that is behind."""
    more: float
    """What that used, likewise."""
    department: str = ""
    """The department whose unused devices are the reason; empty: the promise of the virtual cluster itself, or use."""
    unused: int = 0
    """So many devices of that promise are unused; 0: recent use is the reason."""
