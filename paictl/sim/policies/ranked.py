"""Preemptive policies that run what a walk down their ranking picks: `srtf` and `srsf`, and the base of `las` and
`gittins`.

The walk starts the first job, then each next one for which there is still room. Repeating it at each event would cost
time linear in the jobs. Three facts avoid that (free(p) is the room that is left to the walk at rank p):

* All running jobs fit together, so the walk first differs from what runs at a *waiting* job: the first one that is not
  larger than free(p), where free(p) = free devices + devices of running jobs that rank behind p.
* free(p) only falls with p. So of the waiting jobs of one size only the first can be the next to start.
* From there on only jobs of the tail are preempted, and their sizes sum up to less than what is missing.

So a decision looks at one waiting job of each size and at the last few running jobs, however many there are.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterator
from heapq import merge

from paictl.sim.actions import Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Policy
from paictl.sim.policies.queue import Key
from paictl.sim.state import ONE
from paictl.sim.view import JobView

Group = tuple[int, Hashable]
"""Key of waiting jobs that the placement treats alike: (devices, placement group)."""

Entry = tuple[Key, int, JobView]
"""(key, number, job): compares as the ranking does."""


class _Tail:
    """Running jobs from the last rank upwards, read on demand, with the sums of their devices."""

    __slots__ = ("_rest", "_sums", "seen")

    def __init__(self, rest: Iterator[Entry]) -> None:
        self._rest = rest
        self.seen: list[Entry] = []
        self._sums: list[int] = []
        """Running sums of the devices of `seen`."""

    def reach(self, devices: int) -> int:
        """The index of the first job (from the last rank) up to which the sum is at least `devices`.

        If all of them have fewer: the number of running jobs.
        """
        sums, entries = self._sums, self.seen
        while not sums or sums[-1] < devices:
            entry = next(self._rest, None)
            if entry is None:
                return len(entries)
            sums.append(entry[2].gpus + (sums[-1] if sums else 0))
            entries.append(entry)
        return bisect_left(sums, devices)

    def behind(self, head: Entry, devices: int) -> bool:
        """Whether running jobs behind `head` have that many devices; the last job alone usually decides it."""
        if self.reach(1) == len(self.seen) or self.seen[0] < head:
            return False
        place = self.reach(devices)
        return place < len(self.seen) and head < self.seen[place]

    def pop(self, place: int) -> JobView:
        """Remove and return the job at an index."""
        job = self.seen.pop(place)[2]
        del self._sums[place]
        for later in range(place, len(self._sums)):
            self._sums[later] -= job.gpus
        return job


class Ranked(Policy):
    """Runs the jobs that a walk down the ranking by (key, submit, row) picks; the others wait or are preempted.

    A waiting job's key must not change: `dequeue` it before and `enqueue` it after a change. Keys of running jobs may
    change with time as long as the jobs of one lane keep their order, which `lane_rank` gives.
    """

    endures = True

    @abstractmethod
    def key(self, job: JobView, *, runs: bool) -> Key:
        """The sort key at `self.now`, the lowest first, as a running job (`runs`) or as one that waits from now on."""

    def lane(self, _: JobView, /) -> Hashable:
        """The lane of a running job; jobs of one lane never overtake each other."""
        return None

    def lane_rank(self, job: JobView) -> Key:
        """The order inside a lane, fixed from one event to the next."""
        return self.key(job, runs=True)

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type] # as Policy takes them
        self._waiting: dict[Group, list[Entry]] = {}
        self._lanes: dict[Hashable, list[Entry]] = {}
        self._place: dict[int, tuple[Hashable, Entry]] = {}
        """By running job, its lane and its entry there."""
        self._fresh: list[JobView] = []
        """Jobs started in the last decision, which are in no lane yet."""

    # --- waiting and running jobs

    def plan(self, moment: Trigger) -> None:
        """Update the rows and lanes, then walk."""
        self.note(moment)
        self.settle()

    def note(self, moment: Trigger) -> None:
        """Enter the jobs that started last time into the lanes, remove those that ended, enqueue those that arrived."""
        for job in self._fresh:
            if job.running:
                self.enlist(job)
        self._fresh = []
        for job in moment.ended:
            self.strike(job)
        for job in moment.arrived:
            self.enqueue(job)

    def enqueue(self, job: JobView) -> None:
        """Add a job to the waiting rows."""
        insort(self._waiting.setdefault(self.group(job), []), (self.key(job, runs=False), job.number, job))

    def dequeue(self, job: JobView, key: Key) -> None:
        """Remove a job from the waiting rows; `key` is the one with which it was enqueued."""
        group = self.group(job)
        row = self._waiting[group]
        del row[bisect_left(row, (key, job.number, job))]
        if not row:
            del self._waiting[group]

    def enlist(self, job: JobView) -> None:
        """Add a running job to its lane."""
        lane, entry = self.lane(job), (self.lane_rank(job), job.number, job)
        insort(self._lanes.setdefault(lane, []), entry)
        self._place[job.number] = lane, entry

    def strike(self, job: JobView) -> None:
        """Remove a job from its lane."""
        if (place := self._place.pop(job.number, None)) is not None:
            lane, entry = place
            row = self._lanes[lane]
            del row[bisect_left(row, entry)]
            if not row:
                del self._lanes[lane]

    def group(self, job: JobView) -> Group:
        """The group of a waiting job."""
        return job.gpus, self.placement.group(job)

    # --- the walk

    def settle(self) -> None:
        """Make the running jobs those that the walk picks."""
        most: dict[Group, int] = {}
        while self._waiting:
            stop, start = self._walk(most)
            if not start:
                return
            failed = self._carry_out(stop, start)
            if failed is None:
                return
            most[failed[0]] = failed[1]

    def _carry_out(self, stop: list[JobView], start: list[tuple[Group, Entry]]) -> tuple[Group, int] | None:
        """Preempt and start; if some job does not fit, change nothing and return its group and how many of it fit."""
        book = self.placement
        for job in stop:
            book.give(self.held(job))
        placed: list[tuple[Group, Devices]] = []
        for group, (_, _, job) in start:
            devices = book.take(job, job.gpus)
            if devices is None:
                for _, back in placed:
                    book.give(back)
                for victim in stop:
                    book.claim(self.held(victim))
                return group, sum(other == group for other, _ in placed)
            placed.append((group, devices))
        self._commit(stop, [(ranked, devices) for (_, ranked), (_, devices) in zip(start, placed, strict=True)])
        return None

    def _commit(self, stop: list[JobView], start: list[tuple[Entry, Devices]]) -> None:
        for job in stop:
            self.strike(job)
            self.let_go(job)
            self.act(Preempt(job))
        for (key, _, job), devices in start:
            self.dequeue(job, key)
            self.hold(job, devices)
            self.act(Start(job, devices))
            self.began(job)
            self._fresh.append(job)
        for job in stop:
            self.enqueue(job)
            self.stopped(job)

    def began(self, _: JobView, /) -> None:
        """A job was given devices; override to set timers."""

    def stopped(self, _: JobView, /) -> None:
        """A job was preempted; override to set timers."""

    def _walk(self, most: dict[Group, int]) -> tuple[list[JobView], list[tuple[Group, Entry]]]:
        """The jobs to preempt and to start; `most` bounds the number of starts of a group."""
        free = self.placement.free
        tail = _Tail(self.all_from_last())
        stop: list[JobView] = []
        start: list[tuple[Group, Entry]] = []
        begun: dict[Group, int] = {}
        while True:
            best = self._next_start(free, tail, begun, most)
            victim = self._overflow(-free, tail) if free < 0 else None
            if victim is not None and (best is None or tail.seen[victim] < best[1]):
                stop.append(tail.pop(victim))
                free += stop[-1].gpus
            elif best is not None:
                start.append(best)
                begun[best[0]] = begun.get(best[0], 0) + 1
                free -= best[0][0]
            else:
                return stop, start

    def _next_start(
        self, free: int, tail: _Tail, begun: dict[Group, int], most: dict[Group, int]
    ) -> tuple[Group, Entry] | None:
        """The first waiting job for which the walk has room."""
        best: tuple[Group, Entry] | None = None
        for group, row in self._waiting.items():
            number = begun.get(group, 0) if begun else 0
            if number >= len(row) or (most and number >= most.get(group, len(row))):
                continue
            head, need = row[number], group[0] - free
            if best is not None and best[1] < head:
                continue
            if need <= 0 or tail.behind(head, need):
                best = group, head
        return best

    def _overflow(self, missing: int, tail: _Tail) -> int | None:
        """The index in the tail of the first running job for which there is no room any more."""
        place = tail.reach(missing)
        return min(place, len(tail.seen) - 1) if tail.seen else None

    def all_from_last(self) -> Iterator[Entry]:
        """Running jobs, last rank first; override if one lane is entirely behind another."""
        lanes = [self.from_last(lane, row) for lane, row in self._lanes.items()]
        return lanes[0] if len(lanes) == 1 else merge(*lanes, reverse=True)

    def from_last(self, _: Hashable, row: list[Entry], /) -> Iterator[Entry]:
        """Running jobs of one lane, last rank first, with their present keys; `row` is sorted by `lane_rank`."""
        for _, number, job in reversed(row):
            yield self.key(job, runs=True), number, job


# --- shortest first


class Srtf(Ranked):
    """Preemptive. Ranks jobs by remaining run time, regardless of their number of devices. Example:
    `srtf:resume=60`."""

    id = "srtf"
    title = "shortest remaining time first"
    paper = "textbook; Tiresias (NSDI'19), SymbioticLab/Tiresias@959f9b0 `--schedule=shortest`"
    knows = frozenset({Knowledge.DURATION})
    choices = (
        "a running job is ranked by its end, including the remaining cost of its start; a waiting job by its "
        "remaining work on the reference device",
    )

    def key(self, job: JobView, *, runs: bool) -> int | float:
        """Remaining time, in millionths of a millisecond."""
        if not runs:
            return job.remaining(self.now)
        return float("inf") if job.due is None else (job.due - self.now) * ONE

    def lane_rank(self, job: JobView) -> int | float:
        """The job that ends first is always ahead, because time passes equally for all of them."""
        return float("inf") if job.due is None else job.due


class Srsf(Ranked):
    """Preemptive. Ranks jobs by remaining time times devices. Example: `srsf`."""

    id = "srsf"
    title = "shortest remaining service (time x devices) first"
    paper = "Tiresias (NSDI'19) §2, SymbioticLab/Tiresias@959f9b0 `--schedule=shortest-gpu`"
    knows = frozenset({Knowledge.DURATION})
    choices = ("for a running job, as in srtf: its remaining time runs until its end",)

    def key(self, job: JobView, *, runs: bool) -> int | float:
        """Remaining service, in millionths of a device-millisecond."""
        if not runs:
            return job.remaining(self.now) * job.gpus
        return float("inf") if job.due is None else (job.due - self.now) * job.gpus * ONE

    def lane(self, job: JobView, /) -> Hashable:
        """The number of devices: the service of a larger job falls faster, so it may overtake a smaller one."""
        return job.gpus

    def lane_rank(self, job: JobView) -> int | float:
        """The job that ends first is ahead."""
        return float("inf") if job.due is None else job.due
