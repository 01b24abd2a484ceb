"""Device time of the present month by tenant and user: what budgets are compared with (`docs/budgets.md`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from paictl.units import Millis
from paictl.workload.usage import UsageKind, UsageSpan

_USED: Final = (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC)


def month_of(at: Millis) -> Millis:
    """The first instant of the month (UTC) of an instant; both in Unix time."""
    first = datetime.fromtimestamp(at / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return Millis(round(first.timestamp() * 1000))


class MonthUse:
    """What has ended in a month, by (virtual cluster, user), in device-milliseconds; instants are Unix time.

    Its month is that of the last span it was told of. Time never goes back, so older months are of no use.
    """

    def __init__(self) -> None:
        self.start = Millis(0)
        """The first instant of the month."""
        self._used: Counter[tuple[str, str]] = Counter()

    def add(self, span: UsageSpan, epoch: Millis) -> None:
        """A span has ended, whose instants count from `epoch`; what of it lies before its last month is left out."""
        end = Millis(epoch + span.end)
        month = month_of(Millis(end - 1)) if span.end > span.start else self.start
        if month > self.start:
            self.start, self._used = month, Counter()
        if span.kind in _USED and (amount := span.within(Millis(self.start - epoch), span.end)):
            self._used[span.vc, span.user] += amount

    def until(self, now: Millis, epoch: Millis, open_spans: Iterable[UsageSpan]) -> Counter[tuple[str, str]]:
        """The use of the month of an instant, what goes on counted; `now` counts from `epoch` as the spans do."""
        month = month_of(Millis(epoch + now))
        used = Counter(self._used) if month == self.start else Counter[tuple[str, str]]()
        for span in open_spans:
            if span.kind in _USED and (amount := span.within(Millis(month - epoch), now)):
                used[span.vc, span.user] += amount
        return used

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {"start": self.start, "used": [[*key, amount] for key, amount in self._used.items()]}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> MonthUse:
        """The inverse of `dump`."""
        use = cls()
        use.start = Millis(data["start"])
        use._used.update({(vc, user): amount for vc, user, amount in data["used"]})
        return use
