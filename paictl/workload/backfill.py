"""Backfill: the first gang in a virtual cluster's line, or each, gets a start that holds (`docs/backfill.md`).

What the future holds is asked of the scheduler's core itself: groups end in its state as their limits say, and all of
that is taken back. Pure: the caller says what time it is, in milliseconds of its clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.scheduler.decision import Bind, Phase, Preempt, Wait
from paictl.scheduler.errors import RequestError
from paictl.scheduler.groups import Group, GroupState
from paictl.scheduler.scratch import Scratch, smallest
from paictl.units import Millis
from paictl.workload.roomcount import RoomCount, has_cells_on, has_room, is_plain, is_struck, place_of
from paictl.workload.startplan import MOST, LeafTimes, LinePlan, is_countable
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.workload.startplan import Footprint, PlannedStart
    from paictl.workload.windows import Window

FOREVER: Final = Millis(1 << 62)
"""Later than any instant."""
GRACE: Final = 60_000
"""Milliseconds for which a group that has passed its limit is expected to run on."""
HOPELESS: Final = 5
"""Gangs at the head of a line that are passed over, as nothing that ends would make room for them."""
LOOKED_AT: Final = 4 * MOST
"""Gangs at the head of a line that are looked at where each gets a promise: those without a start use up no promise."""

NO_WINDOWS: Final = Windows()


class BackfillMode(StrEnum):
    """To whom starts are promised."""

    EASY = "easy"
    """To the head of the line."""
    CONSERVATIVE = "conservative"
    """To each gang in line."""


@frozen
class BackfillRule:
    """Backfill in a virtual cluster; an empty `vc`: in each without a rule of its own."""

    vc: str
    mode: BackfillMode


class BackfillRules:
    """The rules of a cluster."""

    def __init__(self, rules: Iterable[BackfillRule] = ()) -> None:
        self.all = tuple(rules)
        self._vcs = {rule.vc: rule.mode for rule in self.all}

    def __bool__(self) -> bool:
        return bool(self.all)

    def covers(self, request: PodRequest) -> bool:
        """Whether a gang stands in a line with backfill: it asks for cells that its virtual cluster is promised."""
        return request.guaranteed and ("" in self._vcs or request.vc in self._vcs)

    def mode(self, vc: str) -> BackfillMode:
        """To whom starts are promised in a virtual cluster that has backfill."""
        return self._vcs.get(vc) or self._vcs.get("") or BackfillMode.EASY

    def most(self, vc: str) -> int:
        """Gangs of one kind in a line that are looked at, the first ones."""
        return MOST if self.mode(vc) is BackfillMode.CONSERVATIVE else HOPELESS

    def looked_at(self, vc: str) -> int:
        """Gangs of a line that are looked at, the first ones: some of them may have no start."""
        return LOOKED_AT if self.mode(vc) is BackfillMode.CONSERVATIVE else HOPELESS


@frozen
class LineGang:
    """A gang that waits: one of its pods, and how long it runs at most (None: for ever)."""

    request: PodRequest
    limit: Millis | None


@frozen
class StartPromise:
    """When the head of a line starts at the latest; `at` is None where nothing can be promised."""

    gang: LineGang
    at: Millis | None
    until: Millis | None = field(default=None, compare=False)
    """As long as the groups of the virtual cluster and their limits stay the same, so does the promise until then.
    None: it may change with the time."""
    room: RoomCount | None = field(default=None, compare=False, repr=False)
    """The leaves as they will be when it starts, where they were counted."""
    place: int = field(default=0, compare=False)
    """Its number in the line, where all gangs in line are promised a start; else 0."""

    @property
    def group(self) -> str:
        """The name of its gang."""
        return self.gang.request.group


@frozen
class LineStarts:
    """The promises to the gangs of one line, in its order: to its head, or with a `plan` to each of them."""

    promises: tuple[StartPromise, ...]
    plan: LinePlan | None = field(default=None, compare=False, repr=False)
    until: Millis | None = field(default=None, compare=False)
    """As `StartPromise.until`, of a plan."""

    @property
    def head(self) -> StartPromise | None:
        """The promise to the first gang that has one, None if nobody has."""
        return self.promises[0] if self.promises else None

    @property
    def is_full(self) -> bool:
        """Whether no more gangs get a promised start."""
        return self.plan is not None and len(self.times()) >= MOST

    def of(self, group: str) -> StartPromise | None:
        """The promise to a gang, None if it has none."""
        return next((promise for promise in self.promises if promise.group == group), None)

    def times(self) -> dict[str, Millis]:
        """By group: the promised start."""
        return {promise.group: promise.at for promise in self.promises if promise.at is not None}


@frozen
class StartReasons:
    """Why a gang starts when it does: groups that must have ended, with their planned ends, in that order.

    Without a promise: groups in its way that may run for ever.
    """

    ends: tuple[tuple[str, Millis], ...] = ()
    unlimited: tuple[str, ...] = ()
    """Those may run already, or have a promised start before it."""


class KeptCells(Protocol):
    """What has to stay free beside what is promised to gangs: reservations (`paictl.workload.reserved`)."""

    def ends(self, vc: str, now: Millis) -> Iterable[Millis]:
        """Instants from now on at which cells are kept no more that were."""

    def concerns(self, engine: Engine, vc: str) -> bool:
        """Whether any cells are kept onto which those of a virtual cluster may be mapped, or of its promise."""

    def clash(self, foresight: Foresight, gang: LineGang, at: Millis) -> object | None:
        """What would be short of cells if a gang started at an instant; None: nothing."""


class PlannedTimes(Protocol):
    """What is known of planned ends beside when they are."""

    def is_fixed(self, group: str) -> bool:
        """Whether the end of a group that has one stays the same until it has passed, if no limit changes."""

    def version(self, vc: str) -> int:
        """The same number as before means that no limit and no begin in a virtual cluster has changed."""


PlannedEnd: TypeAlias = "tuple[Millis, str]"
"""An instant and the group that ends then at the latest; an empty name: only the instant matters."""


class Foresight:
    """What is known of the future of one engine at one instant. Must not outlive a change of the engine."""

    def __init__(
        self,
        engine: Engine,
        now: Millis,
        end_of: Callable[[str], Millis | None],
        windows: Windows | None = None,
        reserved: KeptCells | None = None,
        times: PlannedTimes | None = None,
    ) -> None:
        """`end_of` says when a group that holds devices ends at the latest; None: it may run for ever."""
        self.engine = engine
        self.now = now
        self.windows = NO_WINDOWS if windows is None else windows
        self.reserved = reserved
        self.end_of = end_of
        self.times = times
        self.counts = True
        """Whether leaves are counted where that says the same as the core; only tests always ask the core."""

    def promise(self, line: Iterable[LineGang]) -> StartPromise | None:
        """The promise to the head of a line, None if nobody waits in it whom anything that ends could help.

        The start is the first instant at which the core has a place for the gang if all that runs has ended by then
        that has to; maintenance windows count.
        """
        until: Millis | None = FOREVER
        for gang, _ in zip(line, range(HOPELESS), strict=False):
            if self._may_count(gang.request.vc) and has_room(self.engine, gang.request):  # most gangs
                return StartPromise(gang, self.now, until)
            count = self._count(gang)
            if count is None:
                made, until = self._imagined_promise(gang), None
            else:
                made, lasts = self._counted_promise(gang, count)
                until = None if until is None or lasts is None else min(until, lasts)
            if made is not None:
                return replace(made, until=until)
        return None

    def _imagined_promise(self, gang: LineGang) -> StartPromise | None:
        """The promise to a gang as the core gives it, None if nothing that ends could help it."""
        with self.imagine(gang) as scratch:
            if self._room(gang, self.now):  # most gangs, and nobody need be asked when others end
                return StartPromise(gang, self.now)
            ends, unlimited = self.planned(gang.request.vc)
            for at, rows in groupby(sorted(ends), key=lambda row: row[0]):
                scratch.end(name for _, name in rows)
                if self._room(gang, at):
                    return StartPromise(gang, at)
            scratch.end(unlimited)
            if self._room(gang, max((at for at, _ in ends), default=self.now)):
                return StartPromise(gang, None)
        return None

    def _counted_promise(self, gang: LineGang, count: RoomCount) -> tuple[StartPromise | None, Millis | None]:
        """The same, where leaves can be counted; with the instant until which it stays so (`StartPromise.until`)."""
        if count.fits():
            return StartPromise(gang, self.now), FOREVER
        groups, (ends, unlimited) = self.engine.by_vc.of(gang.request.vc), self.planned(gang.request.vc)
        ends.sort()
        lasts = ends[0][0] if ends else FOREVER
        for at, rows in groupby(ends, key=lambda row: row[0]):
            for _, name in rows:
                count.end(groups[name])
            if count.fits():
                return StartPromise(gang, at, room=count), lasts if self._are_fixed(ends) else None
        for name in unlimited:
            count.end(groups[name])
        made = StartPromise(gang, None) if count.fits() else None
        if count.is_uniform:  # whenever the others end, there is no room before
            return made, FOREVER
        return made, lasts if self._are_fixed(ends) else None

    def _are_fixed(self, ends: Iterable[PlannedEnd]) -> bool:
        """Whether no end moves with the clock; that of a group that has passed its limit does."""
        times = self.times
        return times is not None and all(times.is_fixed(name) and self.end_of(name) == end for end, name in ends)

    def _may_count(self, vc: str) -> bool:
        return self.counts and not self.windows_of(vc) and not self._keeps_from(vc)

    def windows_of(self, vc: str) -> list[Window]:
        """The windows that close nodes onto which cells of a virtual cluster may be mapped."""
        return [window for window in self.windows if has_cells_on(self.engine, vc, window.nodes)]

    def _keeps_from(self, vc: str) -> bool:
        return self.reserved is not None and self.reserved.concerns(self.engine, vc)

    def _count(self, gang: LineGang) -> RoomCount | None:
        """The leaves of a gang's virtual cluster; None where the core must be asked."""
        return RoomCount.of(self.engine, gang.request) if self._may_count(gang.request.vc) else None

    def delayed(self, gang: LineGang, promise: StartPromise) -> bool:
        """Whether a promise does not hold if a gang starts now; not so if the gang cannot start anyway.

        A gang with a higher priority need not keep it.
        """
        at, priority = promise.at, promise.gang.request.priority
        if at is None or promise.group == gang.request.group or gang.request.priority > priority:
            return False
        counted = self._counted_delay(gang, promise, at)
        return self._imagined_delay(gang, promise.gang, at) if counted is None else counted

    def _imagined_delay(self, gang: LineGang, head: LineGang, at: Millis) -> bool:
        """Whether the core has no place for the head of a line at an instant if a gang starts now."""
        with self.imagine(gang) as scratch:
            ends, _ = self.planned(gang.request.vc)
            if not self.start(gang, self.now):
                return False
            scratch.end(name for end, name in ends if end <= at)
            if gang.limit is not None and self.now + gang.limit <= at:
                scratch.end([gang.request.group])
            return not self._room(head, max(at, self.now))

    def _counted_delay(self, gang: LineGang, promise: StartPromise, at: Millis) -> bool | None:
        """The same, where leaves can be counted; None where the core must be asked."""
        head = promise.gang
        if not self._may_count(gang.request.vc) or not is_plain(self.engine, gang.request):
            return None
        count = self._room_at(promise, at)
        if count is None:
            return None
        in_time = gang.limit is not None and self.now + gang.limit <= at
        if in_time and count.is_uniform and count.fits():  # it uses no cells by then, and who goes for it leaves more
            return False
        place = place_of(self.engine, gang.request)
        if not isinstance(place, tuple):
            return place
        if self.engine.sparing is not None and gang.request.priority < head.request.priority:
            return None  # it may be shielded when the head is to take its cells
        if not in_time:
            count.take(place, gang.request.priority)
        return not count.fits()

    def _room_at(self, promise: StartPromise, at: Millis) -> RoomCount | None:
        """The leaves as they will be at a promised start; None where the core must be asked."""
        kept, vc = promise.room, promise.gang.request.vc
        lasts = promise.until is not None and self.now <= promise.until
        if kept is not None and lasts and kept.changes == self.engine.by_vc.changes(vc):
            return kept.copy()
        count = self._count(promise.gang)
        if count is None:
            return None
        groups, (ends, _) = self.engine.by_vc.of(vc), self.planned(vc)
        for end, name in ends:
            if end <= at:
                count.end(groups[name])
        return count

    def fits(self, gang: LineGang) -> bool:
        """Whether a gang has a place now, whoever has to go for it."""
        room = has_room(self.engine, gang.request) if self.counts and not self.windows else None
        return self._fits(gang, self.now) if room is None else room

    def longest(self, gang: LineGang, promise: StartPromise) -> Millis | None:
        """The longest run time with which a gang would start now and not delay a promised start; None if none is."""
        if promise.at is None or promise.at <= self.now:
            return None
        shorter = LineGang(gang.request, Millis(promise.at - self.now))
        with self.imagine(gang):
            starts = self.start(shorter, self.now)
        return shorter.limit if starts and not self.delayed(shorter, promise) else None

    def reasons(self, promise: StartPromise, starts: LineStarts | None = None) -> StartReasons:
        """Which groups a gang waits for: the fewest that would make room for it, those that end first preferred.

        Where none of those that run keeps it from a start, gangs do that have `starts` and may then run for ever.
        """
        gang = promise.gang
        with self.imagine(gang) as scratch:
            planned, unlimited = self.planned(gang.request.vc)
            ends = sorted(row for row in planned if row[1])
            if promise.at is None:
                scratch.end(name for _, name in ends)
                blocking = smallest(self._asking(gang, self.now), unlimited, scratch.end)
                return StartReasons(unlimited=tuple(blocking or self._endless(gang, starts)))
            until = [row for row in ends if row[0] <= promise.at]
            needed: Sequence[PlannedEnd] | None = []
            if promise.at > self.now:
                asking = self._asking(gang, promise.at)
                needed = smallest(asking, until, lambda some: scratch.end(name for _, name in some))
            return StartReasons(tuple((name, at) for at, name in (until if needed is None else needed)))

    @staticmethod
    def _endless(gang: LineGang, starts: LineStarts | None) -> tuple[str, ...]:
        """Gangs with a planned start that may run for ever where another would have to be put."""
        if starts is None or starts.plan is None:
            return ()
        views = starts.plan.leaves.views(gang.request)
        return tuple(
            name for name, start in starts.plan.starts.items() if start.end >= FOREVER and {*views} & {*start.views}
        )

    # --- a start for each gang in line

    def plan(
        self,
        vc: str,
        line: Sequence[LineGang],
        known: Mapping[str, Millis],
        footprints: dict[str, Footprint] | None = None,
    ) -> LineStarts | None:
        """The promises to all gangs in a line, none later than `known` before; None where only the core can tell.

        `footprints` are remembered from call to call.
        """
        if self.unplanned(vc):
            return None
        if len(line) == 1 and not known and has_room(self.engine, line[0].request):  # most gangs: it starts now
            return LineStarts((StartPromise(line[0], self.now, place=1),))
        leaves, struck = LeafTimes(self.engine, vc, self._latest_end, footprints), is_struck(self.engine, vc)
        plan = LinePlan.of(leaves, self.now, line, known, MOST, unbroken=struck)
        if struck and self._is_later(line[0] if line else None, plan, known):
            return None  # fewer places count than there may be: the core says what the first gang gets
        promises, number = list[StartPromise](), 0
        for gang in line:
            start = plan.starts.get(gang.request.group)
            if start is not None:
                number += 1
                promises.append(StartPromise(gang, start.at, place=number))
            elif number < MOST and not struck:  # nothing that ends by itself makes room for it
                promises.append(StartPromise(gang, None))
        return LineStarts(tuple(promises), plan, self._lasting(vc, plan))

    def _is_later(self, first: LineGang | None, plan: LinePlan, known: Mapping[str, Millis]) -> bool:
        """Whether the first gang in a line has no planned start, or a later one than before."""
        start = None if first is None else plan.starts.get(first.request.group)
        return start is None or start.at > max(known.get(start.group, start.at), self.now)

    def unplanned(self, vc: str) -> str:
        """Why only the first gang in a line may have a promised start although each should; empty if each may."""
        if self.windows_of(vc):
            return text("a maintenance window is planned")
        if self._keeps_from(vc):
            return text("cells are reserved")
        return "" if is_countable(self.engine, vc) else text("a gang is to get its guarantee back")

    def lost_by(self, vc: str) -> str:
        """Why gangs in a line may have lost their promised starts; empty if nothing but time and others can be why."""
        return text("hardware is bad") if is_struck(self.engine, vc) else self.unplanned(vc)

    def _latest_end(self, group: str) -> Millis:
        end = self.end_of(group)
        if end is None:
            return FOREVER
        return end if end >= self.now else Millis(self.now + GRACE)

    def _lasting(self, vc: str, plan: LinePlan) -> Millis | None:
        """As long as the groups of a virtual cluster and their limits stay the same, so does a plan until then."""
        ends, _ = self.planned(vc)
        if not self._are_fixed(ends):
            return None
        moments = [*(end for end, _ in ends), *(start.at for start in plan.starts.values())]
        return min((at for at in moments if at > self.now), default=FOREVER)

    def delayed_by(self, gang: LineGang, starts: LineStarts) -> StartPromise | None:
        """The first promise of a line that does not hold if a gang starts now; None if all do."""
        if starts.plan is None:
            head = starts.head
            return head if head is not None and self.delayed(gang, head) else None
        start = self._planned_delay(gang, starts.plan)
        return None if start is None else starts.of(start.group)

    def _planned_delay(self, gang: LineGang, plan: LinePlan) -> PlannedStart | None:
        own = plan.starts.get(gang.request.group)
        end = FOREVER if gang.limit is None else Millis(self.now + gang.limit)
        if (own is not None and own.at <= self.now) or plan.harms_nobody(gang, end):
            return None
        place = place_of(self.engine, gang.request)
        if isinstance(place, tuple):
            return plan.broken_by(gang, place, end)
        if place is False:
            return None
        with self.imagine(gang):
            if not self.start(gang, self.now):
                return None
            group = gang.request.group
            ends = LeafTimes(
                self.engine, gang.request.vc, lambda name: end if name == group else self._latest_end(name)
            )
            return plan.broken_in(gang, end, ends)

    def longest_beside(self, gang: LineGang, starts: LineStarts) -> Millis | None:
        """The longest run time with which a gang would start now and delay no promised start; None if none is."""
        promise = self.delayed_by(gang, starts)
        if promise is None or promise.at is None or promise.at <= self.now:
            return None
        if starts.plan is None:
            return self.longest(gang, promise)
        shorter = LineGang(gang.request, Millis(promise.at - self.now))
        with self.imagine(gang):
            fits = self.start(shorter, self.now)
        return shorter.limit if fits and self.delayed_by(shorter, starts) is None else None

    # --- the imagined state

    @contextmanager
    def imagine(self, gang: LineGang) -> Iterator[Scratch]:
        """Whatever is done to the engine inside is undone at the end."""
        scratch = Scratch(self.engine, gang.request, None)
        with scratch.imagine():
            yield scratch

    def planned(self, vc: str) -> tuple[list[PlannedEnd], list[str]]:
        """Planned ends of the groups that matter to a virtual cluster and of windows; groups that may run for ever.

        With healthy hardware a gang with a guarantee waits for groups of its own virtual cluster that have one, and
        for nothing else (HiveD's safety), so no other groups need to end.
        """
        state = self.engine.state
        every = is_struck(self.engine, vc)
        groups = state.groups.by_name if every or state.journal.depth else self.engine.by_vc.of(vc)
        ends, unlimited = list[PlannedEnd](), list[str]()
        for name, group in groups.items():
            if every or _counts(group, vc):
                end = self.end_of(name)
                if end is None:
                    unlimited.append(name)
                else:
                    ends.append((end if end >= self.now else Millis(self.now + GRACE), name))
        ends += [(window.end, "") for window in self.windows_of(vc) if window.end > self.now]
        if self.reserved is not None:
            ends += [(end, "") for end in self.reserved.ends(vc, self.now)]
        return ends, unlimited

    def _asked(self, gang: LineGang, at: Millis) -> tuple[PodRequest, frozenset[str] | None]:
        """The request of a gang as it is asked at an instant while windows are ahead, and its nodes; None: all."""
        if not self.windows:
            return gang.request, None
        nodes = frozenset(self.engine.state.physical.nodes)
        return replace(gang.request, ignore_suggested=False), nodes - self.windows.closed(at, gang.limit)

    def _asking(self, gang: LineGang, at: Millis) -> Scratch:
        return Scratch(self.engine, *self._asked(gang, at))

    def _fits(self, gang: LineGang, at: Millis) -> bool:
        try:
            return not isinstance(self.engine.plan(*self._asked(gang, at)), Wait)
        except RequestError:
            return False

    def _room(self, gang: LineGang, at: Millis) -> bool:
        """Whether a gang has a place at an instant, and takes no cells that are reserved."""
        return self._fits(gang, at) and (self.reserved is None or self.reserved.clash(self, gang, at) is None)

    def start(self, gang: LineGang, at: Millis) -> bool:
        """Give a gang its place in the imagined state, whoever has to go for it; whether there is one."""
        request, nodes = self._asked(gang, at)
        try:
            decision = self.engine.plan(request, nodes)
            if isinstance(
                decision, Preempt
            ):  # its place is that of now, not the one that it would get once they are gone
                decision = self.engine.plan(request, nodes, Phase.PREEMPTING)
            if isinstance(decision, Preempt):
                slots = self.engine.state.groups.slots
                victims = {slots[uid][0] for _, uids in decision.victims for uid in uids}
                self.engine.apply(decision)
                Scratch(self.engine, request, None).end(sorted(victims))
                decision = self.engine.plan(request, nodes)
            if isinstance(decision, Bind):
                self.engine.apply(decision)
        except RequestError:
            return False
        return isinstance(decision, Bind)


def _counts(group: Group, vc: str) -> bool:
    return group.vc == vc and (group.virtual is not None or group.state is GroupState.PREEMPTING)
