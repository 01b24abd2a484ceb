"""Books of device time: spans added up by tenant, user, job and SKU over a window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from paictl.frozen import frozen
from paictl.units import Millis
from paictl.workload.usage import UsageKind, UsageSpan

HOUR = 3_600_000
"""Device-milliseconds of a device hour."""


class Dimension(StrEnum):
    """What device time can be added up by."""

    VC = "vc"
    USER = "user"
    JOB = "job"
    SKU = "sku"


@frozen
class UsageRow:
    """Device-milliseconds of one key; `lost` is part of `guaranteed` and `opportunistic`.

    `key` has a value for each dimension of the report, empty where idle promises belong to none.
    """

    key: tuple[str, ...]
    guaranteed: int = 0
    opportunistic: int = 0
    lost: int = 0
    idle: int = 0

    @property
    def used(self) -> int:
        """All device-milliseconds that were used."""
        return self.guaranteed + self.opportunistic


def add_up(spans: Iterable[UsageSpan], by: Sequence[Dimension], start: Millis, end: Millis) -> list[UsageRow]:
    """The books of a window, a row for each key in order; none for a key of which everything is zero.

    What is idle belongs to virtual cluster and SKU alone: other dimensions of its key are empty.
    """
    books: dict[tuple[str, ...], list[int]] = {}
    for span in spans:
        amount = span.within(start, end)
        if not amount:
            continue
        of_promise = tuple(getattr(span, name) if name in _PROMISED_BY else "" for name in by)
        if span.kind is UsageKind.PROMISED:
            books.setdefault(of_promise, [0, 0, 0, 0])[3] += amount
            continue
        book = books.setdefault(tuple(getattr(span, name) for name in by), [0, 0, 0, 0])
        guaranteed = span.kind is UsageKind.GUARANTEED
        book[0 if guaranteed else 1] += amount
        if span.lost:
            book[2] += amount
        if guaranteed:  # every guaranteed device is one of the promised
            books.setdefault(of_promise, [0, 0, 0, 0])[3] -= amount
    return [UsageRow(key, *book) for key, book in sorted(books.items()) if any(book)]


_PROMISED_BY = frozenset({Dimension.VC, Dimension.SKU})


def total(rows: Iterable[UsageRow]) -> UsageRow:
    """The sum of rows, without a key."""
    guaranteed = opportunistic = lost = idle = 0
    for row in rows:
        guaranteed += row.guaranteed
        opportunistic += row.opportunistic
        lost += row.lost
        idle += row.idle
    return UsageRow((), guaranteed, opportunistic, lost, idle)
