"""Who has a promised start in each virtual cluster, and what that depends on (`docs/backfill.md`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from paictl.units import Millis
from paictl.workload.backfill import (
    FOREVER,
    BackfillMode,
    BackfillRules,
    Foresight,
    KeptCells,
    LineGang,
    LineStarts,
    PlannedTimes,
    StartPromise,
)
from paictl.workload.roomcount import has_cells_on, is_calm, is_struck
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.workload.startplan import Footprint

Value = TypeVar("Value")
LineRow: TypeAlias = tuple[int, int, str]
"""The place of a group in a line without promises: (-priority, number of the job, group)."""


class _Made(Generic[Value]):
    """Promises made `at` an instant, and what they depend on: all of `key`, or until their `until` `lasting`."""

    __slots__ = ("at", "key", "lasting", "promise")

    def __init__(
        self, key: tuple[object, ...], lasting: tuple[object, ...] | None, at: Millis, promise: Value | None
    ) -> None:
        self.key, self.lasting, self.at, self.promise = key, lasting, at, promise


def _again(known: _Made[StartPromise], lasting: tuple[object, ...], now: Millis) -> StartPromise | None:
    """The promise as it would be made now, None if that has to be found out."""
    promise = known.promise
    if promise is None or promise.until is None or now > promise.until or known.lasting != lasting:
        return None
    return replace(promise, at=now) if promise.at == known.at else promise


class StartPromises:
    """The promises of all virtual clusters, made anew only when something has changed that they depend on.

    It alone guarantees that who was promised a start stays before all others of its priority until it starts or goes.
    """

    def __init__(
        self,
        rules: BackfillRules,
        end_of: Callable[[str], Millis | None],
        keep: int = 1,
        times: PlannedTimes | None = None,
    ) -> None:
        """Promises are made anew after `keep` milliseconds although nothing has changed: planned ends may move.

        With `times`, changes in other virtual clusters are no reason to make them anew.
        """
        self.rules = rules
        self._end_of = end_of
        self._keep = keep
        self._times = times
        self.reserved: KeptCells | None = None
        """What is reserved, and so is free for no promise."""
        self._made: dict[str, _Made[StartPromise]] = {}
        self.heads: dict[str, str] = {}
        """By virtual cluster: the group that has a promise, where the head of the line has one."""
        self.planned: dict[str, dict[str, Millis]] = {}
        """By virtual cluster and group: the promised starts, where all gangs in line have one."""
        self._due: dict[str, frozenset[str]] = {}
        """The groups whose time had come when promises were settled last."""
        self._heads: dict[str, LineStarts] = {}
        self._plans: dict[str, _Made[LineStarts]] = {}
        self._footprints: dict[str, dict[str, Footprint]] = {}
        """By virtual cluster and group: which nodes it uses, which stays the same while it runs."""

    def rank(self, request: PodRequest) -> tuple[int, int]:
        """The place of a gang in its line, beside the order of submission: those with a promise by its instant."""
        vc, group = request.vc, request.group
        at = -1 if self.heads.get(vc) == group else self.planned.get(vc, {}).get(group, FOREVER)
        return -request.priority, at

    def recall(self, vc: str, known: Mapping[str, Millis]) -> None:
        """These starts were promised in a virtual cluster, as its former keeper remembers them.

        They hold as far as they can still be held: one that cannot is made anew when promises are settled next.
        """
        if known and self.rules.mode(vc) is BackfillMode.CONSERVATIVE:
            self.planned[vc] = dict(known)
        elif known:
            self.heads[vc] = min(known, key=lambda group: (known[group], group))

    def by_start(self) -> list[tuple[int, str]]:
        """The groups with a promise and its instant; that of the head of a line counts as the first of all."""
        heads = [(0, group) for vc, group in self.heads.items() if vc not in self.planned]
        return heads + [(at, group) for planned in self.planned.values() for group, at in planned.items()]

    def foresight(self, engine: Engine, now: Millis, windows: Windows) -> Foresight:
        """What the future holds from now on."""
        return Foresight(engine, now, self._end_of, windows, self.reserved, self._times)

    def promise(
        self, engine: Engine, now: Millis, windows: Windows, vc: str, line: Sequence[LineGang]
    ) -> StartPromise | None:
        """The promise in a virtual cluster; `line` are the first gangs that wait there, in order."""
        gangs = tuple((gang.request.group, gang.limit) for gang in line)
        key = engine, engine.version, windows, self.reserved, gangs
        known = self._made.get(vc)
        if known is not None and known.key == key and known.at <= now < known.at + self._keep:
            return known.promise
        lasting = None
        if self._times is not None and self._is_alone(engine, windows, vc):
            lasting = engine, engine.by_vc.changes(vc), self._times.version(vc), gangs
        made = None if known is None or lasting is None else _again(known, lasting, now)
        if made is None:
            made = self.foresight(engine, now, windows).promise(line)
        self._made[vc] = _Made(key, lasting, now, made)
        return made

    def starts(
        self, engine: Engine, now: Millis, windows: Windows, vc: str, line: Sequence[LineGang]
    ) -> LineStarts | None:
        """The promises in a virtual cluster, None if there are none; `line` as for `promise`."""
        if self.rules.mode(vc) is BackfillMode.CONSERVATIVE and not self._keeps_head(engine, vc, line):
            made = self._plan(engine, now, windows, vc, line)
            if made is not None:
                return made
        promise, known = self.promise(engine, now, windows, vc, line), self._heads.get(vc)
        if promise is None:
            return None
        if known is None or known.head is not promise:
            known = self._heads[vc] = LineStarts((promise,))
        return known

    def _keeps_head(self, engine: Engine, vc: str, line: Sequence[LineGang]) -> bool:
        """Whether the first gang has the core's own promise, which counting beside bad hardware may not keep."""
        head = self.heads.get(vc)
        return head is not None and is_struck(engine, vc) and any(gang.request.group == head for gang in line)

    def _plan(
        self, engine: Engine, now: Millis, windows: Windows, vc: str, line: Sequence[LineGang]
    ) -> LineStarts | None:
        gangs, planned = tuple((gang.request.group, gang.limit) for gang in line), self.planned.get(vc, {})
        key = engine, engine.version, windows, self.reserved, gangs, planned
        known = self._plans.get(vc)
        if known is not None and known.key == key and known.at <= now < known.at + self._keep:
            return known.promise
        lasting = None
        if self._times is not None and self._is_alone(engine, windows, vc):
            lasting = engine, engine.by_vc.changes(vc), self._times.version(vc), gangs, planned
        made = None if known is None or lasting is None or known.lasting != lasting else known.promise
        if made is None or made.until is None or now > made.until:
            made = self.foresight(engine, now, windows).plan(vc, line, planned, self._footprints.setdefault(vc, {}))
        self._plans[vc] = _Made(key, lasting, now, made)
        return made

    def _is_alone(self, engine: Engine, windows: Windows, vc: str) -> bool:
        """Whether nothing but its own groups and their limits decides when gangs of a virtual cluster start."""
        closed = (node for window in windows for node in window.nodes)
        kept = self.reserved is not None and self.reserved.concerns(engine, vc)
        return is_calm(engine, vc) and not kept and not has_cells_on(engine, vc, closed)

    def renew(
        self,
        engine: Engine,
        now: Millis,
        windows: Windows,
        lines: Callable[[], Mapping[str, Sequence[LineGang]]],
        vcs: Collection[str] | None = None,
    ) -> tuple[dict[str, LineStarts], set[str]]:
        """Settle the promises of all lines, or of those of `vcs`; where that may let others start (`settle`), as a set.

        `lines` gives the gangs that wait, in the order of their ranks. That order follows from the promises, and the
        promises from the order. So they are made again until they stay the same: otherwise somebody would be told a
        start that a gang may still delay that comes later. That ends: what was promised fits together, so a pass only
        moves starts forward or adds some, except those of a lower priority where a higher one has changed. So the
        highest priority that changes gets better with each pass, and no start is before `now`.
        """
        changed = set[str]()
        while True:
            by_vc = dict[str, LineStarts]()
            for vc, line in sorted(lines().items()):
                if (starts := self.starts(engine, now, windows, vc, line)) is not None:
                    by_vc[vc] = starts
            before = dict(self.planned)
            for vc in sorted({*by_vc, *self.heads, *self.planned}) if vcs is None else vcs:
                if self.settle(vc, by_vc.get(vc), now):
                    changed.add(vc)
            if before == self.planned:
                return by_vc, changed

    def settle(self, vc: str, starts: LineStarts | None, now: Millis) -> bool:
        """These promises hold from now on; whether that may let others start who waited for them, or their gangs."""
        head, planned = None, dict[str, Millis]()
        if starts is not None and starts.plan is not None:
            planned = starts.times()
        elif starts is not None and starts.head is not None and starts.head.at is not None:
            head = starts.head.group
        before, due = self.planned.get(vc, {}), frozenset(group for group, at in planned.items() if at <= now)
        changed = head != self.heads.get(vc) or due != self._due.get(vc, frozenset())
        changed |= any(planned.get(group, FOREVER) > max(at, now) for group, at in before.items())
        _put(self.heads, vc, head)
        _put(self.planned, vc, planned)
        _put(self._due, vc, due)
        return changed

    def next_start(self, now: Millis, without: Collection[str] = ()) -> Millis | None:
        """The next promised start of a gang that is not the head of its line: nothing else may happen then.

        Those in the virtual clusters `without` do not count.
        """
        rows = (planned for vc, planned in self.planned.items() if vc not in without)
        return min((at for planned in rows for at in planned.values() if at > now), default=None)


def _put(known: dict[str, Value], vc: str, value: Value | None) -> None:
    """Remember something of a virtual cluster; nothing of one for which there is nothing."""
    if value:
        known[vc] = value
    else:
        known.pop(vc, None)
