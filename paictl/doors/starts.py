"""Promised starts behind the doors: which gangs wait so that the first in line starts in time (`docs/backfill.md`).

Promises are computed from the pods and the clock. Only which gangs have one is remembered, so that others of the same
priority stay behind. All of it needs the core's lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from paictl.cluster.maintenance import UNIX
from paictl.cluster.reservations import reason_of, state_of
from paictl.cluster.whywaits import behind, delaying, start_of
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
    from paictl.doors.health import DoorWindows
    from paictl.doors.table import PodEntry, PodRef, PodTable
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest

KEEP: Final = 30_000
"""Milliseconds after which promises are renewed: pods may have started in the meantime."""
PATIENCE: Final = 60_000
"""Milliseconds for which cells are kept free for a gang that could start: kube-scheduler may refuse it for other
reasons, for which others must not wait."""


class DoorStarts:
    """The promises of one core."""

    def __init__(
        self, rules: BackfillRules, engine: Engine, table: PodTable, windows: DoorWindows, wall: Callable[[], float]
    ) -> None:
        self.lines = DoorLines(rules, engine, table)
        """The waiting gangs."""
        self.renewed: Callable[[], None] = lambda: None
        """Called when the gangs with promises change: those that waited for them may start."""
        self.turns = DoorTurns(
            table,
            engine,
            lambda: self.now,
            in_line=lambda entry: self.lines.in_line(entry),
            fits=lambda gang: self._foresight().fits(gang),
        )
        """The order of opportunistic gangs."""
        self.changes = 0
        """Counts changes that may affect which gangs wait; maintained by the core."""
        self._engine = engine
        self._table = table
        self._windows = windows
        self._wall = wall
        self._ends = DoorEnds(engine, table, lambda: self.now)
        self._backfill = StartPromises(rules, self._ends, KEEP, self._ends)
        if rules:
            table.heard = self._heard
        self.reserved: ReservedCells | None = None
        """The cells kept for pods that name a reservation; None without reservations."""
        self._active: tuple[str, ...] = ()
        """The reservations that were active at the last `turn`."""
        self._ready: dict[str, Millis] = {}
        """Since when gangs with a promise could start; here and below by their names in the lines."""
        self._announced: dict[str, Millis] = {}
        """The start that the pods of each group were told."""
        self._lost: dict[str, str] = {}
        """For gangs that lost their promised start, the reason that their pods were told."""
        self.counted: Counter[tuple[str, str]] = Counter()
        """By virtual cluster and kind: promises ``made`` and ``moved`` to a later start, and gangs that began
        ``late`` by the promise that they were told last."""

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
        """What keeps pods from a place may have changed for any pod."""
        self.changes += 1
        self.lines.renew()

    # --- restart

    def recall(self) -> None:
        """Continue with the promises recorded in the pods; called once, when all pods are known."""
        placed, by_vc = self._engine.state.groups.by_name, dict[str, dict[str, Millis]]()
        for entry in self.lines.entries() if self else ():
            reading = entry.reading
            if entry.promised is None or reading is None or entry.runs or entry.reservation or entry.deleting:
                continue
            request = reading.request
            if self._backfill.rules.covers(request) and request.group not in placed:
                by_vc.setdefault(request.vc, {}).setdefault(self.lines.named(request).group, entry.promised)
        for vc, promised in by_vc.items():
            self._backfill.recall(vc, promised)
            self._announced.update(promised)

    def unnoted(self) -> list[tuple[PodRef, Millis | None]]:
        """Waiting pods whose object has to be given another promise, with that promise; None: no promise."""
        if not self:
            return []
        holders = {
            promise.group: promise.gang.request.uid
            for starts in self.starts().values()
            for promise in starts.promises
            if promise.group in self._announced
        }
        rows: list[tuple[PodRef, Millis | None]] = []
        for group, uid in holders.items():
            entry = self._table.by_uid.get(uid)
            soon = entry is not None and entry.promised is None and self._announced[group] <= self.now  # about to start
            if entry is not None and entry.promised != self._announced[group] and not soon:
                rows.append((entry.ref, self._announced[group]))
        for entry in self.lines.entries():
            if entry.promised is not None and entry.reading is not None and not entry.runs:
                request = self.lines.named(entry.reading.request)
                # otherwise the next door would take a gang that lost its promise to another for the head of the line
                planned = self._backfill.rules.mode(request.vc) is BackfillMode.CONSERVATIVE
                holder = holders.get(
                    request.group, entry.ref.uid if planned and request.group in self._announced else ""
                )
                if holder != entry.ref.uid:
                    rows.append((entry.ref, None))
        return rows

    # --- reservations

    def reserve(self) -> None:
        """Take over the reservations from the windows' object."""
        reservations = self._windows.reservations
        self.reserved = ReservedCells(reservations, self._reservation_of) if reservations else None
        self._backfill.reserved = self.reserved
        self.renew()
        self.renewed()

    def turn(self) -> None:
        """Let waiting gangs ask again if a reservation has begun or ended since the last call."""
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
        placed = self._engine.state.groups.by_name.get(group)
        uids = (
            [] if placed is None else [*(uid for row in placed.pods for uid in row if uid), *sorted(placed.preempting)]
        )
        names = (entry.reservation for uid in uids if (entry := self._table.by_uid.get(uid)) is not None)
        return next(names, "")

    def obstruction(self, request: PodRequest) -> Unready | Clash | None:
        """The reservation that keeps a pod's gang from starting, and how; None if none does."""
        entry = self._table.by_uid.get(request.uid)
        name = "" if entry is None else entry.reservation
        if (self.reserved is None and not name) or request.group in self._engine.state.groups.by_name:
            return None
        foresight, reserved = self._foresight(), self.reserved or ReservedCells(Reservations(), self._reservation_of)
        return reserved.obstruction(foresight, self._gang(request), name)

    def longest_beside(self, request: PodRequest) -> Millis | None:
        """The longest run time with which a gang that clashes with a reservation could start now, if there is any."""
        obstruction, entry = self.obstruction(request), self._table.by_uid.get(request.uid)
        if not isinstance(obstruction, Clash) or self.reserved is None or entry is None:
            return None
        return self.reserved.longest(self._foresight(), self._gang(request), obstruction, entry.reservation)

    def windows_of(self, entry: PodEntry) -> Windows:
        """The windows that apply to a pod."""
        windows = self._windows.current
        return windows if self.reserved is None else self.reserved.windows(windows, self.now, entry.reservation)

    def reservations(self) -> dict[str, int]:
        """Reservations by state, for the metrics."""
        current = self._windows.reservations.current(self.now)
        active = sum(reservation.is_active(self.now) for reservation in current)
        return {"planned": len(current.all) - active, "active": active}

    def short(self) -> dict[str, int]:
        """Cells that reservations will lack as things stand, by name."""
        return (
            {}
            if self.reserved is None
            else {name: short for name, (_, short) in state_of(self.reserved, self._foresight()).items()}
        )

    # --- promises

    def promises(self) -> dict[str, StartPromise]:
        """The promise to the first waiting gang of each virtual cluster with backfill."""
        return {vc: head for vc, starts in self.starts().items() if (head := starts.head) is not None}

    def starts(self) -> dict[str, LineStarts]:
        """The promises in each virtual cluster with backfill and waiting gangs, settled now."""
        return self._settled(self.lines.all(self.now), None) if self else {}

    def starts_in(self, vc: str) -> LineStarts | None:
        """The same for one virtual cluster, None if no gang has a promise there: a decision settles no other lines."""
        if not self:
            return None
        line = self.lines.of(vc, self.now)
        return self._settled({vc: line} if line else {}, [vc]).get(vc)

    def _settled(self, lines: Mapping[str, Sequence[LineGang]], vcs: Collection[str] | None) -> dict[str, LineStarts]:
        """The promises of some lines, settled in `vcs` (None: everywhere)."""
        now = self.now
        if self._ready:
            self._ready = {group: since for group, since in self._ready.items() if self.lines.has(group)}
        settled, changed = self._backfill.renew(
            self._engine,
            now,
            self._windows.current,
            lambda: {vc: self._first(vc, line) for vc, line in lines.items()},
            vcs,
        )
        for promise in (promise for starts in settled.values() for promise in starts.promises):
            if promise.at is not None and promise.at <= now:
                self._ready[promise.group] = min(now, self._ready.get(promise.group, now))  # the clock may be set back
            else:  # it could have started, but its promise has moved since: only missing devices keep it
                self._ready.pop(promise.group, None)
        if changed:
            self.renewed()
        return settled

    def _first(self, vc: str, line: Sequence[LineGang]) -> list[LineGang]:
        """The gangs of a line that may get a promise, in order; those that stall get none."""
        ranked, rules = line, self._backfill.rules
        if len(line) > 1:  # equal ranks stay ordered by age
            ranked = sorted(line, key=lambda gang: self._backfill.rank(gang.request))
        return [gang for gang in ranked[: 4 * rules.most(vc)] if not self._stalls(gang)][: rules.looked_at(vc)]

    def _stalls(self, gang: LineGang) -> bool:
        """Whether a gang could have started for so long that something other than devices must keep it."""
        group = gang.request.group
        if group not in self._ready:
            return False
        if not self._foresight().fits(gang):
            del self._ready[group]
            return False
        return self._ready[group] + PATIENCE <= self.now

    def _foresight(self) -> Foresight:
        windows = (
            self._windows.current if self.reserved is None else self.reserved.windows(self._windows.current, self.now)
        )
        return self._backfill.foresight(self._engine, self.now, windows)

    # --- gangs that wait for promises

    def obstacle(self, request: PodRequest) -> str:
        """Why the gang of a pod must not start now; empty if it delays no other gang, or has its place."""
        if (obstruction := self.obstruction(request)) is not None:
            return reason_of(obstruction, self.now, UNIX)
        if not request.guaranteed:
            return self.turns.obstacle(request, self.changes)
        promise = self._delayed(request)
        if promise is None or promise.at is None:
            return ""
        return delaying(self.lines.key(promise.group)[1], rfc3339(instant(UNIX, promise.at)))

    def longest(self, request: PodRequest) -> Millis | None:
        """The longest run time with which a gang that would delay another could start now; None if there is none."""
        if self.obstruction(request) is not None:
            return self.longest_beside(request)
        starts = self._starts_before(request)
        return None if starts is None else self._foresight().longest_beside(self._gang(request), starts)

    def _delayed(self, request: PodRequest) -> StartPromise | None:
        starts = self._starts_before(request)
        return None if starts is None else self._foresight().delayed_by(self._gang(request), starts)

    def _starts_before(self, request: PodRequest) -> LineStarts | None:
        """The promises that the gang of a pod must not delay; None if it has its place or cannot delay any."""
        entry = self._table.by_uid.get(request.uid)
        if entry is not None and entry.reservation:
            return None
        if not self or not self._backfill.rules.covers(request) or request.group in self._engine.state.groups.by_name:
            return None
        if self.lines.is_alone(request):
            return None  # the most common case: it comes and starts; other promises are settled when needed
        return self.starts_in(request.vc)

    def _gang(self, request: PodRequest) -> LineGang:
        entry = self._table.by_uid.get(request.uid)
        return LineGang(self.lines.named(request), None if entry is None else self._table.limit_of(entry))

    # --- explanations and events

    def latest(self, request: PodRequest) -> LatestStart | None:
        """When the gang of a pod starts at the latest, and why; None without a promise."""
        starts = self.starts_in(request.vc)
        if starts is None or not self._backfill.rules.covers(request):
            return None
        promise = starts.of(self.lines.named(request).group)
        if promise is None:
            return behind(starts)
        placed = self._engine.state.groups.by_name
        return start_of(
            self._foresight(),
            promise,
            starts,
            UNIX,
            lambda name: name if name in placed else self.lines.key(name)[1],
        )

    def news(self) -> list[PodEvent]:
        """Events for pods whose gang has a new promise, or one that no longer holds."""
        events = list[PodEvent]()
        promises = (promise for starts in self.starts().values() for promise in starts.promises)
        starts = {promise.group: (promise, promise.at) for promise in promises if promise.at is not None}
        self._count_late(starts.keys())
        # a gang that keeps waiting may get another start, and is told how late that is
        self._announced = {
            group: at for group, at in self._announced.items() if group in starts or self.lines.has(group)
        }
        events += self._lost_promises({group: at for group, at in self._announced.items() if group not in starts})
        for group, (promise, at) in starts.items():
            entry, before = self._table.by_uid.get(promise.gang.request.uid), self._announced.get(group)
            is_renewed = group in self._lost and before is not None
            if before is not None and not is_renewed and before < at <= max(before, self.now) + GRACE:
                continue  # while a pod is past its limit, starts move with the clock
            self._announced[group] = at
            when = rfc3339(instant(UNIX, at))
            if entry is not None and (before is None or is_renewed) and at > self.now:
                self.counted[promise.gang.request.vc, "made"] += 1
                events.append(PodEvent(entry.ref, "StartPromised", f"its gang starts at {when} at the latest"))
            elif entry is not None and before is not None and at > before:
                self.counted[promise.gang.request.vc, "moved"] += 1
                previous = rfc3339(instant(UNIX, before))
                message = f"its gang was promised to start at {previous} at the latest, which does not hold: {when}"
                events.append(PodEvent(entry.ref, "StartDelayed", message, warning=True))
        self._lost = {
            group: why for group, why in self._lost.items() if group in self._announced and group not in starts
        }
        return events

    def _lost_promises(self, lost: Mapping[str, Millis]) -> Iterator[PodEvent]:
        """Events for waiting gangs that have lost their promised start, with the reason."""
        foresight = self._foresight() if lost else None
        for group, at in lost.items():
            gang = self.lines.find(group)
            if foresight is None or gang is None:
                continue
            vc, entry = gang.request.vc, self._table.by_uid.get(gang.request.uid)
            conservative = self._backfill.rules.mode(vc) is BackfillMode.CONSERVATIVE
            reason = foresight.lost_by(vc) if conservative else ""
            if entry is not None and reason and self._lost.get(group) != reason:
                self._lost[group], previous = reason, rfc3339(instant(UNIX, at))
                self.counted[vc, "moved"] += 1
                message = f"its gang was promised to start at {previous} at the latest, which does not hold: {reason}"
                yield PodEvent(entry.ref, "StartDelayed", message, warning=True)

    def _count_late(self, promised: Collection[str]) -> None:
        """Count gangs that have got their places since the last call, later than promised."""
        placed = self._engine.state.groups.by_name
        for name, at in self._announced.items():
            namespace, group = self.lines.key(name)
            if name in promised or group not in placed or self.now <= at + GRACE:
                continue
            if not namespace or namespace == self._table.holder(placed[group]):
                self.counted[placed[group].vc, "late"] += 1

    def numbers(self) -> dict[str, int]:
        """Gangs with a promised start in each virtual cluster, for the metrics."""
        return {vc: len(starts.times()) for vc, starts in self.starts().items()}

    def times(self) -> dict[str, float]:
        """The promised start in each virtual cluster, in seconds since 1970, for the metrics."""
        return {vc: promise.at / 1000 for vc, promise in self.promises().items() if promise.at is not None}
