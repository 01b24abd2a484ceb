"""The order of opportunistic gangs behind the doors, by departments (`docs/departments.md`) and by recent use
(`docs/opportunistic-order.md`).

The placer tries gangs in this order. kube-scheduler asks the extender about pods in its own order, so there a gang
waits while one that goes before it has a place. All of it needs the core's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from paictl.cluster.pods.lines import WaitingPod, lines_of
from paictl.i18n import text
from paictl.units import Millis
from paictl.workload.devicelimits import devices_of
from paictl.workload.lentorder import LineAhead, Turns, WaitingGang

if TYPE_CHECKING:
    from paictl.doors.table import GangKey, PodEntry, PodTable
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.request import PodRequest
    from paictl.workload.backfill import LineGang

PATIENCE: Final = 60_000
"""Milliseconds for which others wait for a gang that could start: kube-scheduler may refuse it for other reasons."""
FRESH: Final = 10_000
"""Milliseconds after which a gang's fit is checked again: maintenance windows come closer."""
TRIED: Final = 16
"""Kinds of gangs that are checked for one that waits behind them."""


class DoorTurns:
    """The order of one core's opportunistic gangs."""

    def __init__(
        self,
        table: PodTable,
        engine: Engine,
        now: Callable[[], Millis],
        *,
        in_line: Callable[[PodEntry], bool],
        fits: Callable[[LineGang], bool],
    ) -> None:
        self.standing: Callable[[], Turns | None] = lambda: None
        """The current order; None: no order is configured."""
        self.in_line = in_line
        """Whether only missing devices keep a pod from a place."""
        self.fits = fits
        """Whether a gang has a place now."""
        self.holds_back = True
        """Whether gangs wait for those before them; False if the door itself tries them in order."""
        self._table = table
        self._engine = engine
        self._now = now
        self._line: tuple[tuple[int, int], list[LineGang]] = (-1, -1), []
        self._fitting: tuple[tuple[int, int], dict[object, bool]] = (-1, -1), {}
        """By kind of request: whether it has a place, at one version of the engine."""
        self._ready: dict[GangKey, Millis] = {}
        """Since when gangs for which others wait could start."""
        self._stalled: frozenset[GangKey] = frozenset()

    def renew(self, now: Millis) -> bool:
        """Whether the gangs that have been ready for so long that others need not wait for them have changed."""
        self._ready = {gang: min(since, now) for gang, since in self._ready.items()}  # the clock may be set back
        stalled = frozenset(gang for gang, since in self._ready.items() if since + PATIENCE <= now)
        changed, self._stalled = stalled != self._stalled, stalled
        return changed

    def obstacle(self, request: PodRequest, changes: int) -> str:
        """Why a gang must not start now; empty if none that goes before it has a place.

        `changes` counts news of pods. The reason names no gang, because kube-scheduler shows it to the pod's owner;
        `ahead` names it, for readers who may know.
        """
        turns = self._turns(request)
        if turns is None or not self.holds_back:
            return ""
        own = self._gang(request)
        rank, kinds, first = turns.rank(*own), set[object](), None
        line = [(turns.rank(*self._gang(gang.request)), gang) for gang in self._waiting(changes)]
        for place, gang in sorted(line, key=lambda row: row[0]):
            kind = _kind(gang)
            if place >= rank or len(kinds | {kind}) > TRIED:
                break
            kinds.add(kind)
            # the patience with all of them starts at once: one after another, it would never end
            if self._has_place(gang, kind) and not self._stalls(self._key(gang)) and first is None:
                first = turns.ahead(own, [self._gang(gang.request)])
        if first is None:
            return ""
        if first.unused:
            return text("another gang goes first: its virtual cluster or department has unused devices")
        return text("another gang goes first: its owner recently used less without a guarantee")

    def ahead(self, request: PodRequest, changes: int) -> LineAhead | None:
        """The gangs that go before a waiting one; None if the configured order puts none before it."""
        turns = self._turns(request)
        if turns is None:
            return None
        return turns.ahead(self._gang(request), [self._gang(gang.request) for gang in self._waiting(changes)])

    def _turns(self, request: PodRequest) -> Turns | None:
        if request.guaranteed or request.group in self._engine.state.groups.by_name:
            return None
        return self.standing()

    def _gang(self, request: PodRequest) -> WaitingGang:
        entry = self._table.by_uid.get(request.uid)
        return request.vc, "" if entry is None else entry.user, devices_of(request.members)

    def _waiting(self, changes: int) -> list[LineGang]:
        key, placed = (self._engine.version, changes), self._engine.state.groups.by_name
        if self._line[0] != key:
            gangs: dict[GangKey, list[WaitingPod]] = {}
            for entry in self._table:
                if entry.reading is None or entry.runs or entry.deleting or entry.reservation:
                    continue
                request = entry.reading.request
                if not request.guaranteed and request.group not in placed and self.in_line(entry):
                    pod = WaitingPod(request, entry.limit, entry.created)
                    gangs.setdefault(self._table.gang(entry.ref, request.group), []).append(pod)
            self._line = key, [gang for line in lines_of(gangs.values()).values() for gang in line]
            waiting_gangs = {self._key(gang) for gang in self._line[1]}
            self._ready = {gang: since for gang, since in self._ready.items() if gang in waiting_gangs}
        return self._line[1]

    def _has_place(self, gang: LineGang, kind: object) -> bool:
        key = self._engine.version, self._now() // FRESH
        if self._fitting[0] != key:
            self._fitting = key, {}
        has_place = self._fitting[1]
        if kind not in has_place:
            has_place[kind] = self.fits(gang)
        if not has_place[kind]:
            self._ready.pop(self._key(gang), None)
        return has_place[kind]

    def _key(self, gang: LineGang) -> GangKey:
        entry = self._table.by_uid.get(gang.request.uid)
        return ("", gang.request.group) if entry is None else self._table.gang(entry.ref, gang.request.group)

    def _stalls(self, gang: GangKey) -> bool:
        return self._ready.setdefault(gang, self._now()) + PATIENCE <= self._now()


def _kind(gang: LineGang) -> object:
    """A key that is equal for opportunistic gangs that get the same answer."""
    request = gang.request
    return request.members, request.leaf_type, request.pinned_id, request.ignore_suggested, gang.limit
