"""EASY backfill: the head of the line has a promised start, and jobs that do not delay it may overtake."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Final

from paictl.sim.actions import Trigger
from paictl.sim.cluster import Devices
from paictl.sim.policies.base import Setup
from paictl.sim.policies.limits import Limited, LimitParameters
from paictl.sim.view import JobView

Group = tuple[int, Hashable]
"""Key of waiting jobs that the placement treats alike: (devices, placement group)."""
_NEVER: Final = 1 << 80
"""Later than any instant of a run."""


class WaitingIndex:
    """Waiting jobs of one size and placement group, in the order of arrival, indexed by limit.

    A tree of minima finds the first job whose limit is at most a bound in O(log jobs).
    """

    __slots__ = ("_jobs", "_leaves", "_tree", "alive")

    def __init__(self) -> None:
        self._leaves = 1
        self._tree = [_NEVER, _NEVER]
        self._jobs: list[JobView] = []
        self.alive = 0

    def append(self, job: JobView, limit: int) -> None:
        """Add a job behind all others; `limit` in milliseconds."""
        if len(self._jobs) == self._leaves:
            self._grow()
        self._jobs.append(job)
        self._set(len(self._jobs) - 1, limit)
        self.alive += 1

    def first(self, bound: int = _NEVER - 1) -> tuple[int, JobView] | None:
        """(place, job) of the first job whose limit is at most `bound` milliseconds; None if there is none."""
        tree, node = self._tree, 1
        if tree[1] > bound:
            return None
        while node < self._leaves:
            node *= 2
            node += tree[node] > bound
        place = node - self._leaves
        return place, self._jobs[place]

    def remove(self, place: int) -> None:
        """Remove the job at a place; places are valid until the next `append`."""
        self._set(place, _NEVER)
        self.alive -= 1

    def _set(self, place: int, limit: int) -> None:
        tree, node = self._tree, self._leaves + place
        tree[node] = limit
        while node > 1:
            node //= 2
            least = min(tree[2 * node], tree[2 * node + 1])
            if tree[node] == least:
                return
            tree[node] = least

    def _grow(self) -> None:
        """Drop removed jobs; double the tree if more than half of the jobs still wait."""
        waiting = [
            (job, limit) for job, limit in zip(self._jobs, self._tree[self._leaves :], strict=False) if limit < _NEVER
        ]
        while self._leaves < 2 * len(waiting):
            self._leaves *= 2
        self._tree = [_NEVER] * (2 * self._leaves)
        self._jobs = [job for job, _ in waiting]
        for place, (_, limit) in enumerate(waiting):
            self._set(place, limit)


class Easy(Limited):
    """The first waiting job is promised the earliest time at which the limits of running jobs guarantee room for it.

    Others may start earlier, in the order of submission, if their limit ends by then, or if they use none of the
    devices that it will need. Example: `easy:limits=factor,factor=2`.
    """

    id = "easy"
    title = "EASY backfill: jobs overtake without delaying the first in line, by run-time limits"
    paper = "Lifka, JSSPP'95 (The ANL/IBM SP Scheduling System)"
    choices = (
        "only the first in line has a promise, which is renewed at each decision; a promise is broken if a job "
        "starts after its first promise",
        "if placement matters, the limits of running jobs are simulated until the first in line finds a place; "
        "those devices are kept for it",
        "a job that has no place even on an idle cluster is set aside and blocks no other job",
        "while devices are down, the first in line has no promise if it needs them; the others start",
        "a job that runs slower than on the reference device needs more time than `limits=exact` allows",
    )

    endures = True

    def __init__(self, parameters: LimitParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._line: deque[JobView] = deque()
        self._groups: dict[Group, WaitingIndex] = {}
        self._started: set[int] = set()
        """Numbers of jobs that are still in the line but have overtaken and started."""
        self._down = 0
        """Number of failed devices."""
        self._counts = not self.placement.located and len(self.cluster.types) == 1
        """Whether counting devices is enough, because all of them are alike."""
        self._shadow = 0
        """The promised start of the head of the line: the time at which it can start at the latest."""
        self._extra = 0
        """Devices that the head will not need then; only if counting is enough."""
        self._needed: Devices = ()
        """Devices, free now, that the head will need then; only if counting is not enough."""

    def hardware(self, failed: Devices, repaired: Devices) -> None:
        """Promises do not count on failed devices."""
        super().hardware(failed, repaired)
        self._down += len(failed) - len(repaired)

    def schedule(self, moment: Trigger, freed: bool) -> None:  # noqa: ARG002 - as the base class
        """Start jobs from the head of the line, then those that do not delay the new head."""
        for job in moment.arrived:
            self._line.append(job)
            self._groups.setdefault((job.gpus, self.placement.group(job)), WaitingIndex()).append(job, self.limit(job))
        while (head := self._head()) is not None:
            if head.gpus <= self.placement.free and self.run(head):
                self._remove(head)
                self._line.popleft()
            elif self.placement.free == 0 and self.promised(head):
                return  # no job can start, so there is no need to renew the promise
            elif self._reserve(head):
                self.promise(head, self._shadow)
                self._backfill(head)
                return
            elif self._down:  # there may be a place after repairs; until then any job may start
                self._shadow, self._extra, self._needed = _NEVER, self.placement.free, ()
                self._backfill(head)
                return
            else:
                self._remove(head)  # no place even on an idle cluster
                self._line.popleft()

    def _head(self) -> JobView | None:
        line = self._line
        while line and line[0].number in self._started:
            self._started.remove(line.popleft().number)
        return line[0] if line else None

    def _remove(self, head: JobView) -> None:
        """Remove the head of the line from its group, in which it is the first."""
        group = self._groups[head.gpus, self.placement.group(head)]
        first = group.first()
        assert first is not None  # noqa: S101 - it waits
        group.remove(first[0])

    # --- the promise

    def _reserve(self, head: JobView) -> bool:
        """Compute the shadow time of the head of the line; False if there is never a place for it."""
        return self._reserve_count(head) if self._counts else self._reserve_places(head)

    def _reserve_count(self, head: JobView) -> bool:
        free, at = self.placement.free, int(self.now)
        for end, _, job in self.planned:
            if free >= head.gpus and end > at:
                break
            free, at = free + job.gpus, end
        self._shadow, self._extra = at, free - head.gpus
        return free >= head.gpus

    def _reserve_places(self, head: JobView) -> bool:
        """Apply the planned ends to the placement itself, then undo them."""
        released: list[Devices] = []
        place: Devices | None = None
        for end, _, job in self.planned:
            released.append(self.held(job))
            self.placement.give(released[-1])
            if head.gpus <= self.placement.free and (place := self.placement.take(head, head.gpus)) is not None:
                self._shadow = end
                self.placement.give(place)
                break
        for devices in reversed(released):
            self.placement.claim(devices)
        busy = {device for devices in released for device in devices}
        self._needed = tuple(device for device in place or () if device not in busy)
        return place is not None

    # --- jobs that overtake

    def _backfill(self, head: JobView) -> None:
        full = {(head.gpus, self.placement.group(head))}
        """Groups of which no job fits."""
        short: set[Group] = set()
        """Groups of which only jobs that end by the shadow time may fit."""
        while (candidate := self._next(full, short)) is not None:
            key, place, job = candidate
            ends = self.now + self.limit(job) <= self._shadow
            if self._overtake(job, ends=ends):
                self._groups[key].remove(place)
                self._started.add(job.number)
                self.overtakes(job)
            else:
                (full if ends else short).add(key)

    def _next(self, full: set[Group], short: set[Group]) -> tuple[Group, int, JobView] | None:
        """(group, place in it, job) of the earliest job that may overtake."""
        best: tuple[Group, int, JobView] | None = None
        for key, group in self._groups.items():
            if key[0] > self.placement.free or not group.alive or key in full:
                continue
            beside = key not in short and (not self._counts or key[0] <= self._extra)
            first = group.first() if beside else group.first(self._shadow - self.now)
            if first is not None and (best is None or first[1].number < best[2].number):
                best = key, *first
        return best

    def _overtake(self, job: JobView, *, ends: bool) -> bool:
        """Start a job; if it does not end by the shadow time, on devices that the head of the line does not need."""
        if self._counts:
            self._extra -= 0 if ends else job.gpus
            return self.run(job)
        if not ends:
            self.placement.claim(self._needed)
        started = self.run(job)
        if not ends:
            self.placement.give(self._needed)
        elif started:
            own = set(self.held(job))
            self._needed = tuple(device for device in self._needed if device not in own)
        return started
