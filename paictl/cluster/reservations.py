"""Reservations as they cross the port, as a text with dates, and why jobs wait for them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.maintenance import NAME, UNIX, date_from
from paictl.cluster.scheduling import JobExplanation, JobSituation
from paictl.cluster.values import ClusterError, JobRequest, ReservationView
from paictl.frozen import frozen
from paictl.i18n import Text, text
from paictl.scheduler.decision import Wait
from paictl.scheduler.errors import RequestError
from paictl.units import Millis, instant, millis_between, rfc3339
from paictl.workload.reservations import (
    Repeat,
    Reservation,
    Reservations,
    cell_shape,
    read_reservation,
    reservation_row,
)
from paictl.workload.reserved import Clash, ReservedCells

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.workload.backfill import Foresight, LineGang
    from paictl.workload.reserved import Unready

KEY: Final = "reservations.json"
"""Where they stand in the ConfigMap of the maintenance windows."""


@frozen
class ReservationRequest:
    """A reservation to be added; `start` None: now, `name` empty: the next that is free. Spans are milliseconds."""

    span: Millis
    start: datetime | None = None
    vc: str = ""
    cells: int = 0
    cell_type: str = ""
    nodes: tuple[str, ...] = ()
    repeat: Repeat = Repeat.ONCE
    name: str = ""
    reason: str = ""

    def reservation(self, known: Reservations, now: Millis, epoch: datetime, spec: ClusterSpec) -> Reservation:
        """The reservation on a clock that counts from an epoch; raises `ReservationError` for an unknown cell type."""
        start = now if self.start is None else millis_between(epoch, self.start)
        leaf_type, leaves = cell_shape(spec, self.cell_type) if self.vc and self.cell_type else ("", 0)
        return Reservation(
            self.name or known.free_name(),
            start,
            Millis(start + self.span),
            self.vc,
            self.cells,
            self.cell_type,
            leaf_type,
            leaves,
            tuple(dict.fromkeys(self.nodes)),
            self.repeat,
            self.reason,
        )


def names_reservation(request: JobRequest) -> bool:
    """Whether a job may name a reservation."""
    extras = request.data.get("extras")
    return isinstance(extras, Mapping) and bool(extras.get("reservation"))


def shown(
    reservations: Iterable[Reservation], now: Millis, epoch: datetime, state: Mapping[str, tuple[int, int]]
) -> tuple[ReservationView, ...]:
    """Reservations with dates, those that begin first in front; `state` are cells in use and short by name."""
    rows = []
    for known in reservations:
        current = known.occurrence(now)
        if current is not None:
            start, end = (instant(epoch, at) for at in current)
            used, short = state.get(known.name, (0, 0))
            rows.append(
                ReservationView(
                    known.name,
                    start,
                    end,
                    known.vc,
                    known.cells,
                    known.cell_type,
                    known.nodes,
                    known.repeat.value,
                    known.reason,
                    known.is_active(now),
                    used,
                    known.size,
                    short,
                )
            )
    return tuple(sorted(rows, key=lambda row: (row.start, row.name)))


def state_of(kept: ReservedCells, foresight: Foresight) -> dict[str, tuple[int, int]]:
    """Cells of each reservation of a promise that are in use, and those that it would be short of."""
    short: dict[str, int] = {}
    for vc in sorted({known.vc for known in kept.reservations if known.vc}):
        for clash in kept.short(foresight, vc):
            name = clash.reservation.name
            short[name] = max(short.get(name, 0), clash.reservation.cells - clash.kept)
    return {
        known.name: (kept.usage(foresight, known), short.get(known.name, 0)) for known in kept.reservations if known.vc
    }


# --- reservations as a text, with dates


def reservations_text(reservations: Reservations) -> str:
    """Reservations on a clock that counts from 1970 as JSON."""
    rows = [
        {
            **reservation_row(known),
            "start": rfc3339(instant(UNIX, known.start)),
            "end": rfc3339(instant(UNIX, known.end)),
        }
        for known in reservations
    ]
    return json.dumps(rows, indent=1)


def reservations_from(content: str) -> Reservations:
    """The inverse of `reservations_text`; raises `ClusterError` for a text that somebody has damaged."""
    try:
        return Reservations(tuple(map(_reservation_from, json.loads(content or "[]"))))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ClusterError(
            text("the reservations are corrupt: {error}", error=str(error)),
            hint="repair them, or delete the key to have none",
        ) from None


def reservations_of(body: Mapping[str, Any] | None) -> Reservations:
    """The reservations of the object as the API server gives it; raises `ClusterError` for one that is damaged."""
    known = body or {}
    try:
        return reservations_from(str((known.get("data") or {}).get(KEY, "")))
    except ClusterError as error:
        error.where = f"configmap {(known.get('metadata') or {}).get('namespace', '')}/{NAME}"
        raise


def _reservation_from(row: Mapping[str, Any]) -> Reservation:
    start, end = (date_from(row[key]) for key in ("start", "end"))
    return read_reservation({**row, "start": start, "end": end})


# --- why a job waits


def waits_for_reservation(
    known: JobExplanation, kept: ReservedCells | None, foresight: Foresight, gang: LineGang, name: str, epoch: datetime
) -> JobExplanation | None:
    """What is known of a job that waits for its reservation `name`, or for those of others; None: for neither."""
    reserved = kept or ReservedCells(Reservations(), lambda _: "")
    why = reserved.obstruction(foresight, gang, name)
    if why is None:
        return _no_room(known, reserved, foresight, gang, name)
    longest = reserved.longest(foresight, gang, why, name) if isinstance(why, Clash) else None
    return replace(
        known, situation=JobSituation.RESERVATION, reason=reason_of(why, foresight.now, epoch), longest=longest
    )


def _no_room(
    known: JobExplanation, reserved: ReservedCells, foresight: Foresight, gang: LineGang, name: str
) -> JobExplanation | None:
    """What is known of a job whose reservation has nodes of the free pool, if these have no room for it."""
    reservation = reserved.reservations.get(name) if name else None
    if reservation is None or not reservation.nodes:
        return None
    closed = reserved.windows(foresight.windows, foresight.now, name).closed(foresight.now, gang.limit)
    try:
        asked = replace(gang.request, ignore_suggested=False)
        waits = isinstance(foresight.engine.plan(asked, frozenset(reservation.nodes) - closed), Wait)
    except RequestError:
        waits = True
    reason = text("the nodes of reservation {name} have no room for it now", name=name)
    return replace(known, situation=JobSituation.RESERVATION, reason=reason) if waits else None


def reason_of(why: Unready | Clash, now: Millis, epoch: datetime) -> Text:
    """Why somebody waits for the sake of reservations."""
    if isinstance(why, Clash):
        at = rfc3339(instant(epoch, why.at))
        current = why.reservation.occurrence(now)
        if why.at <= now and current is not None:
            until = rfc3339(instant(epoch, current[1]))
            return text(
                "it would take cells that are reserved by {name} until {until}", name=why.reservation.name, until=until
            )
        return text(
            "it could still be running at {at}, when reservation {name} needs its cells",
            name=why.reservation.name,
            at=at,
        )
    if why.full is not None:
        return text(
            "reservation {name} has {free} of {cells} cells free, the job needs {needed}",
            name=why.name,
            free=why.full.cells - why.used,
            cells=why.full.cells,
            needed=why.needed,
        )
    if why.at is not None:
        return text("reservation {name} begins at {at}", name=why.name, at=rfc3339(instant(epoch, why.at)))
    return text("there is no reservation {name} any more", name=why.name)
