"""Reports of device time: a month of a cluster's accounts, added up by the dimensions asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from paictl.cluster.interface import Cluster
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.suggestions import nearest
from paictl.units import rfc3339
from paictl.workload.usagereport import Dimension, UsageRow, add_up, total


@frozen
class UsageReport:
    """The books of a month: `rows` by the dimensions in `by`, and their `total`, in device-milliseconds."""

    cluster: str
    month: str
    start: datetime
    end: datetime
    """The end of the month, or the present in the month that is not over."""
    by: tuple[Dimension, ...]
    rows: tuple[UsageRow, ...]
    total: UsageRow
    since: datetime | None
    """If the month began before accounts were kept: since when they are."""


def usage_report(
    cluster: Cluster, month: str | None, by: Sequence[Dimension], vc: str | None = None, user: str | None = None
) -> UsageReport:
    """The accounts of a month (``2026-10``, the present one without) by some dimensions, of one tenant or of all.

    With `user` what that user has used, and nothing that says what others did.

    Raises `UnsupportedError` for a cluster that keeps none, `PaictlError` for a month that is none or has not begun,
    and for a virtual cluster that neither was promised nor used anything in it.
    """
    now = cluster.now.astimezone(UTC)
    start, end = month_span(month or f"{now:%Y-%m}")
    if start > now:
        raise PaictlError(
            text("month {month} has not started yet", month=f"{start:%Y-%m}"),
            where="--month",
            hint=text("the time on this cluster is {now}", now=f"{now:%Y-%m-%d}"),
        )
    usage = cluster.usage(start, end)
    amounts = usage.amounts if user is None else tuple(amount for amount in usage.amounts if amount.user == user)
    if vc is not None:
        amounts = tuple(amount for amount in amounts if amount.vc == vc)
        if not amounts:
            raise _no_tenant(vc, sorted({amount.vc for amount in usage.amounts if user in (None, amount.user)}))
    rows = tuple(add_up(amounts, by))
    # Cut at the beginning of the cluster, nothing before it is missing.
    missing = usage.since > max(start, cluster.epoch)
    return UsageReport(
        cluster.name,
        f"{start:%Y-%m}",
        start,
        usage.end,
        tuple(by),
        rows,
        total(rows),
        usage.since if missing else None,
    )


FIGURES: Final = ("guaranteed", "opportunistic", "lost", "idle")
"""The columns of a report."""


def figures(row: UsageRow) -> tuple[int, ...]:
    """The device-milliseconds of a row, in the order of `FIGURES`."""
    return row.guaranteed, row.opportunistic, row.lost, row.idle


def as_data(books: UsageReport) -> dict[str, object]:
    """The report as JSON values, with exact device-milliseconds."""
    names = [f"{name}DeviceMs" for name in FIGURES]
    return {
        "cluster": books.cluster,
        "month": books.month,
        "start": rfc3339(books.start),
        "end": rfc3339(books.end),
        "since": books.since and rfc3339(books.since),
        "by": [str(name) for name in books.by],
        "rows": [
            {**dict(zip(map(str, books.by), row.key, strict=True)), **dict(zip(names, figures(row), strict=True))}
            for row in books.rows
        ],
        "total": dict(zip(names, figures(books.total), strict=True)),
    }


def month_span(month: str) -> tuple[datetime, datetime]:
    """The beginning of a month and of the next, in UTC; raises `PaictlError` for what is none."""
    match = re.fullmatch(r"(\d{4})-(\d{2})", month, re.ASCII)
    if match is None or not 1 <= int(match[2]) <= 12 or not 1 <= int(match[1]) < 9999:
        raise PaictlError(text("{month!r} is not a month", month=month), where="--month", hint="write it as 2026-10")
    year, number = int(match[1]), int(match[2])
    following = (year + 1, 1) if number == 12 else (year, number + 1)
    return datetime(year, number, 1, tzinfo=UTC), datetime(*following, 1, tzinfo=UTC)


def dimensions(words: str) -> tuple[Dimension, ...]:
    """The dimensions in a text like ``vc,user``, each once; raises `PaictlError` for one that there is not."""
    names = [word.strip().lower() for word in words.split(",")]
    for name in names:
        if name not in tuple(Dimension):
            near = nearest(name, tuple(Dimension))
            hint = (
                text("did you mean {near!r}?", near=str(near))
                if near
                else text("one of: {known}", known=", ".join(Dimension))
            )
            raise PaictlError(text("usage cannot be grouped by {name!r}", name=name), where="--by", hint=hint)
    return tuple(dict.fromkeys(map(Dimension, names)))


def _no_tenant(vc: str, tenants: Sequence[str]) -> PaictlError:
    near = nearest(vc, tenants)
    hint = (
        text("did you mean {near!r}?", near=near) if near else text("one of: {known}", known=", ".join(tenants) or "-")
    )
    return PaictlError(
        text("virtual cluster {vc!r} has neither a promise nor any use in this month", vc=vc), where="--vc", hint=hint
    )
