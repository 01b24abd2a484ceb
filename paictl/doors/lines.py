"""Which gangs wait behind a door, and when running groups end: kept up to date pod by pod, so that decisions are cheap.

Everything here is derived from the pod table and the engine. All of it needs the core's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from paictl.cluster.pods.lines import PodTimes, WaitingPod, end_of, in_order
from paictl.units import Millis
from paictl.workload.backfill import LineGang

if TYPE_CHECKING:
    from paictl.doors.table import GangKey, PodEntry, PodTable
    from paictl.scheduler.engine import Engine
    from paictl.scheduler.groups import Group
    from paictl.scheduler.request import PodRequest
    from paictl.workload.backfill import BackfillRules

FRESH: Final = 30_000
"""Milliseconds after which a line is rebuilt even if nothing that it depends on has changed."""
_OWNED: Final = "//"
"""Follows the namespace in the name of a gang in a line. No other granted namespace may have a group of such a name."""


class DoorLines:
    """The lines of the virtual clusters with backfill.

    Where namespaces are kept apart, gangs of two of them may wait under one name. So promises go by names of lines
    (`named`), which begin with the namespace; elsewhere they are those of the groups.
    """

    def __init__(self, rules: BackfillRules, engine: Engine, table: PodTable) -> None:
        self.in_line: Callable[[PodEntry], bool] = lambda _: True
        """Whether only missing devices keep a pod from a place."""
        self._rules = rules
        self._engine = engine
        self._table = table
        self._place: dict[str, tuple[str, GangKey]] = {}
        """By uid: the virtual cluster and gang under which a pod is in `_waiting`; empty if the pod cannot be read."""
        self._waiting: dict[str, dict[GangKey, dict[str, PodEntry]]] = {}
        """By virtual cluster, gang and uid: pods that were not running at the last news of them."""
        self._news: dict[str, int] = {}
        self._renewals = 0
        self._made: dict[str, tuple[tuple[int, ...], list[LineGang]]] = {}
        self._groups: dict[str, frozenset[str]] = {}

    def named(self, request: PodRequest) -> PodRequest:
        """A pod's request with the name that its gang has in lines and promises."""
        namespace, _ = self._gang(request)
        return replace(request, group=f"{namespace}{_OWNED}{request.group}") if namespace else request

    def key(self, name: str) -> GangKey:
        """The gang of a name in lines and promises."""
        namespace, _, group = name.partition(_OWNED) if self._table.apart else ("", "", name)
        return namespace, group

    def _gang(self, request: PodRequest) -> GangKey:
        entry = self._table.by_uid.get(request.uid) if self._table.apart else None
        return ("", request.group) if entry is None else self._table.gang(entry.ref, request.group)

    def start(self, entries: Iterable[PodEntry]) -> None:
        """Enter pods that are known already."""
        for entry in entries:
            self.heard(entry, there=True)

    def heard(self, entry: PodEntry, *, there: bool) -> None:
        """A pod has changed, or no longer exists (`there`); that it runs may become known a moment later."""
        uid = entry.ref.uid
        if uid in self._place:
            old, _ = self._place[uid]
            self._drop(uid)
            if not self._waiting[old]:
                del self._waiting[old]
                self._made.pop(old, None)
                self._groups.pop(old, None)
            self._news[old] = self._news.get(old, 0) + 1
        if there and not entry.runs:
            request = None if entry.reading is None else entry.reading.request
            vc, gang = self._place[uid] = (
                ("", ("", "")) if request is None else (request.vc, self._table.gang(entry.ref, request.group))
            )
            self._waiting.setdefault(vc, {}).setdefault(gang, {})[uid] = entry
            self._news[vc] = self._news.get(vc, 0) + 1

    def renew(self) -> None:
        """What keeps pods out of the lines may have changed for any pod."""
        self._renewals += 1

    def entries(self) -> Iterator[PodEntry]:
        """All waiting pods, and perhaps some that run by now."""
        return (entry for gangs in self._waiting.values() for pods in gangs.values() for entry in pods.values())

    def has(self, name: str) -> bool:
        """Whether a gang was in a line when the lines were last built."""
        return any(name in groups for groups in self._groups.values())

    def is_alone(self, request: PodRequest) -> bool:
        """Whether no other gang in the virtual cluster waits for cells; the request's gang must not have a place."""
        placed, gangs = self._engine.state.groups.by_name, self._waiting.get(request.vc, {})
        own = self._gang(request)
        # Every decision calls this: it looks at the first pod of each gang only, and drops each running pod once.
        return not any(self._any_waits(gangs[gang]) and gang[1] not in placed for gang in list(gangs) if gang != own)

    def _any_waits(self, pods: dict[str, PodEntry]) -> bool:
        """Whether a pod of a gang does not run yet; running pods before it are dropped."""
        running, waits = list[str](), False
        for uid, entry in pods.items():
            if not entry.runs:
                waits = True
                break
            running.append(uid)
        for uid in running:
            self._drop(uid)
        return waits

    def _drop(self, uid: str) -> None:
        vc, gang = self._place.pop(uid)
        pods = self._waiting[vc][gang]
        del pods[uid]
        if not pods:
            del self._waiting[vc][gang]

    def find(self, name: str) -> LineGang | None:
        """A gang that was in a line when the lines were last built."""
        gangs = (gang for _, line in self._made.values() for gang in line)
        return next((gang for gang in gangs if gang.request.group == name), None)

    def all(self, now: Millis) -> dict[str, list[LineGang]]:
        """The waiting gangs of each virtual cluster that has some, by priority and age."""
        return {vc: line for vc in self._waiting if (line := self.of(vc, now))}

    def of(self, vc: str, now: Millis) -> list[LineGang]:
        """The waiting gangs of a virtual cluster, by priority and age."""
        gangs = self._waiting.get(vc)
        if gangs is None:
            return []
        key = self._engine.by_vc.changes(vc), self._news.get(vc, 0), self._renewals, now // FRESH
        cached = self._made.get(vc)
        if cached is None or cached[0] != key:
            cached = key, self._make(gangs)
            self._made[vc], self._groups[vc] = cached, frozenset(gang.request.group for gang in cached[1])
        return cached[1]

    def _make(self, gangs: dict[GangKey, dict[str, PodEntry]]) -> list[LineGang]:
        for uid in [uid for pods in gangs.values() for uid, entry in pods.items() if entry.runs]:
            self._drop(uid)
        placed = self._engine.state.groups.by_name
        line = in_order(self._standing(pods) for (_, group), pods in gangs.items() if group not in placed)
        return [LineGang(self.named(gang.request), gang.limit) for gang in line] if self._table.apart else line

    def _standing(self, pods: dict[str, PodEntry]) -> list[WaitingPod]:
        """The pods of a gang that only missing devices keep from a place."""
        return [
            WaitingPod(entry.reading.request, entry.limit, entry.created)
            for entry in pods.values()
            if entry.reading is not None
            and not entry.deleting
            and not entry.reservation
            and self._rules.covers(entry.reading.request)
            and self.in_line(entry)
        ]


class DoorEnds:
    """When groups end at the latest (`PlannedTimes`)."""

    def __init__(self, engine: Engine, table: PodTable, now: Callable[[], Millis]) -> None:
        self._engine = engine
        self._table = table
        self._now = now
        self._fixed: dict[str, tuple[Group, Millis | None]] = {}
        """Ends that do not move with the clock, because all pods with a limit have begun."""
        self._versions: dict[str, int] = {}

    def __call__(self, group: str) -> Millis | None:
        """When the last pod of a group ends at the latest; None if one of them may run for ever."""
        running_group = self._engine.state.groups.by_name.get(group)
        fixed = self._fixed.get(group)
        if fixed is not None and fixed[0] is running_group:
            return fixed[1]
        end = end_of(self._engine, group, self._times, self._now())
        if running_group is not None and self._has_begun(running_group):
            self._fixed[group] = running_group, end
        else:
            self._fixed.pop(group, None)
        return end

    def is_fixed(self, group: str) -> bool:
        """Whether the end stays the same until it has passed, unless a limit changes; compute the end first."""
        return group in self._fixed

    def version(self, vc: str) -> int:
        """A number that stays the same as long as no limit or begin in a virtual cluster changes."""
        return self._versions.get(vc, 0)

    def heard(self, entry: PodEntry) -> None:
        """A pod has changed."""
        groups = self._engine.state.groups
        slot = groups.slots.get(entry.ref.uid)
        if slot is None:
            return
        name = slot[0]
        before = self._fixed.pop(name, None)
        if before is None or self(name) != before[1] or name not in self._fixed:
            vc = groups.by_name[name].vc
            self._versions[vc] = self._versions.get(vc, 0) + 1

    def _has_begun(self, group: Group) -> bool:
        if group.preempting:
            return False
        times = (self._times(uid) for row in group.pods for uid in row if uid)
        return all(pod_times is None or pod_times.limit is None or pod_times.began is not None for pod_times in times)

    def _times(self, uid: str) -> PodTimes | None:
        entry = self._table.by_uid.get(uid)
        return None if entry is None else PodTimes(entry.limit, entry.began)
