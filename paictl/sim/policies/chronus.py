"""Chronus: leases for jobs with deadlines, promised at admission and kept; what is left for everybody else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from typing import Literal

from paictl.frozen import frozen
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Setup
from paictl.sim.policies.grid import Grid, GridParameters
from paictl.sim.policies.parameters import parameter
from paictl.sim.programs.leases import Calendar, Plan, Request, choose, rounded_up
from paictl.sim.state import ONE
from paictl.sim.view import JobView


@frozen
class ChronusParameters(GridParameters):
    """`chronus:lease=20m,solver=greedy`."""

    solver: Literal["highs", "greedy"] = parameter(
        "highs", "how leases are planned: by a program at the end of each lease, or once at admission (greedy)"
    )
    padding: float = parameter(1.1, "planned duration of a job, as a multiple of its estimate", least=0.1, most=100)
    rows: int = parameter(150, "above this number of (job, deadline) rows, the program is skipped and all plans stay")
    nodes: int = parameter(20, "limit of branch-and-bound nodes for one program", least=1)


class Chronus(Grid):
    """Admits a job if its first deadline can be met together with all promised ones. Example: `chronus:lease=10m`.

    Jobs planned for a lease run for all of it. Remaining devices go, in slots, to jobs without a lease. Rejected jobs
    that fit into the rest of the lease keep them to its end; all others may have to make way for them.
    """

    id = "chronus"
    title = "leases planned by a mixed-integer program; admitted jobs meet their deadlines"
    paper = (
        "Gao et al., SoCC'21, from secondary source only: the published artifact (S-Lab-System-Group/ChronusArtifact "
        "@bc7e15f) and its description"
    )
    knows = frozenset({Knowledge.DURATION, Knowledge.DEADLINE})
    Parameters = ChronusParameters
    choices = (
        "durations come from the trace, as if the profiler were exact; the profiling run costs `profile`",
        "a soft job is admitted if its first deadline can be met, as in the artifact, which checks the tightest row "
        "of each job; the program may later move it to another of its deadlines",
        "a job gets the last leases before its deadline; jobs admitted in the same lease may move for each other, "
        "largest first; jobs admitted earlier keep theirs",
        "a promised job's plan is replaced only by a plan that keeps every promise, so no promise is broken while "
        "estimates hold",
        "a rejected job that can complete within the lease keeps its devices until then, least service first",
        "gaps go to jobs without deadlines and rejected jobs by least remaining service, then to promised jobs, and "
        "last to jobs that can no longer meet their first deadline",
        "if the program has too many rows or finds no solution within its limit, all plans stay; `greedy_plans` "
        "counts these cases",
        "devices are counted, not placed: jobs of sizes 1, 2, 4, 8n that fit by count also fit on nodes of 8 "
        "without spreading",
    )

    def __init__(self, parameters: ChronusParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._calendar = Calendar(self.cluster.size)
        self._promised: dict[int, JobView] = {}
        self._refused: dict[int, JobView] = {}
        """With deadlines that nobody promised."""
        self._fresh: list[JobView] = []
        """Promised since the last lease began."""
        self._leased: set[int] = set()
        self._kept: set[int] = set()
        """Refused jobs that run to the end of the lease."""
        self._admitted: dict[int, bool] = {}
        self._counts = {"admitted": 0, "refused": 0, "programs": 0, "greedy_plans": 0, "unproven_plans": 0}

    # --- who comes and goes

    def arrives(self, job: JobView, /) -> None:
        """Promise it its first deadline if that can be kept from the next lease on."""
        if not job.deadlines:
            return
        admitted = self._admit(job, -(-self.now // self.p.lease))
        self._admitted[job.number] = admitted
        self._counts["admitted" if admitted else "refused"] += 1
        (self._promised if admitted else self._refused)[job.number] = job

    def _admit(self, job: JobView, first: int) -> bool:
        """Plan it, together with those admitted since the lease began; False, and nothing changes, if one is late."""
        if not self._fits(job, first):
            return False
        calendar = self._calendar
        before = {job.number: calendar.leases(job.number) for job in self._fresh}
        for number in before:
            calendar.drop(number)
        fresh = [*self._fresh, job]
        rows = [(rounded_up(job.gpus), self._need(job), self._due(job), job) for job in fresh]
        rows.sort(key=lambda row: (-row[0], row[2] - row[1], -row[2], row[3].number))
        for devices, need, due, candidate in rows:
            leases = calendar.latest(devices, need, first, due)
            if leases is None:
                for other in fresh:
                    calendar.drop(other.number)
                for number, (kept, size) in before.items():
                    calendar.put(number, kept, size)
                return False
            calendar.put(candidate.number, leases, devices)
        self._fresh = fresh
        return True

    def _fits(self, job: JobView, first: int) -> bool:
        return self._due(job) - first >= self._need(job)

    def leaves(self, job: JobView, /) -> None:
        """Its promise is kept or void."""
        if self._promised.pop(job.number, None) is not None:
            self._calendar.drop(job.number)
            self._fresh = [other for other in self._fresh if other is not job]
        self._refused.pop(job.number, None)
        self._leased.discard(job.number)
        self._kept.discard(job.number)

    # --- leases

    def lease_ends(self) -> None:
        """Plan anew, and give everybody a place for the next lease."""
        first = self.now // self.p.lease
        calendar = self._calendar
        for job in self._promised.values():
            calendar.trim(job.number, first, self._need(job))
        self._fresh = []
        self._kept.clear()
        if self._promised:
            self._replan(first)
        self._leased = set(calendar.jobs(first))
        calendar.forget(first)
        self.slot_ends()

    def _replan(self, first: int) -> None:
        """A plan for all promised jobs from the program, where that finds one; else all plans stay."""
        jobs = list(self._promised.values())
        requests = [self._request(job, first) for job in jobs]
        plan: Plan | None = None
        if self.p.solver == "highs" and sum(len(request.options) for request in requests) <= self.p.rows:
            self._counts["programs"] += 1
            calendar = self._calendar
            known = {i: frozenset(n - first for n in calendar.leases(job.number)[0]) for i, job in enumerate(jobs)}
            spare = not any(number in self.waiting and self._feasible(job) for number, job in self._refused.items())
            chosen = choose(requests, self._calendar.capacity, busy=spare, nodes=self.p.nodes, known=known)
            if chosen is not None:
                plan = chosen.plan
                self._counts["unproven_plans"] += not chosen.proven
        if plan is None:
            self._counts["greedy_plans"] += 1
            return
        for job in jobs:
            self._calendar.drop(job.number)
        for index, job in enumerate(jobs):
            leases = sorted(lease + first for lease in plan[index])
            self._calendar.put(job.number, leases, requests[index].devices)

    def slot_ends(self) -> None:
        """Leases first, then refused jobs that end within this one, then whoever runs, then those who wait."""
        jobs = [*self.running.values(), *self.waiting.values()]
        leased = [job for job in jobs if job.number in self._leased]
        self._keep(leased)
        kept = [job for job in jobs if job.number in self._kept]
        sure = self._leased | self._kept
        if self.now % self.p.lease == 0:
            others = self.ranked(job for job in jobs if job.number not in sure)
        else:
            others = self.ranked(job for job in self.running.values() if job.number not in sure)
            others += self.ranked(job for job in self.waiting.values() if job.number not in sure)
        self.replace([*leased, *kept, *others])

    def _keep(self, leased: Iterable[JobView]) -> None:
        """Refused jobs that can end before the lease does, on devices without a lease."""
        free = self.cluster.size - sum(job.gpus for job in leased)
        free -= sum(self._refused[number].gpus for number in self._kept)
        left = self.p.lease - self.now % self.p.lease
        short = [
            job
            for number, job in self._refused.items()
            if number in self.waiting
            and number not in self._kept
            and job.remaining(self.now) <= left * ONE
            and self._feasible(job)
        ]
        for job in sorted(short, key=lambda job: (job.remaining(self.now) * job.gpus, job.number)):
            if job.gpus <= free:
                free -= job.gpus
                self._kept.add(job.number)

    def ranked(self, jobs: Iterable[JobView]) -> list[JobView]:
        """Who fills gaps: least remaining service first, among promised and late ones least slack first."""
        return sorted(jobs, key=self._key)

    def _key(self, job: JobView) -> tuple[int, int, int]:
        service = job.remaining(self.now) * job.gpus
        if not job.deadlines:
            return 0, service, job.number
        promised = job.number in self._promised
        if not promised and self._feasible(job):
            return 0, service, job.number
        due = job.deadlines[-1 if promised else 0].time
        slack = (due - self.now) * ONE - job.remaining(self.now)
        return 1 if promised else 2, slack * job.gpus, job.number

    def _feasible(self, job: JobView) -> bool:
        """Whether its first deadline could be kept if it ran from now on."""
        return self.now + job.remaining(self.now) // ONE <= job.deadlines[0].time

    # --- in leases

    def _need(self, job: JobView) -> int:
        cost = self.costs.to_start(job.gpus, again=True) if job.gpus else 0
        left = job.remaining(self.now) / ONE
        lease: int = self.p.lease
        padding: float = self.p.padding
        return max(1, ceil(padding * left * (1 + cost / lease) / lease))

    def _due(self, job: JobView) -> int:
        """The lease before which a job must be done to keep its first deadline."""
        lease: int = self.p.lease
        return job.deadlines[0].time // lease

    def _request(self, job: JobView, first: int) -> Request:
        need = self._need(job)
        options = [(deadline.time // self.p.lease - first, deadline.value) for deadline in job.deadlines]
        kept = tuple((due, value) for due, value in options if due >= need)
        if not kept:
            kept = ((max(need, options[-1][0]), options[-1][1]),)  # padded away; its plan says when it runs
        return Request(rounded_up(job.gpus), need, kept, promised=True)

    # --- results

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """Whether it was admitted."""
        return {"admitted": float(self._admitted[job.number])} if job.number in self._admitted else {}

    def counted(self) -> Mapping[str, float]:
        """Admissions, and how plans were found."""
        return self._counts
