"""Earliest deadline first, on Chronus' grid of time: the baseline of SoCC'21."""

from __future__ import annotations

from collections.abc import Iterable

from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.grid import Grid
from paictl.sim.state import ONE
from paictl.sim.view import JobView


class Edf(Grid):
    """Ranks jobs by their next deadline that can be met; jobs without one come last, by submission. Example:
    `edf:lease=20m`.

    When a deadline of a soft job has passed, its next deadline counts.
    """

    id = "edf"
    title = "earliest deadline first"
    paper = "textbook (Liu and Layland, 1973); baseline of Chronus (SoCC'21)"
    knows = frozenset({Knowledge.DEADLINE})
    choices = (
        "decisions are made at Chronus' times (lease, slot), so that both can be compared",
        "a strict job that has missed its deadline keeps its rank: plain EDF does not know durations",
        "jobs without deadlines come after all others, in the order of submission",
    )

    def ranked(self, jobs: Iterable[JobView]) -> list[JobView]:
        """By deadline."""
        return sorted(jobs, key=self._key)

    def _key(self, job: JobView) -> tuple[float, int]:
        if not job.deadlines:
            return float("inf"), job.number
        ahead = [deadline.time for deadline in job.deadlines if deadline.time >= self.now]
        return float(ahead[0] if ahead else job.deadlines[-1].time), job.number


class EdfInfeasibleLast(Grid):
    """As `edf`, but jobs that can no longer meet a deadline come after the others. Example: `edf-infeasible-last`."""

    id = "edf-infeasible-last"
    title = "earliest deadline first; jobs that cannot meet theirs come last"
    paper = "textbook; the strongest simple rival of Chronus on its own traces (policies.md, D5)"
    knows = frozenset({Knowledge.DEADLINE, Knowledge.DURATION})
    choices = (
        "a job is too late if its remaining time and the cost of a resume do not fit before the deadline",
        "jobs that are too late and jobs without deadlines share one queue, by remaining time",
    )

    def ranked(self, jobs: Iterable[JobView]) -> list[JobView]:
        """The feasible by deadline, then the others by remaining time."""
        return sorted(jobs, key=self._key)

    def _key(self, job: JobView) -> tuple[int, float, int]:
        left = -(-job.remaining(self.now) // ONE)
        cost = 0 if job.running or job.first_start is None else self.costs.to_start(job.gpus, again=True)
        for deadline in job.deadlines:
            if self.now + left + cost <= deadline.time:
                return 0, float(deadline.time), job.number
        return 1, float(left), job.number
