"""The accounts of a day in UTC: what was used on it by key, and the ledger of what still runs.

A record of a book is one value, and the newest one says everything until the instant of which it is: whoever dies
between two records has lost no more than what happened since the last (`docs/usage.md`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Final

from paictl.units import Millis
from paictl.workload.lentorder import DecayedUse, Who
from paictl.workload.usage import UsageAmount, UsageKind, UsageLedger, UsageSpan

DAY: Final = 86_400_000
LAG: Final = 5_000
"""Milliseconds for which a day that is over stays open: news of its last instants comes late."""
_RECENT: Final = 300_000
"""Milliseconds by which the clocks of a node and of the scheduler may differ."""
_KINDS: Final = (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC, UsageKind.LOST, UsageKind.PROMISED)

Record = dict[str, Any]
"""A book as JSON values."""
_Key = tuple[str, str, str, str]
"""VC, user, job, SKU."""


class UsageBook:
    """A ledger, and the device time of the day until `until` that is in it no more; instants are Unix time."""

    def __init__(self, since: Millis) -> None:
        self.ledger = UsageLedger(since)
        self.day = Millis(since - since % DAY)
        """Its beginning."""
        self.until = since
        self.ended: dict[str, Millis] = {}
        """Pods that ended a moment before `until`: whoever finds their objects does not count them again."""
        self.recent: DecayedUse | None = None
        """What ended pods used without a guarantee, where that decides who goes first."""
        self._amounts: dict[_Key, list[int]] = {}
        """Device-milliseconds of what has ended, by kind."""

    def release(self, uid: str, at: Millis, *, lost: bool) -> None:
        """A pod has ended, and with `lost` its work is gone; nothing to do for one that held nothing."""
        self.ended[uid], before = at, len(self.ledger.closed)
        self.ledger.release(uid, at, lost=lost)
        if self.recent is not None:
            for span in self.ledger.closed[before:]:
                self.recent.add(span)

    def amounts(self, now: Millis | None = None) -> Iterator[UsageAmount]:
        """The device time of the day, until `until` where no instant is given."""
        until = self.until if now is None else now
        for key, numbers in self._amounts.items():
            for kind, number in zip(_KINDS, numbers, strict=True):
                if number:
                    yield UsageAmount(kind, *key, number)
        for span in chain(self.ledger.closed, self.ledger.open_spans(until)):
            yield from span.amounts(self.day, until)

    def record(self, now: Millis) -> Record | None:
        """All of it until an instant of its day; None after it, while the day's last news may still come."""
        return None if now > self.day + DAY else self._settle(now, [])

    def turn(self, now: Millis) -> Record | None:
        """The last record of the day if it is over; the book is of the next day then, with what still runs."""
        end = Millis(self.day + DAY)
        if now < end + LAG:
            return None
        later: list[UsageSpan] = []
        last = self._settle(end, later)
        self.day, self.ledger.closed, self._amounts = end, later, {}
        return last

    def _settle(self, until: Millis, later: list[UsageSpan]) -> Record:
        """Enter what has ended, and write everything down; spans that reach beyond the day go to `later`, too."""
        end = Millis(self.day + DAY)
        closed, self.ledger.closed = self.ledger.closed, []
        for span in closed:
            self._enter(span, end)
            if span.end > end:
                later.append(span)
        self.until = max(self.until, until)
        self.ended = {uid: at for uid, at in self.ended.items() if at > self.until - _RECENT}
        return {
            "version": 1,
            "since": self.ledger.since,
            "day": self.day,
            "until": self.until,
            "used": [[*key, *numbers] for key, numbers in self._amounts.items()],
            "ended": dict(self.ended),
            "open": self.ledger.dump(),
            **({} if self.recent is None else {"recent": self.recent.dump()}),
        }

    def _enter(self, span: UsageSpan, end: Millis) -> None:
        """What of a span lies in the day; time that is lost counts on the day of the loss, from the month's first."""
        numbers = self._amounts.setdefault((span.vc, span.user, span.job, span.sku), [0] * len(_KINDS))
        numbers[_KINDS.index(span.kind)] += span.within(self.day, end)
        if span.lost and span.end <= end:
            numbers[_KINDS.index(UsageKind.LOST)] += span.within(_month_of(self.day), end)

    @classmethod
    def load(cls, record: Mapping[str, Any]) -> UsageBook:
        """The inverse of `record`. Raises `KeyError`, `TypeError` or `ValueError` for what is none."""
        if record["version"] != 1:
            raise ValueError(f"version {record['version']} of the accounts is not known")
        book = cls(Millis(record["since"]))
        book.ledger = UsageLedger.load(record["open"])
        book.day, book.until = Millis(record["day"]), Millis(record["until"])
        book.ended = {uid: Millis(at) for uid, at in record["ended"].items()}
        if "recent" in record:
            book.recent = DecayedUse.load(record["recent"])
        for vc, user, job, sku, *numbers in record["used"]:
            book._amounts[vc, user, job, sku] = [int(number) for number in numbers]
        return book


def recalled(half_life: Millis, books: Iterable[UsageBook], newest: UsageBook) -> DecayedUse:
    """What was used without a guarantee and has ended, by the books of days that do not say when on a day.

    What was used on a day counts as if it had been used evenly, from the beginning of the accounts on the first. Pods
    that still run are in the ledger of the newest.
    """
    use, running = DecayedUse(half_life), list(newest.ledger.open_spans(newest.until))
    for book in books:
        used: Counter[Who] = Counter()
        for entry in book.amounts():
            if entry.kind is UsageKind.OPPORTUNISTIC:
                used[entry.vc, entry.user] += entry.amount
        for span in running:
            if span.kind is UsageKind.OPPORTUNISTIC:
                used[span.vc, span.user] -= span.within(book.day, book.until)
        for who, amount in used.items():
            use.spread(who, max(0, amount), max(book.day, book.ledger.since), book.until)
    return use


def without_jobs(record: Record) -> Record:
    """A record in which what has ended is told by user alone: for a day of more jobs than an object can hold."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    for vc, user, _, sku, *numbers in record["used"]:
        book = sums.setdefault((vc, user, sku), [0] * len(_KINDS))
        book[:] = map(sum, zip(book, numbers, strict=True))
    return {**record, "used": [[vc, user, "", sku, *numbers] for (vc, user, sku), numbers in sums.items()]}


def _month_of(day: Millis) -> Millis:
    first = datetime.fromtimestamp(day / 1000, UTC).replace(day=1)
    return Millis(round(first.timestamp() * 1000))
