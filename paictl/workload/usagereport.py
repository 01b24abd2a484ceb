"""Books of device time: spans added up by tenant, user, job and SKU over a window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from operator import attrgetter

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
    key_of = _key_of(by)
    books: dict[tuple[str, ...], list[int]] = {}
    idle: dict[tuple[str, str], int] = {}
    for span in spans:
        amount = span.within(start, end)
        if not amount:
            continue
        if span.kind is not UsageKind.OPPORTUNISTIC:  # every guaranteed device is one of the promised
            owner = (span.vc, span.sku)
            idle[owner] = idle.get(owner, 0) + (amount if span.kind is UsageKind.PROMISED else -amount)
            if span.kind is UsageKind.PROMISED:
                continue
        book = books.setdefault(key_of(span), [0, 0, 0, 0])
        book[0 if span.kind is UsageKind.GUARANTEED else 1] += amount
        if span.lost:
            book[2] += amount
    for (vc, sku), amount in idle.items():
        owned = {Dimension.VC: vc, Dimension.SKU: sku}
        books.setdefault(tuple(owned.get(name, "") for name in by), [0, 0, 0, 0])[3] += amount
    return [UsageRow(key, *book) for key, book in sorted(books.items()) if any(book)]


def _key_of(by: Sequence[Dimension]) -> Callable[[UsageSpan], tuple[str, ...]]:
    """What gives the key of a span: reports are made of hundreds of thousands."""
    if not by:
        return lambda _: ()
    if len(by) == 1:
        single: Callable[[UsageSpan], str] = attrgetter(by[0])
        return lambda span: (single(span),)
    several: Callable[[UsageSpan], tuple[str, ...]] = attrgetter(*by)
    return several


def total(rows: Iterable[UsageRow]) -> UsageRow:
    """The sum of rows, without a key."""
    guaranteed = opportunistic = lost = idle = 0
    for row in rows:
        guaranteed += row.guaranteed
        opportunistic += row.opportunistic
        lost += row.lost
        idle += row.idle
    return UsageRow((), guaranteed, opportunistic, lost, idle)
