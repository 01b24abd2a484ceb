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
from paictl.sim.programs.leases import Chosen, Plan, Request, choose, greedy, room_for, rounded_up
from paictl.sim.state import ONE
from paictl.sim.view import JobView


@frozen
class ChronusParameters(GridParameters):
    """`chronus:lease=20m,solver=greedy`."""

    solver: Literal["highs", "greedy"] = parameter("highs", "how leases are planned")
    padding: float = parameter(1.1, "times the estimated duration: what a job is planned for", least=0.1, most=100)
    rows: int = parameter(150, "above so many (job, deadline) rows the program is not tried, only the greedy plan")
    nodes: int = parameter(20, "effort of one program, in branch-and-bound nodes", least=1)


class Chronus(Grid):
    """Admits a job if its deadline can be kept beside those promised already. Example: `chronus:lease=10m`.

    At each end of a lease the plan of all promised jobs is made anew; those planned for now run for a whole lease.
    Devices that are left go, in slots, to those without a lease, least remaining service first.
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
        "durations are those of the trace, as if the profiler measured exactly; the profiler's own run costs `profile`",
        "the plan of a promised job is replaced only by another that keeps every promise, so none is ever broken while "
        "estimates hold",
        "gaps go to jobs without deadlines first, then to promised and refused ones alike, last to those whose "
        "deadline has become impossible",
        "where the program finds nothing within its effort the greedy plan is used and counted (`greedy_plans`), never "
        "silently",
        "devices are counted, not placed: any jobs of sizes 1, 2, 4, 8n that fit by count fit unspread on nodes of 8",
    )

    def __init__(self, parameters: ChronusParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._capacity = self.cluster.size
        self._promised: dict[int, JobView] = {}
        self._refused: dict[int, JobView] = {}
        """With deadlines that nobody promised."""
        self._plan: dict[int, frozenset[int]] = {}
        """Leases by number from the beginning of time, of each promised job."""
        self._leased: set[int] = set()
        self._admitted: dict[int, bool] = {}
        self._counts = {"admitted": 0, "refused": 0, "programs": 0, "greedy_plans": 0, "unproven_plans": 0}

    # --- who comes and goes

    def arrives(self, job: JobView, /) -> None:
        """Promise it a deadline if there is one that can be kept from the next lease on."""
        if not job.deadlines:
            return
        leases = self._room(job, -(-self.now // self.p.lease))
        self._admitted[job.number] = leases is not None
        self._counts["admitted" if leases is not None else "refused"] += 1
        if leases is None:
            self._refused[job.number] = job
        else:
            self._promised[job.number] = job
            self._plan[job.number] = leases

    def _room(self, job: JobView, first: int) -> frozenset[int] | None:
        """Leases for one more promise; those of the others may move for it."""
        request = self._request(job, first, promised=True)
        if not request.options:
            return None
        jobs, requests = self._requests(first)
        known = {index: self._from(first, self._plan[one.number]) for index, one in enumerate(jobs)}
        found = room_for(request, known, requests, self._capacity)
        if found is None:
            new = self._choose([*requests, request], None)
            if new is None:
                return None
            for index, one in enumerate(jobs):
                self._plan[one.number] = frozenset(lease + first for lease in new.plan[index])
            found = new.plan[len(jobs)]
        return frozenset(lease + first for lease in found)

    def leaves(self, job: JobView, /) -> None:
        """Its promise is kept or void."""
        self._promised.pop(job.number, None)
        self._refused.pop(job.number, None)
        self._plan.pop(job.number, None)
        self._leased.discard(job.number)

    # --- leases

    def lease_ends(self) -> None:
        """Plan anew, and give everybody a place for the next lease."""
        first = self.now // self.p.lease
        jobs, requests = self._requests(first)
        known: Plan = {index: self._from(first, self._plan[one.number]) for index, one in enumerate(jobs)}
        new = self._choose(requests, known) if jobs else None
        plan = known if new is None else new.plan
        for index, one in enumerate(jobs):
            self._plan[one.number] = frozenset(lease + first for lease in plan[index])
        self._leased = {job.number for index, job in enumerate(jobs) if 0 in plan[index]}
        here = [*self.running.values(), *self.waiting.values()]
        others = self.ranked(job for job in here if job.number not in self._leased)
        self.replace([*(job for job in jobs if job.number in self._leased), *others])

    def slot_ends(self) -> None:
        """Whoever was promised this lease goes first; whoever runs stays; then gaps are filled."""
        here = [*self.running.values(), *self.waiting.values()]
        leased = [job for job in here if job.number in self._leased]
        others = [job for job in self.running.values() if job.number not in self._leased]
        gaps = [job for job in self.waiting.values() if job.number not in self._leased]
        self.replace([*leased, *others, *self.ranked(gaps)])

    def ranked(self, jobs: Iterable[JobView]) -> list[JobView]:
        """Who fills gaps: within a class the least remaining service first."""
        return sorted(jobs, key=lambda job: (self._class(job), job.remaining(self.now) * job.gpus, job.number))

    def _class(self, job: JobView) -> int:
        if not job.deadlines:
            return 0
        return 1 if job.number in self._promised or self._can_make_it(job) else 2

    def _can_make_it(self, job: JobView) -> bool:
        """Whether any of its deadlines could be kept if it ran from now on."""
        return self.now + job.remaining(self.now) // ONE <= job.deadlines[-1].time

    def _requests(self, first: int) -> tuple[list[JobView], list[Request]]:
        jobs = list(self._promised.values())
        return jobs, [self._request(job, first, promised=True) for job in jobs]

    def _request(self, job: JobView, first: int, *, promised: bool) -> Request:
        lease, devices = self.p.lease, rounded_up(job.gpus)
        cost = self.costs.to_start(job.gpus, again=True) if job.gpus else 0
        left = job.remaining(self.now) / ONE
        need = max(1, ceil(self.p.padding * left * (1 + cost / lease) / lease))
        options = [(deadline.time // lease - first, deadline.value) for deadline in job.deadlines]
        kept = tuple((due, value) for due, value in options if due >= need)
        if promised and not kept and job.number in self._promised:
            kept = ((max(need, options[-1][0]), options[-1][1]),)  # padded away; its plan says when it runs
        return Request(devices, need, kept, promised)

    def _choose(self, requests: list[Request], known: Plan | None) -> Chosen | None:
        """A plan for all promised jobs; a known one if nothing better turns up."""
        found: Chosen | None = None
        rows = sum(len(request.options) for request in requests)
        spare = not any(number in self.waiting and self._can_make_it(job) for number, job in self._refused.items())
        if self.p.solver == "highs" and rows <= self.p.rows:
            self._counts["programs"] += 1
            found = choose(requests, self._capacity, busy=spare, nodes=self.p.nodes, known=known)
            if found is not None and not found.proven:
                self._counts["unproven_plans"] += 1
        if found is None:
            found = greedy(requests, self._capacity, busy=spare)
            self._counts["greedy_plans"] += found is not None
        return found

    def _from(self, first: int, leases: frozenset[int]) -> frozenset[int]:
        return frozenset(lease - first for lease in leases if lease >= first)

    # --- results

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """Whether it was admitted."""
        return {"admitted": float(self._admitted[job.number])} if job.number in self._admitted else {}

    def counted(self) -> Mapping[str, float]:
        """Admissions, and how plans were found."""
        return self._counts
