"""Reservations: cells that are kept for jobs that name them, once or again and again (`docs/reservations.md`).

Either cells of a virtual cluster's promise, by cell type and number, or whole nodes that no promise needs (the free
pool). Pure: instants are milliseconds since an epoch of the caller's, and the caller says what time it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, listed, text
from paictl.units import Millis
from paictl.workload.windows import Window

if TYPE_CHECKING:
    from paictl.cells.spec import ClusterSpec
    from paictl.scheduler.request import Member

_NAME: Final = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_DAY: Final = 86_400_000
_WEEK: Final = 7 * _DAY
HOLDS: Final = "reservation "
"""What the name of the window begins with that keeps the nodes of a reservation free: no window of a user's can."""


class ReservationError(PaictlError):
    """A reservation that cannot be added; nothing has changed."""

    exit_code = ExitCode.NEGATIVE


class Repeat(StrEnum):
    """How often a reservation comes. A day has 24 hours, also when clocks change."""

    ONCE = "once"
    DAILY = "daily"
    WEEKLY = "weekly"

    @property
    def period(self) -> int | None:
        """Milliseconds from one begin to the next; None: there is only one."""
        if self is Repeat.ONCE:
            return None
        return _DAY if self is Repeat.DAILY else _WEEK


@frozen
class Reservation:
    """Cells that are kept from `start` until just before `end`, and so again by `repeat`.

    With a `vc`: `cells` of `cell_type`, of `leaves` devices each, out of its promise. Without: `nodes`.
    """

    name: str
    start: Millis
    end: Millis
    vc: str = ""
    cells: int = 0
    cell_type: str = ""
    leaf_type: str = ""
    leaves: int = 0
    nodes: tuple[str, ...] = ()
    repeat: Repeat = Repeat.ONCE
    reason: str = ""

    @property
    def size(self) -> str:
        """What is kept, in a few words."""
        if not self.vc:
            return listed(self.nodes, 4)
        return text("{cells}x{type} of {vc}", cells=self.cells, type=self.cell_type, vc=self.vc)

    def occurrence(self, now: Millis) -> tuple[Millis, Millis] | None:
        """Begin and end of the occurrence that lasts now, or of the next one; None: there is none any more."""
        period = self.repeat.period
        if period is None:
            return (self.start, self.end) if now < self.end else None
        past = max(0, (now - self.end) // period + 1)  # occurrences that have ended
        return Millis(self.start + past * period), Millis(self.end + past * period)

    def is_active(self, now: Millis) -> bool:
        """Whether its cells are kept now."""
        current = self.occurrence(now)
        return current is not None and current[0] <= now

    def occurrences(self, now: Millis, until: int) -> Iterator[tuple[Millis, Millis]]:
        """Begin and end of the occurrence that lasts now, and of those that begin by `until`."""
        current = self.occurrence(now)
        period = self.repeat.period
        while current is not None and current[0] <= until:
            yield current
            if period is None:
                return
            current = Millis(current[0] + period), Millis(current[1] + period)

    def begins(self, after: Millis, until: int) -> Iterator[Millis]:
        """The instants in (after, until] at which it begins."""
        return (begin for begin, _ in self.occurrences(after, until) if begin > after)

    def uses(self, members: Iterable[Member]) -> int:
        """How many of its cells a gang takes: pods share a cell where several fit into it."""
        cells = 0
        for leaves, pods in members:
            cells += -(-pods // (self.leaves // leaves)) if leaves <= self.leaves else pods * -(-leaves // self.leaves)
        return cells


def read_reservation(row: Mapping[str, Any]) -> Reservation:
    """A reservation from the JSON values that `reservation_row` gives; raises `ValueError` or others for other ones."""
    known = Reservation(**{**row, "nodes": tuple(map(str, row.get("nodes", ())))})
    if known.vc and min(known.cells, known.leaves) < 1:  # each decision of its virtual cluster divides by them
        raise ValueError(known.size)
    return replace(
        known,
        name=str(known.name),
        cells=int(known.cells),
        leaves=int(known.leaves),
        repeat=Repeat(known.repeat),
        start=Millis(int(known.start)),
        end=Millis(int(known.end)),
    )


def reservation_row(reservation: Reservation) -> dict[str, Any]:
    """The inverse of `read_reservation`."""
    return {**asdict(reservation), "nodes": list(reservation.nodes), "repeat": reservation.repeat.value}


def cell_shape(spec: ClusterSpec, cell_type: str) -> tuple[str, int]:
    """Leaf type and number of leaves of a cell type; raises `ReservationError` for one that is larger than a node.

    Pods fit into cells of a node and below whatever their number, so that what is kept can be used in any gangs.
    """
    names = {*spec.cell_types, *(cell_type.child_type for cell_type in spec.cell_types.values())}
    if cell_type not in names:
        hint = did_you_mean(cell_type, sorted(names)) or text("cell types: {types}", types=listed(sorted(names)))
        raise ReservationError(text("no cell type {name!r}", name=cell_type), hint=hint)
    leaves, kind = 1, cell_type
    while (declared := spec.cell_types.get(kind)) is not None:
        leaves, kind = leaves * declared.child_number, declared.child_type
        below = spec.cell_types.get(kind)
        if below is not None and below.is_node_level:
            raise ReservationError(
                text("a cell of type {name} has more than one node", name=cell_type),
                hint=text("reserve nodes: --cells {cells}x{type}", cells=leaves, type=kind),
            )
    return kind, leaves


@frozen
class Reservations:
    """All reservations of a cluster, in the order in which they were added."""

    all: tuple[Reservation, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.all)

    def __iter__(self) -> Iterator[Reservation]:
        return iter(self.all)

    def get(self, name: str) -> Reservation | None:
        """The reservation of a name, None if there is none."""
        return next((known for known in self.all if known.name == name), None)

    def find(self, name: str) -> Reservation:
        """The reservation of a name; raises `PaictlError` with the nearest if there is none."""
        known = self.get(name)
        if known is None:
            names = [reservation.name for reservation in self.all]
            hint = did_you_mean(name, names) or "list them with: paictl reservation list"
            raise PaictlError(text("no reservation {name!r}", name=name), hint=hint)
        return known

    def without(self, name: str) -> Reservations:
        """All but one; raises as `find` does."""
        removed = self.find(name)
        return Reservations(tuple(known for known in self.all if known is not removed))

    def current(self, now: Millis) -> Reservations:
        """Those that are not over."""
        return Reservations(tuple(known for known in self.all if known.occurrence(now) is not None))

    def free_name(self) -> str:
        """The first ``reservation-N`` that none has."""
        taken = {known.name for known in self.all}
        return next(name for number in range(1, len(taken) + 2) if (name := f"reservation-{number}") not in taken)

    def of(self, vc: str) -> tuple[Reservation, ...]:
        """Those of a virtual cluster's promise."""
        return tuple(known for known in self.all if known.vc == vc)

    def moments(self, vc: str, now: Millis) -> list[tuple[Millis, tuple[Reservation, ...]]]:
        """The instants from now on at which cells of a promise have to be free, with the reservations that last then.

        Of instants with the same reservations only the first counts: later, less of what runs now is left.
        """
        mine = [known for known in self.of(vc) if known.occurrence(now) is not None]
        if not mine:
            return []
        last = max(known.end if known.repeat is Repeat.ONCE else known.start for known in mine)
        horizon = max(now, last) + (0 if all(known.repeat is Repeat.ONCE for known in mine) else _WEEK)
        changes = list[tuple[Millis, bool, int]]()
        for place, known in enumerate(mine):
            for begin, end in known.occurrences(now, horizon):
                changes += [(max(begin, now), True, place), (end, False, place)]
        changes.sort()  # who ends at an instant does so before others begin
        active, seen = set[int](), dict[tuple[int, ...], Millis]()
        for at, together in groupby(changes, key=itemgetter(0)):
            begins = False
            for _, begins, place in together:
                (active.add if begins else active.discard)(place)
            if begins:
                seen.setdefault(tuple(sorted(active)), at)
        return [(at, tuple(mine[place] for place in places)) for places, at in seen.items()]

    # --- the free pool

    def holds(self, now: Millis, but: str = "") -> tuple[Window, ...]:
        """Windows that keep the nodes of the free pool's reservations for their jobs; not those of `but`.

        Two occurrences are enough: who is longer than a period meets the next one or the one after it.
        """
        return tuple(window for known in self.all if known.nodes and known.name != but for window in _holds(known, now))

    def added(self, new: Reservation, now: Millis, nodes: Collection[str] = ()) -> Reservations:
        """These and one more; raises `ReservationError` for what is wrong with it, whatever runs.

        `nodes` are all nodes of the cluster.
        """
        _check(new, now)
        if self.get(new.name) is not None:
            raise ReservationError(text("reservation {name!r} already exists", name=new.name), hint="give another name")
        for node in new.nodes:
            if node not in nodes:
                hint = did_you_mean(node, nodes) or "list them with: paictl node list"
                raise ReservationError(text("no node {name!r}", name=node), hint=hint)
        for other in self.all:
            both = sorted({*other.nodes} & {*new.nodes})
            if both and overlap(other, new, now):
                raise ReservationError(
                    text("it overlaps reservation {name} of {nodes}", name=other.name, nodes=listed(both)),
                    hint=text("choose another time, or first: paictl reservation remove {name}", name=other.name),
                )
        return Reservations((*self.all, new))


def _holds(reservation: Reservation, now: Millis) -> Iterator[Window]:
    current, period = reservation.occurrence(now), reservation.repeat.period
    if current is not None:
        yield Window(HOLDS + reservation.name, reservation.nodes, *current, reason=reservation.reason, hold=True)
        if period is not None:
            start, end = Millis(current[0] + period), Millis(current[1] + period)
            yield Window(HOLDS + reservation.name, reservation.nodes, start, end, reason=reservation.reason, hold=True)


def overlap(reservation: Reservation, other: Reservation, now: Millis) -> bool:
    """Whether there is an instant from now on at which both last."""
    horizon = max(reservation.end, other.end, now) + 2 * _WEEK
    instants = (now, *reservation.begins(now, horizon), *other.begins(now, horizon))
    return any(reservation.is_active(at) and other.is_active(at) for at in instants)


def _check(new: Reservation, now: Millis) -> None:
    if not re.fullmatch(_NAME, new.name):
        raise ReservationError(
            text("{name!r} is not a valid reservation name", name=new.name),
            hint="use up to 63 lower case letters, digits and -",
        )
    if new.end <= new.start:
        raise ReservationError(
            text("reservation {name} ends before it begins", name=new.name), hint="say how long: --for 4h"
        )
    period = new.repeat.period
    if period is not None and new.end - new.start > period:
        raise ReservationError(
            text("reservation {name} lasts longer than the time until it begins again", name=new.name),
            hint=text("shorten it, or leave out --repeat {repeat}", repeat=new.repeat.value),
        )
    if new.start < now:
        over = new.end <= now
        raise ReservationError(
            text("reservation {name} ends in the past", name=new.name)
            if over
            else text("reservation {name} begins in the past", name=new.name),
            hint="leave --from out for a reservation that begins now",
        )
    if new.vc and new.cells < 1:
        raise ReservationError(
            text("reservation {name} has no cells", name=new.name), hint="say how many: --cells 2xV100-NODE"
        )
