"""Gandiva as Tiresias' simulator has it: each server belongs to a set that serves jobs of one size.

It measures why that simulator's mean JCT is far above that of our `gandiva`, which is another policy:
`python -m tests.sim_reference.sets` prints the figures that the table of docs/simulator.md gives as the reason.
Devices are only counted, as there. Times are seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import ceil

from tests.sim_reference.support import trace

STEP = 10
"""The longest step of its clock."""
TURN = 60


@dataclass
class Job:
    size: int
    submitted: int
    left: int
    last_ran: int = -1


@dataclass
class ServerSet:
    """Servers of jobs of one size, and the jobs in the order of their turns."""

    servers: int
    slots: int
    """How many of its jobs run at a time."""
    load: int = 0
    """Jobs that were put here. Theirs does not fall when a job ends."""
    jobs: list[Job] = field(default_factory=list)

    def add(self, job: Job) -> None:
        self.load += 1
        self.jobs.append(job)


class Sets:
    """The simulation. `mends` takes its peculiarities away:

    - `spread`: new sets get jobs of the others of their size. A loop variable that is used twice prevents that
      there for sizes that fit a server, and sets without jobs are dissolved.
    - `turns`: a turn ends each minute, not only when the clock shows a full one, which arrivals move it away from.
    - `lend`: jobs that wait for their turn run on idle devices of other sets.
    """

    def __init__(self, servers: int, devices: int, mends: Collection[str] = ()) -> None:
        self.servers, self.devices, self.mends = servers, devices, mends
        self.free = servers
        self.sets: dict[int, list[ServerSet]] = {}
        self.waiting: list[Job] = []
        self.idle = 0
        """Device-seconds that were idle while jobs waited."""

    def new(self, size: int) -> ServerSet | None:
        servers = ceil(size / self.devices)
        if servers > self.free:
            return None
        self.free -= servers
        group = ServerSet(servers, servers * self.devices // size)
        self.sets.setdefault(size, []).append(group)
        return group

    def place(self, job: Job) -> bool:
        groups = self.sets.setdefault(job.size, [])
        least = groups[0] if groups else None
        if least is None or least.load + 1 >= least.slots:
            least = self.new(job.size) or least
        if least is None:
            return False
        least.add(job)
        groups.sort(key=lambda group: group.load)
        return True

    def share_out(self) -> None:
        """Give each size as many sets as its part of the demand, rounded down; at least one, if it has any."""
        demand = {size: size * sum(len(group.jobs) for group in groups) for size, groups in self.sets.items()}
        total = sum(demand.values())
        for size in sorted(size for size, wanted in demand.items() if wanted):
            groups = self.sets[size]
            target = min(demand[size] * self.servers * self.devices // total, demand[size])
            missing = target - self.devices * sum(group.servers for group in groups)
            if missing > 0:
                made = [self.new(size) for _ in range(ceil(missing / size))]
                if "spread" in self.mends or made[-1] is None or size > self.devices:
                    self._spread(groups)
            else:
                for _ in range(min(ceil(-missing / size), len(groups) - 1)):
                    gone = groups.pop(0)
                    self.free += gone.servers
                    for job in gone.jobs:
                        groups[0].add(job)
                        groups.sort(key=lambda group: group.load)

    def _spread(self, groups: list[ServerSet]) -> None:
        jobs = [job for group in groups for job in group.jobs]
        for group in groups:
            group.jobs, group.load = [], 0
        for job in jobs:
            groups[0].add(job)
            groups.sort(key=lambda group: group.load)

    def run(self, now: int, elapsed: int, turn_ends: bool) -> list[Job]:
        """Let the jobs whose turn it is run for the time since the step before; those that end, in order."""
        ended: list[Job] = []
        used = 0
        everyone = [group for groups in self.sets.values() for group in groups]
        for group in everyone:
            turn = group.jobs[: group.slots]
            for job in turn:
                job.left, job.last_ran, used = job.left - elapsed, now, used + job.size
            if turn_ends and len(group.jobs) > len(turn):
                group.jobs = group.jobs[len(turn) :] + turn
        idle = self.servers * self.devices - used
        kept = [job for group in everyone for job in group.jobs if job.last_ran != now]
        if "lend" in self.mends:
            for job in sorted(kept, key=lambda job: (job.last_ran, job.submitted)):
                if job.size <= idle:
                    job.left, job.last_ran, idle = job.left - elapsed, now, idle - job.size
        if kept or self.waiting:
            self.idle += idle * elapsed
        for groups in self.sets.values():
            for group in list(groups):
                ended += [job for job in group.jobs if job.left <= 0]
                group.jobs = [job for job in group.jobs if job.left > 0]
                if not group.jobs:
                    groups.remove(group)
                    self.free += group.servers
        return ended

    def simulate(self, jobs: Iterable[tuple[int, int, int]]) -> tuple[float, int]:
        """Mean JCT and makespan of jobs, each with its size, time of submission and duration."""
        coming = sorted((Job(*job) for job in jobs), key=lambda job: job.submitted)
        times: list[int] = []
        count, now, before = len(coming), 0, 0
        while len(times) < count:
            self.share_out()
            turn_ends = now // TURN != before // TURN if "turns" in self.mends else now % TURN == 0
            free = self.free
            times += [now - job.submitted for job in self.run(now, now - before, turn_ends)]
            if self.free > free:
                self.waiting = [job for job in self.waiting if not self.place(job)]
            while coming and coming[0].submitted <= now:
                job = coming.pop(0)
                if not self.place(job):
                    self.waiting.append(job)
            before, now = now, min([now + STEP, *(job.submitted for job in coming[:1])])
        return sum(times) / count, before


def play(*mends: str) -> tuple[float, int, float]:
    """The 480 jobs on 15 servers of 4 devices: mean JCT, makespan, part of the devices idle while jobs waited."""
    sets = Sets(15, 4, mends)
    jobs = trace("derived", "tiresias_like_480_job.csv", "tiresias").jobs
    jct, makespan = sets.simulate((job.gpus, job.submit // 1000, job.work // 1000) for job in jobs)
    return jct, makespan, sets.idle / (60 * makespan)


if __name__ == "__main__":
    for mends in ((), ("spread",), ("spread", "turns"), ("spread", "turns", "lend")):
        jct, makespan, idle = play(*mends)
        row = f"{jct:8,.1f} s  makespan {makespan:,} s  idle while jobs wait {idle:.1%}"
        print(f"{', '.join(mends) or 'as there':<20} mean JCT {row}")  # noqa: T201 (a command)
