"""Earliest deadline first, on Chronus' grid of time: the baseline of SoCC'21."""

from __future__ import annotations

from collections.abc import Iterable

from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.grid import Grid
from paictl.sim.state import ONE
from paictl.sim.view import JobView


class Edf(Grid):
    """Ranks by the deadline that can be met next; jobs without one come last, by submission. Example: `edf:lease=20m`.

    A soft job whose deadline has passed has its next one.
    """

    id = "edf"
    title = "earliest deadline first"
    paper = "textbook (Liu and Layland, 1973); baseline of Chronus (SoCC'21)"
    knows = frozenset({Knowledge.DEADLINE})
    choices = (
        "decisions on the grid of Chronus (lease, slot), so that both can be compared",
        "a strict job that has missed its deadline keeps its place: plain EDF knows nothing of durations",
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
    """As `edf`, but whoever can meet no deadline any more lets the others go first. Example: `edf-infeasible-last`."""

    id = "edf-infeasible-last"
    title = "earliest deadline first; who is too late anyway comes last"
    paper = "textbook; the strongest simple rival of Chronus on its own traces (policies.md, D5)"
    knows = frozenset({Knowledge.DEADLINE, Knowledge.DURATION})
    choices = (
        "too late: remaining time and the cost of a resume do not fit before the deadline",
        "those who are too late and those without deadlines share one line, by remaining time",
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
