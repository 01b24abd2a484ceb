"""Chronus as its artifact runs without a solver: plans from the deadline backwards, gaps, minutes.

It measures why that artifact misses more deadlines than our `chronus`: `python -m tests.sim_reference.leases SLO 960
greedy` plays the whole trace of that name and prints the figures that the table of docs/simulator.md gives as the
reason; `MIX1 48 highs` the small one, with plans from our program.

Devices are only counted: there, too, the place never slows a job. What the artifact does with a job that runs longer
than estimated is left out: estimates cover a start in each lease, so no job of SLO and of the small traces does.
Times are minutes, leases are numbered from 0.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, log2
from typing import Final, NamedTuple

import numpy as np

from paictl.sim.job import Job
from paictl.sim.programs.leases import Request, choose
from tests.sim_reference.support import trace

LEASE: Final = 20
SLOT: Final = 5
START: Final = 0.5
"""What a start costs a job of one device; each doubling adds as much."""
PADDING: Final = 1.1
HOPELESS, ADMITTED, REFUSED, BEST_EFFORT = range(-1, 3)
MENDS: Final = ("restart", "fill", "credit", "list", "estimate")
WHOLE: Final = 960
"""Devices for the whole traces."""
ROWS: Final = 400
"""Of jobs and deadlines, for which a program is solved."""
WORTH: Final = 10
"""Of a job that meets its first deadline."""
FAR: Final = 4096
"""Leases that the table of free devices has room for."""


class Figures(NamedTuple):
    """Weighted misses in per cent, jobs admitted, mean JCT of those with deadlines, makespan."""

    missed: float
    admitted: int
    mean_jct: float
    makespan: float


@dataclass(eq=False, slots=True)
class Task:
    """A job there."""

    gpus: int
    submitted: int
    work: int
    deadlines: Sequence[tuple[int, float]]
    """Since submission, each with its worth from 1 down; empty for best effort."""
    rank: int = ADMITTED
    deadline: int = 0
    """Since submission; once it is admitted, the end of the last lease before it."""
    estimate: int = 0
    leases: int = 0
    plan: list[int] | None = None
    """The leases that are its own, rising."""
    planned: bool = True
    """Whether it takes part in planning."""
    leased: bool = False
    forced: bool = False
    """Promised devices until the lease ends: it can end by then."""
    progress: int = 0
    looked: int = 0
    starts: int = 0
    urgency: float = 0
    """In gaps the largest goes first."""
    ended: float = 0

    @property
    def cost(self) -> float:
        return START * (1 + log2(self.gpus))

    @property
    def whole(self) -> int:
        """Devices that a plan counts for it."""
        return {3: 4, 5: 8, 6: 8, 7: 8}.get(self.gpus, self.gpus)

    @property
    def todo(self) -> float:
        """Work that is left."""
        return self.work + self.starts * self.cost - self.progress

    def padded(self, work: float) -> int:
        """The estimate of so much work, with starts."""
        return int(work * (1 + self.cost / LEASE) * PADDING)


@dataclass(slots=True)
class Row:
    """A job in a test of whether all fit: devices, leases, and the lease before which it has to end."""

    task: Task
    leases: int
    until: int


@dataclass
class Leases:
    """The simulation. `mends` takes its peculiarities away:

    - `credit`: a job that starts at an odd minute gets no credit for the time since the slot began.
    - `fill`: devices that fall free within a slot are not given out at odd minutes (the least urgent job first there).
    - `restart`: a job that runs on without a lease is not charged a start at the end of each lease.
    - `estimate`: what a job has yet to run is estimated from the work that is left. There it is the padded estimate of
      all of its work, less the time that it ran, starts included.
    - `list`: a refused job does not count against those that arrived in the same slot.
    """

    devices: int
    mends: Collection[str] = ()
    solver: bool = False
    """Plan by the program at each lease, on top of the greedy plan."""
    now: int = 0
    next_lease: int = 0
    waiting: list[Task] = field(default_factory=list)
    running: list[Task] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.room = np.full(FAR, self.devices)
        self.free = self.devices
        self.admitted = 0
        self.refused = 0
        """Refused jobs at the last lease, and those since then."""

    # --- plans

    def drop(self, task: Task, keep: int = 0) -> None:
        """Give up the first leases of its plan, until so many are left."""
        while task.plan and len(task.plan) > keep:
            self.room[task.plan.pop(0)] += task.gpus

    def shrink(self, task: Task) -> None:
        """It has run ahead of its plan."""
        left = task.padded(task.todo) if "estimate" in self.mends else task.estimate - task.progress
        need = ceil(left / LEASE)
        if need < task.leases:
            if task.plan is not None:
                self.drop(task, len(task.plan) - (task.leases - need))
            task.leases = need

    def fits(self, rows: Sequence[Row]) -> bool:
        """Whether all have leases before their deadlines, each as late as can be; of a job the tightest row counts."""
        room = self.room.copy()
        seen: set[int] = set()
        first = self.next_lease
        for row in sorted(rows, key=lambda row: (-row.task.whole, row.until - row.leases - first, first - row.until)):
            if id(row.task) not in seen:
                seen.add(id(row.task))
                open_leases = np.flatnonzero(room[first : max(row.until, first)] >= row.task.whole)
                if len(open_leases) < max(row.leases, 1):
                    return False
                room[first + open_leases[-row.leases :]] -= row.task.whole
        return True

    def rows(self, task: Task) -> list[Row]:
        return [Row(task, task.leases, (task.submitted + end) // LEASE) for end, _ in task.deadlines]

    def arrive(self, tasks: Iterable[Task]) -> None:
        """Admit or refuse those that arrived in the slot that ends."""
        unplanned = [task for task in self.waiting + self.running if self.counts(task) and task.plan is None]
        rows = [row for task in unplanned for row in self.rows(task)]
        for task in tasks:
            task.deadline = task.deadlines[0][0] if task.deadlines else 0
            task.estimate = task.padded(task.work)
            task.leases = ceil(task.estimate / LEASE)
            task.looked = self.now
            self.waiting.append(task)
            if not task.deadlines:
                task.rank, task.planned = BEST_EFFORT, False
                continue
            new = self.rows(task)
            last = new[-1]
            if last.leases <= last.until - self.next_lease and self.fits(rows + new):
                task.deadline = LEASE * last.until - task.submitted
                self.admitted += 1
            else:
                task.rank = REFUSED
                self.refused += 1
                if "list" in self.mends:
                    continue
                self.delay(rows, new)
            rows += new

    def delay(self, rows: list[Row], new: list[Row]) -> None:
        """Set the deadline of a refused job to the first that could be kept."""
        last = new[-1]
        low = max(last.until, self.next_lease + last.leases)
        high = max(low, *(row.until for row in rows + new), self.horizon()) + last.leases + 1
        while low < high:
            last.until = (low + high) // 2
            if self.fits(rows + new):
                high = last.until
            else:
                low = last.until + 1
        last.until = high

    def horizon(self) -> int:
        """The lease behind the last that is planned."""
        taken = np.flatnonzero(self.room < self.devices)
        return int(taken[-1]) + 1 if len(taken) else self.next_lease

    def counts(self, task: Task) -> bool:
        return task.rank == ADMITTED and task.planned and task.leases > 0

    # --- minutes

    def tick(self) -> list[Task]:
        """Let them run until now; those that end."""
        ended = []
        for task in self.running:
            elapsed = self.now - task.looked
            whole = task.work + task.starts * task.cost
            if elapsed + task.progress >= whole:
                task.ended = task.looked + whole - task.progress
                ended.append(task)
                continue
            task.progress += elapsed
            task.looked = self.now
            if task.rank == ADMITTED and not (task.leased or task.forced):
                self.shrink(task)
        for task in ended:
            self.drop(task)
            self.running.remove(task)
            self.free += task.gpus
        return ended

    def lease(self) -> None:
        """All stop; those whose plan has this lease start."""
        ran = set(map(id, self.running))
        for task in self.running:
            task.leased = task.forced = False
            task.looked = self.now
            if task.rank == ADMITTED:
                self.shrink(task)
        self.waiting += self.running
        self.running, self.free = [], self.devices
        self.plan([task for task in self.waiting if self.counts(task) and task.plan is None])
        if self.solver:
            self.improve([task for task in self.waiting if self.counts(task) and task.plan is not None])
        for task in self.waiting:
            if task.rank == ADMITTED and task.plan is None:
                task.rank = REFUSED
            elif task.rank == ADMITTED and task.plan and task.plan[0] == self.next_lease:
                task.plan.pop(0)
                task.leased = True
                task.leases -= 1
                task.starts += id(task) not in ran
                self.start(task)
        self.waiting = [task for task in self.waiting if not task.leased]
        self.next_lease += 1
        self.ran = ran
        self.refused = sum(task.rank == REFUSED for task in self.waiting)

    def plan(self, tasks: Sequence[Task]) -> None:
        """Give each the last leases before a deadline, of the largest worth first."""
        ways = [
            (-worth, -task.whole, row.until - row.leases, -row.until, number)
            for number, task in enumerate(tasks)
            for row, (_, worth) in zip(self.rows(task), task.deadlines, strict=True)
        ]
        for *_, until, number in sorted(ways, key=lambda way: way[:4]):
            task, end = tasks[number], max(-int(until), self.next_lease)
            room = np.flatnonzero(self.room[self.next_lease : end] >= task.whole)
            if task.plan is None and len(room) >= task.leases:
                self.take(task, room[-task.leases :].tolist())

    def take(self, task: Task, leases: Iterable[int]) -> None:
        """Give it leases, counted from the next."""
        task.plan = sorted(self.next_lease + one for one in leases)
        for one in task.plan:
            self.room[one] -= task.gpus

    def improve(self, tasks: Sequence[Task]) -> None:
        """Plan all of them anew by the program, if it finds a plan in time."""
        first = self.next_lease
        known = {index: frozenset(one - first for one in task.plan or ()) for index, task in enumerate(tasks)}
        requests = []
        for task in tasks:
            rows = zip(self.rows(task), task.deadlines, strict=True)
            options = tuple((row.until - first, worth) for row, (_, worth) in rows if row.until > first)
            requests.append(Request(task.whole, task.leases, options, promised=True))
        if sum(len(request.options) for request in requests) > ROWS:
            return
        chosen = choose(requests, self.devices, busy=not self.refused, nodes=20, known=known)
        if chosen is not None and len(chosen.plan) == len(tasks):
            for task in tasks:
                self.drop(task)
            for index, task in enumerate(tasks):
                self.take(task, chosen.plan[index])

    def start(self, task: Task) -> None:
        self.free -= task.gpus
        self.running.append(task)

    def judge(self, task: Task) -> None:
        """How urgent it is, and whether there is hope."""
        end = task.deadline + task.submitted
        left: float = task.work - task.progress
        estimate: float = task.estimate - task.progress
        if "estimate" in self.mends:
            left = estimate = task.todo
        if task.rank in (ADMITTED, REFUSED) and end < self.now + left:
            self.drop(task)
            task.rank = HOPELESS
        if task.rank not in (BEST_EFFORT, REFUSED):
            estimate = end - self.now - estimate
        task.urgency = -estimate * task.gpus

    @staticmethod
    def order(task: Task) -> tuple[int, float, int]:
        """Who runs without a lease: the largest first."""
        return (min(task.rank, REFUSED), task.urgency, -task.submitted)

    def slot(self) -> None:
        """Give out what nobody has promised: refused jobs that end within the lease, then all by urgency."""
        ran = set(map(id, self.running))
        if self.now % LEASE == 0 and "restart" in self.mends:
            ran |= self.ran
        left = self.next_lease * LEASE - self.now
        spot = self.devices - sum(task.gpus for task in self.running if task.leased or task.forced)
        short = [task for task in self.waiting if task.rank == REFUSED and task.work - task.progress <= left]
        forced = []
        for task in sorted(short, key=lambda task: (task.work - task.progress) * task.gpus):
            if task.gpus <= spot:
                spot -= task.gpus
                task.forced, task.planned = True, False
                forced.append(task)
                if task.submitted >= (self.next_lease - 1) * LEASE:
                    task.rank = ADMITTED
        for task in self.waiting:
            task.looked = self.now
            self.judge(task)
        need = sum(task.gpus for task in forced)
        if need > self.free:
            guests = [task for task in self.running if not (task.leased or task.forced)]
            for task in guests:
                self.judge(task)
            for task in sorted(guests, key=self.order):
                if need <= self.free:
                    break
                task.looked = self.now
                self.shrink(task)
                self.running.remove(task)
                self.waiting.append(task)
                self.free += task.gpus
        self.launch(forced)
        self.waiting.sort(key=self.order, reverse=True)
        self.launch(self.waiting)
        for task in self.running:
            task.starts += id(task) not in ran

    def launch(self, tasks: Sequence[Task]) -> None:
        """Start those that fit, in this order."""
        started = set()
        for task in tasks:
            if task.gpus <= self.free:
                self.start(task)
                started.add(id(task))
        if started:
            self.waiting = [task for task in self.waiting if id(task) not in started]

    def fill(self) -> None:
        """Give out what fell free since the slot began, the least urgent first, without the cost of a start."""
        if self.free and self.waiting:
            if "credit" in self.mends:
                for task in self.waiting:
                    task.looked = self.now
            self.launch(sorted(self.waiting, key=lambda task: (task.rank, task.urgency)))

    def play(self, tasks: Sequence[Task]) -> None:
        """Until all have ended."""
        coming = sorted(tasks, key=lambda task: task.submitted)
        position = done = 0
        while done < len(coming):
            done += len(self.tick())
            if self.now % LEASE == 0:
                self.lease()
            if self.now % SLOT == 0:
                end = position
                while end < len(coming) and coming[end].submitted <= self.now:
                    end += 1
                self.arrive(coming[position:end])
                position = end
                self.slot()
            if self.now % 2 and "fill" not in self.mends:
                self.fill()
            self.now += 1


def missed(task: Task) -> float:
    """The part of its worth that a job lost."""
    return 1 - next((worth for end, worth in task.deadlines if task.submitted + end >= task.ended), 0.0) / WORTH


def tasks(jobs: Iterable[Job]) -> list[Task]:
    """Jobs as the artifact reads them."""
    minute = 60_000
    found = []
    for job in jobs:
        deadlines = [((end.time - job.submit) // minute, end.value) for end in job.deadlines]
        found.append(Task(job.gpus, job.submit // minute, job.work // minute, deadlines))
    return found


def measure(name: str, devices: int = 48, mends: Collection[str] = (), *, solver: bool = False) -> Figures:
    """The whole trace of that name (960 devices), or the small one made of it."""
    archive, member = "derived", f"chronus_small_{name}.csv"
    if devices == WHOLE:
        archive, member = "chronus", f"trace_job_Philly_{name}.csv"
    played = tasks(trace(archive, member, "chronus").jobs)
    leases = Leases(devices, mends, solver)
    leases.play(played)
    bound = [task for task in played if task.deadlines]
    misses = 100 * sum(map(missed, bound)) / len(bound)
    jct = sum(task.ended - task.submitted for task in bound) / len(bound)
    return Figures(misses, leases.admitted, jct, max(task.ended for task in played))


def main(name: str, devices: str, solver: str, *mends: str) -> None:
    """Each of `mends` is several of them, with commas between; left out: one after the other."""
    for away in [tuple(filter(None, one.split(","))) for one in mends] or [MENDS[:n] for n in range(len(MENDS) + 1)]:
        found = measure(name, int(devices), away, solver=solver == "highs")
        text = f"missed {found.missed:.2f} %, admitted {found.admitted:,}, mean JCT {found.mean_jct:,.1f}"
        print(f"without {', '.join(away) or 'nothing':<40} {text}, makespan {found.makespan:,.0f}", flush=True)  # noqa: T201 (a command)


if __name__ == "__main__":
    main(*sys.argv[1:])
