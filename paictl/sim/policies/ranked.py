"""Preemptive policies: at every moment those jobs run that a walk down the ranking would pick. What srtf, srsf, las
and gittins share, and srtf and srsf themselves.

The walk starts the first job, then each next one for which there is still room. To repeat it at each event would cost
as much as there are jobs. Three facts make that unnecessary (free(p) is the room that the walk has left at rank p):

* All who run fit together, so the walk differs from what runs first at a *waiting* job, namely the first one that is
  not larger than free(p); and free(p) = room that is free now + all who run and rank behind p.
* free(p) only falls with p. So of the waiting jobs of one size only the first can be the next to start.
* From that point on only jobs of the tail are touched: their sizes sum up to less than what is missing.

So a decision looks at one waiting job of each size and at the last few of those who run, however many there are.
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
"""Waiting jobs that are alike for the placement: (devices, placement group)."""

Entry = tuple[Key, int, JobView]
"""(key, number, job): compares as the ranking does."""


class _Tail:
    """Those who run, from the last rank upwards, as far as somebody looked; and how many devices they have."""

    __slots__ = ("_rest", "_sums", "seen")

    def __init__(self, rest: Iterator[Entry]) -> None:
        self._rest = rest
        self.seen: list[Entry] = []
        self._sums: list[int] = []
        """Devices of the seen ones up to each of them."""

    def reach(self, devices: int) -> int:
        """The place of the first one (from the last rank) up to whom they have at least that many devices.

        If all of them have less: how many there are.
        """
        sums, seen = self._sums, self.seen
        while not sums or sums[-1] < devices:
            one = next(self._rest, None)
            if one is None:
                return len(seen)
            sums.append(one[2].gpus + (sums[-1] if sums else 0))
            seen.append(one)
        return bisect_left(sums, devices)

    def behind(self, head: Entry, devices: int) -> bool:
        """Whether those who rank behind have that many devices; most are told by one look at the very last."""
        if self.reach(1) == len(self.seen) or self.seen[0] < head:
            return False
        place = self.reach(devices)
        return place < len(self.seen) and head < self.seen[place]

    def pop(self, place: int) -> JobView:
        """It does not run any more."""
        job = self.seen.pop(place)[2]
        del self._sums[place]
        for later in range(place, len(self._sums)):
            self._sums[later] -= job.gpus
        return job


class Ranked(Policy):
    """Runs the jobs that a walk down the ranking by (key, submit, row) picks; the others wait or are preempted.

    A waiting job's key must not change (call `rekey` if it does). Keys of running jobs may change with time, as long as
    those of one lane keep their order among each other, given by `lane_rank`.
    """

    endures = True

    @abstractmethod
    def key(self, job: JobView, *, runs: bool) -> Key:
        """Lower goes first, at `self.now`; `runs`: as one that runs, else as one that waits (from now on)."""

    def lane(self, _: JobView, /) -> Hashable:
        """Running jobs of one lane never overtake each other."""
        return None

    def lane_rank(self, job: JobView) -> Key:
        """The order inside a lane, fixed from one event to the next."""
        return self.key(job, runs=True)

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type] # as Policy takes them
        self._waiting: dict[Group, list[Entry]] = {}
        self._lanes: dict[Hashable, list[Entry]] = {}
        self._place: dict[int, tuple[Hashable, Entry]] = {}
        """Where each running job stands in the lanes."""
        self._fresh: list[JobView] = []
        """Started in the last decision: not in a lane yet."""

    # --- who waits and who runs

    def plan(self, moment: Trigger) -> None:
        """Take note of who came and went, then walk."""
        self.note(moment)
        self.settle()

    def note(self, moment: Trigger) -> None:
        """Those who started last time are in the lanes from now on; whoever ended is not."""
        for job in self._fresh:
            if job.running:
                self.enlist(job)
        self._fresh = []
        for job in moment.ended:
            self.strike(job)
        for job in moment.arrived:
            self.enqueue(job)

    def enqueue(self, job: JobView) -> None:
        """It waits."""
        insort(self._waiting.setdefault(self.group(job), []), (self.key(job, runs=False), job.number, job))

    def dequeue(self, job: JobView, key: Key) -> None:
        """It does not wait any more; `key` is the one with which it was enqueued."""
        group = self.group(job)
        row = self._waiting[group]
        del row[bisect_left(row, (key, job.number, job))]
        if not row:
            del self._waiting[group]

    def enlist(self, job: JobView) -> None:
        """It runs."""
        lane, entry = self.lane(job), (self.lane_rank(job), job.number, job)
        insort(self._lanes.setdefault(lane, []), entry)
        self._place[job.number] = lane, entry

    def strike(self, job: JobView) -> None:
        """It does not run any more."""
        if (place := self._place.pop(job.number, None)) is not None:
            lane, entry = place
            row = self._lanes[lane]
            del row[bisect_left(row, entry)]
            if not row:
                del self._lanes[lane]

    def group(self, job: JobView) -> Group:
        """Which jobs are alike for the placement."""
        return job.gpus, self.placement.group(job)

    # --- the walk

    def settle(self) -> None:
        """Bring what runs in line with the ranking."""
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
        """Preempt and start; or change nothing and say of which group only how many find a place."""
        book = self.placement
        for job in stop:
            book.give(self.held(job))
        taken: list[tuple[Group, Devices]] = []
        for group, (_, _, job) in start:
            devices = book.take(job, job.gpus)
            if devices is None:
                for _, back in taken:
                    book.give(back)
                for victim in stop:
                    book.claim(self.held(victim))
                return group, sum(one == group for one, _ in taken)
            taken.append((group, devices))
        self._commit(stop, [(ranked, devices) for (_, ranked), (_, devices) in zip(start, taken, strict=True)])
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
        """A job was given devices: for timers."""

    def stopped(self, _: JobView, /) -> None:
        """A job was preempted: for timers."""

    def _walk(self, most: dict[Group, int]) -> tuple[list[JobView], list[tuple[Group, Entry]]]:
        """Whom to preempt and whom to start; of a group at most as many as `most` says."""
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
        found: tuple[Group, Entry] | None = None
        for group, row in self._waiting.items():
            number = begun.get(group, 0) if begun else 0
            if number >= len(row) or (most and number >= most.get(group, len(row))):
                continue
            head, need = row[number], group[0] - free
            if found is not None and found[1] < head:
                continue
            if need <= 0 or tail.behind(head, need):
                found = group, head
        return found

    def _overflow(self, missing: int, tail: _Tail) -> int | None:
        """The first of those who run for whom the room does not suffice any more: its place in the tail."""
        place = tail.reach(missing)
        return min(place, len(tail.seen) - 1) if tail.seen else None

    def all_from_last(self) -> Iterator[Entry]:
        """Those who run, last rank first; override where one lane is wholly behind another."""
        lanes = [self.from_last(lane, row) for lane, row in self._lanes.items()]
        return lanes[0] if len(lanes) == 1 else merge(*lanes, reverse=True)

    def from_last(self, _: Hashable, row: list[Entry], /) -> Iterator[Entry]:
        """Those of one lane, last rank first, with the keys of now; `row` is by `lane_rank`."""
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
        """Who is done first is always ahead: time passes for all of them alike."""
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
        """Jobs of one size; a larger one comes down faster and may overtake."""
        return job.gpus

    def lane_rank(self, job: JobView) -> int | float:
        """Who is done first is ahead."""
        return float("inf") if job.due is None else job.due
