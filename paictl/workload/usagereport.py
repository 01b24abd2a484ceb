"""Reports of device time: amounts added up by tenant, user, job and SKU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from operator import attrgetter

from paictl.frozen import frozen
from paictl.workload.usage import UsageAmount, UsageKind

HOUR = 3_600_000
"""Device-milliseconds of a device hour."""
_COLUMNS = (UsageKind.GUARANTEED, UsageKind.OPPORTUNISTIC, UsageKind.LOST)
"""Of a row, in order; what is idle comes last."""


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


def add_up(amounts: Iterable[UsageAmount], by: Sequence[Dimension]) -> list[UsageRow]:
    """A row for each key in order; none for a key of which everything is zero.

    What is idle belongs to virtual cluster and SKU alone: other dimensions of its key are empty.
    """
    key_of = _key_of(by)
    books: dict[tuple[str, ...], list[int]] = {}
    promised: Counter[tuple[str, str]] = Counter()
    guaranteed: Counter[tuple[str, str]] = Counter()
    for entry in amounts:
        if entry.kind is UsageKind.PROMISED:
            promised[entry.vc, entry.sku] += entry.amount
        else:
            if entry.kind is UsageKind.GUARANTEED:
                guaranteed[entry.vc, entry.sku] += entry.amount
            books.setdefault(key_of(entry), [0, 0, 0, 0])[_COLUMNS.index(entry.kind)] += entry.amount
    for (vc, sku), amount in promised.items():  # every guaranteed device is one of the promised
        owned = {Dimension.VC: vc, Dimension.SKU: sku}
        books.setdefault(tuple(owned.get(name, "") for name in by), [0, 0, 0, 0])[3] += amount - guaranteed[vc, sku]
    return [UsageRow(key, *book) for key, book in sorted(books.items()) if any(book)]


def _key_of(by: Sequence[Dimension]) -> Callable[[UsageAmount], tuple[str, ...]]:
    """What gives the key of an amount: reports are made of hundreds of thousands."""
    if not by:
        return lambda _: ()
    if len(by) == 1:
        single: Callable[[UsageAmount], str] = attrgetter(by[0])
        return lambda entry: (single(entry),)
    several: Callable[[UsageAmount], tuple[str, ...]] = attrgetter(*by)
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
