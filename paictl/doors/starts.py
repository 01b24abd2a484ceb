"""Promised starts behind the doors: who waits so that the first gang in line starts in time (`docs/backfill.md`).

What is promised follows from the pods and the clock. Only who has a promise is remembered, so that others of the same
priority stay behind. All of it needs the core's lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from paictl.cluster.maintenance import UNIX
from paictl.cluster.reservations import reason_of, state_of
from paictl.cluster.startwaits import behind, delaying, start_of
from paictl.doors.lines import DoorEnds, DoorLines
from paictl.doors.pod_events import PodEvent
from paictl.doors.turns import DoorTurns
from paictl.units import Millis, instant, rfc3339
from paictl.workload.backfill import GRACE, BackfillMode, BackfillRules, Foresight, LineGang, LineStarts, StartPromise
from paictl.workload.reservations import Reservations
from paictl.workload.reserved import Clash, ReservedCells, Unready
from paictl.workload.startpromises import StartPromises
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.scheduling import LatestStart
    from paictl.doors.table import PodEntry, PodRef, PodTable
    from paictl.doors.window_state import DoorWindows
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest

KEEP: Final = 30_000
"""Milliseconds after which promises are made anew: pods may have begun to run meanwhile."""
PATIENCE: Final = 60_000
"""Milliseconds for which cells are kept free for a gang that could start: kube-scheduler may refuse it for other
reasons, and others must not wait for that."""


class DoorStarts:
    """The promises of one core."""

    def __init__(
        self, rules: BackfillRules, engine: Engine, table: PodTable, windows: DoorWindows, wall: Callable[[], float]
    ) -> None:
        self.lines = DoorLines(rules, engine)
        """Who waits."""
        self.renewed: Callable[[], None] = lambda: None
        """Told when another gang has a promise than before: those who waited for it may start."""
        self.turns = DoorTurns(table, engine, lambda: self.now)
        """Whose opportunistic gangs go first."""
        self.turns.in_line = lambda entry: self.lines.in_line(entry)
        self.turns.fits = lambda gang: self._foresight().fits(gang)
        self.changes = 0
        """Counts what may have changed who waits; kept by the core."""
        self._engine = engine
        self._table = table
        self._windows = windows
        self._wall = wall
        self._ends = DoorEnds(engine, table, lambda: self.now)
        self._backfill = StartPromises(rules, self._ends, KEEP, self._ends)
        if rules:
            table.heard = self._heard
        self.reserved: ReservedCells | None = None
        """What is kept for pods that name a reservation; None: nothing is."""
        self._active: tuple[str, ...] = ()
        """The reservations that lasted at the last `turn`."""
        self._ready: dict[str, Millis] = {}
        """Since when gangs with a promise could start."""
        self._told: dict[str, Millis] = {}
        """The start that pods of a group were told."""
        self._lost: dict[str, str] = {}
        """Of gangs that have no promised start any more the reason that their pods were told."""
        self.counted: Counter[tuple[str, str]] = Counter()
        """By virtual cluster and kind: promises ``made`` and ``moved`` to a later start, and gangs that began
        ``late`` against the promise that they were told last."""

    def __bool__(self) -> bool:
        return bool(self._backfill.rules)

    @property
    def now(self) -> Millis:
        """Milliseconds since 1970."""
        return Millis(int(1000 * self._wall()))

    def _heard(self, entry: PodEntry) -> None:
        self.lines.heard(entry, there=entry.ref.uid in self._table.by_uid)
        self._ends.heard(entry)

    def renew(self) -> None:
        """What keeps pods from a place may have changed for any of them."""
        self.changes += 1
        self.lines.renew()

    # --- over a restart

    def recall(self) -> None:
        """Go on with the promises that the pods say were made to their gangs; once, when all pods are known."""
        placed, found = self._engine.state.groups.by_name, dict[str, dict[str, Millis]]()
        for entry in self.lines.entries() if self else ():
            reading = entry.reading
            if entry.promised is None or reading is None or entry.runs or entry.reservation or entry.deleting:
                continue
            request = reading.request
            if self._backfill.rules.covers(request) and request.group not in placed:
                found.setdefault(request.vc, {}).setdefault(request.group, entry.promised)
        for vc, known in found.items():
            self._backfill.recall(vc, known)
            self._told.update(known)

    def unnoted(self) -> list[tuple[PodRef, Millis | None]]:
        """Waiting pods whose object says another promise than was told, with that one; None: there is none."""
        if not self:
            return []
        where = {
            promise.group: promise.gang.request.uid
            for starts in self.starts().values() for promise in starts.promises if promise.group in self._told
        }  # fmt: skip
        found: list[tuple[PodRef, Millis | None]] = []
        for group, uid in where.items():
            entry = self._table.by_uid.get(uid)
            soon = entry is not None and entry.promised is None and self._told[group] <= self.now  # about to start
            if entry is not None and entry.promised != self._told[group] and not soon:
                found.append((entry.ref, self._told[group]))
        for entry in self.lines.entries():
            if entry.promised is not None and entry.reading is not None and not entry.runs:
                request = entry.reading.request
                # the next door would take one that has lost its promise to another gang for the head of the line
                planned = self._backfill.rules.mode(request.vc) is BackfillMode.CONSERVATIVE
                holder = where.get(request.group, entry.ref.uid if planned and request.group in self._told else "")
                if holder != entry.ref.uid:
                    found.append((entry.ref, None))
        return found

    # --- reservations

    def reserve(self) -> None:
        """The reservations are like the windows' object says now."""
        reservations = self._windows.reservations
        self.reserved = ReservedCells(reservations, self._reservation_of) if reservations else None
        self._backfill.reserved = self.reserved
        self.renew()
        self.renewed()

    def turn(self) -> None:
        """Let who waits ask again when a reservation has begun or ended since the last call."""
        now = self.now
        self._windows.prune(now)
        current = self._windows.reservations
        if (self.reserved is not None or current) and (self.reserved is None or self.reserved.reservations != current):
            self.reserve()
        active = tuple(reservation.name for reservation in self._windows.reservations if reservation.is_active(now))
        if active != self._active or self.turns.renew(now):
            self._active = active
            self.renewed()

    def _reservation_of(self, group: str) -> str:
        known = self._engine.state.groups.by_name.get(group)
        uids = [] if known is None else [*(uid for row in known.pods for uid in row if uid), *sorted(known.preempting)]
        names = (entry.reservation for uid in uids if (entry := self._table.by_uid.get(uid)) is not None)
        return next(names, "")

    def obstruction(self, request: PodRequest) -> Unready | Clash | None:
        """What keeps the gang of a pod from a start for the sake of reservations; None if nothing does."""
        entry = self._table.by_uid.get(request.uid)
        name = "" if entry is None else entry.reservation
        if (self.reserved is None and not name) or request.group in self._engine.state.groups.by_name:
            return None
        foresight, kept = self._foresight(), self.reserved or ReservedCells(Reservations(), self._reservation_of)
        return kept.obstruction(foresight, self._gang(request), name)

    def longest_beside(self, request: PodRequest) -> Millis | None:
        """The run time with which a gang would start now that would take reserved cells; None if none would do."""
        why, entry = self.obstruction(request), self._table.by_uid.get(request.uid)
        if not isinstance(why, Clash) or self.reserved is None or entry is None:
            return None
        return self.reserved.longest(self._foresight(), self._gang(request), why, entry.reservation)

    def windows_of(self, entry: PodEntry) -> Windows:
        """The windows as they count for a pod."""
        windows = self._windows.found
        return windows if self.reserved is None else self.reserved.windows(windows, self.now, entry.reservation)

    def reservations(self) -> dict[str, int]:
        """Reservations by state, for the metrics."""
        known = self._windows.reservations.current(self.now)
        active = sum(reservation.is_active(self.now) for reservation in known)
        return {"planned": len(known.all) - active, "active": active}

    def short(self) -> dict[str, int]:
        """Cells that reservations would be short of as things are now, by name."""
        return {} if self.reserved is None else {
            name: short for name, (_, short) in state_of(self.reserved, self._foresight()).items()
        }  # fmt: skip

    # --- promises

    def promises(self) -> dict[str, StartPromise]:
        """The promise to the first gang of each virtual cluster with backfill in which one waits."""
        return {vc: head for vc, starts in self.starts().items() if (head := starts.head) is not None}

    def starts(self) -> dict[str, LineStarts]:
        """The promises of each virtual cluster with backfill in which a gang waits, as settled from now on."""
        return self._settled(self.lines.all(self.now), None) if self else {}

    def starts_in(self, vc: str) -> LineStarts | None:
        """The same in one virtual cluster, None if nobody has a promise there: a decision settles no other lines."""
        if not self:
            return None
        line = self.lines.of(vc, self.now)
        return self._settled({vc: line} if line else {}, [vc]).get(vc)

    def _settled(self, lines: Mapping[str, Sequence[LineGang]], vcs: Collection[str] | None) -> dict[str, LineStarts]:
        """The promises of some lines, settled in `vcs` (None: everywhere)."""
        now = self.now
        if self._ready:
            self._ready = {group: since for group, since in self._ready.items() if self.lines.has(group)}
        found, changed = self._backfill.renew(
            self._engine, now, self._windows.found,
            lambda: {vc: self._first(vc, line) for vc, line in lines.items()}, vcs,
        )  # fmt: skip
        for promise in (promise for starts in found.values() for promise in starts.promises):
            if promise.at is not None and promise.at <= now:
                self._ready[promise.group] = min(now, self._ready.get(promise.group, now))  # the clock may be set back
            else:  # it could have started, but its promise has moved since: nothing but devices keeps it
                self._ready.pop(promise.group, None)
        if changed:
            self.renewed()
        return found

    def _first(self, vc: str, line: Sequence[LineGang]) -> list[LineGang]:
        """The gangs of a line that may get a promise, in order; those that stall get none."""
        ranked, rules = line, self._backfill.rules
        if len(line) > 1:  # by age where ranks are equal
            ranked = sorted(line, key=lambda gang: self._backfill.rank(gang.request))
        return [gang for gang in ranked[: 4 * rules.most(vc)] if not self._stalls(gang)][: rules.looked_at(vc)]

    def _stalls(self, gang: LineGang) -> bool:
        """Whether a gang could have started for so long that something else than devices must keep it."""
        group = gang.request.group
        if group not in self._ready:
            return False
        if not self._foresight().fits(gang):
            del self._ready[group]
            return False
        return self._ready[group] + PATIENCE <= self.now

    def _foresight(self) -> Foresight:
        windows = self._windows.found if self.reserved is None else self.reserved.windows(self._windows.found, self.now)
        return self._backfill.foresight(self._engine, self.now, windows)

    # --- who waits for them

    def obstacle(self, request: PodRequest) -> str:
        """Why the gang of a pod must not start now; empty if it delays nobody, or has its place."""
        if (why := self.obstruction(request)) is not None:
            return reason_of(why, self.now, UNIX)
        if not request.guaranteed:
            return self.turns.obstacle(request, self.changes)
        promise = self._delayed(request)
        if promise is None or promise.at is None:
            return ""
        return delaying(promise.group, rfc3339(instant(UNIX, promise.at)))

    def longest(self, request: PodRequest) -> Millis | None:
        """The run time with which a gang would start now that would delay another; None if none is short enough."""
        if self.obstruction(request) is not None:
            return self.longest_beside(request)
        starts = self._starts_before(request)
        return None if starts is None else self._foresight().longest_beside(self._gang(request), starts)

    def _delayed(self, request: PodRequest) -> StartPromise | None:
        starts = self._starts_before(request)
        return None if starts is None else self._foresight().delayed_by(self._gang(request), starts)

    def _starts_before(self, request: PodRequest) -> LineStarts | None:
        """The promises that the gang of a pod must not delay; None if it has its place or need not care."""
        entry = self._table.by_uid.get(request.uid)
        if entry is not None and entry.reservation:
            return None
        if not self or not self._backfill.rules.covers(request) or request.group in self._engine.state.groups.by_name:
            return None
        if self.lines.is_alone(request):
            return None  # the most common case: it comes, and starts; who else has a promise is settled when needed
        return self.starts_in(request.vc)

    def _gang(self, request: PodRequest) -> LineGang:
        entry = self._table.by_uid.get(request.uid)
        return LineGang(request, None if entry is None else self._table.limit_of(entry))

    # --- who is told

    def latest(self, request: PodRequest) -> LatestStart | None:
        """When the gang of a pod starts at the latest, and why; None if nothing is promised to it."""
        starts = self.starts_in(request.vc)
        if starts is None or not self._backfill.rules.covers(request):
            return None
        promise = starts.of(request.group)
        if promise is None:
            return behind(starts)
        return start_of(self._foresight(), promise, starts, UNIX, lambda group: group)

    def news(self) -> list[PodEvent]:
        """Events for pods whose gang has a promise that they were not told, or one that does not hold."""
        events = list[PodEvent]()
        promises = (promise for starts in self.starts().values() for promise in starts.promises)
        starts = {promise.group: (promise, promise.at) for promise in promises if promise.at is not None}
        self._count_late(starts.keys())
        # who waits on may get another start, and is told how late that is
        self._told = {group: at for group, at in self._told.items() if group in starts or self.lines.has(group)}
        events += self._lost_promises({group: at for group, at in self._told.items() if group not in starts})
        for group, (promise, at) in starts.items():
            entry, before = self._table.by_uid.get(promise.gang.request.uid), self._told.get(group)
            again = group in self._lost and before is not None
            if before is not None and not again and before < at <= max(before, self.now) + GRACE:
                continue  # while a pod is past its limit, starts move with the clock
            self._told[group] = at
            when = rfc3339(instant(UNIX, at))
            if entry is not None and (before is None or again) and at > self.now:
                self.counted[promise.gang.request.vc, "made"] += 1
                events.append(PodEvent(entry.ref, "StartPromised", f"its gang starts at {when} at the latest"))
            elif entry is not None and before is not None and at > before:
                self.counted[promise.gang.request.vc, "moved"] += 1
                was = rfc3339(instant(UNIX, before))
                said = f"its gang was promised to start at {was} at the latest, which does not hold: {when}"
                events.append(PodEvent(entry.ref, "StartDelayed", said, warning=True))
        self._lost = {group: why for group, why in self._lost.items() if group in self._told and group not in starts}
        return events

    def _lost_promises(self, told: Mapping[str, Millis]) -> Iterator[PodEvent]:
        """Events for gangs that wait and had a promised start, with the reason why they have none any more."""
        foresight = self._foresight() if told else None
        for group, at in told.items():
            gang = self.lines.find(group)
            if foresight is None or gang is None:
                continue
            vc, entry = gang.request.vc, self._table.by_uid.get(gang.request.uid)
            conservative = self._backfill.rules.mode(vc) is BackfillMode.CONSERVATIVE
            why = foresight.lost_by(vc) if conservative else ""
            if entry is not None and why and self._lost.get(group) != why:
                self._lost[group], was = why, rfc3339(instant(UNIX, at))
                self.counted[vc, "moved"] += 1
                said = f"its gang was promised to start at {was} at the latest, which does not hold: {why}"
                yield PodEvent(entry.ref, "StartDelayed", said, warning=True)

    def _count_late(self, promised: Collection[str]) -> None:
        """Gangs that have got their places since the last call, later than they were told."""
        placed = self._engine.state.groups.by_name
        for group, at in self._told.items():
            if group not in promised and group in placed and self.now > at + GRACE:
                self.counted[placed[group].vc, "late"] += 1

    def numbers(self) -> dict[str, int]:
        """Gangs with a promised start in each virtual cluster, for the metrics."""
        return {vc: len(starts.times()) for vc, starts in self.starts().items()}

    def times(self) -> dict[str, float]:
        """The promised start in each virtual cluster, in seconds since 1970, for the metrics."""
        return {vc: promise.at / 1000 for vc, promise in self.promises().items() if promise.at is not None}
