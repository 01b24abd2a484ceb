"""Policies that plan with run-time limits: the base of `easy` and `conservative`."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Mapping
from math import ceil
from typing import ClassVar, Final, Literal

from paictl.frozen import frozen
from paictl.sim.actions import Stop, Trigger
from paictl.sim.dice import Dice
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.view import JobView
from paictl.units import Millis

SHORTEST: Final = 1_000
"""The shortest limit, in milliseconds."""
GRACE: Final = 60_000
"""Milliseconds that a job that has passed its limit is expected to run on, at each decision (`overrun=run`)."""


@frozen
class LimitParameters(Parameters):
    """The source of limits, and what happens when a job reaches its limit."""

    limits: Literal["exact", "factor", "user", "max"] = parameter(
        "exact",
        "limit of a job without one: its duration, its duration times factor, times a random factor for each job (1 "
        "to factor), or the same limit for all",
    )
    factor: float = parameter(2.0, "for limits=factor and limits=user", least=0.01)
    limit: Span = parameter(Span(86_400_000), "for limits=max", least=1)
    overrun: Literal["end", "run"] = parameter("end", "a job that reaches its limit is ended, or keeps running")


class Limited(Policy):
    """Keeps the planned end of each running job, ends jobs at their limits, and accounts for promised starts.

    A promise is the first start time that a job was given. Times are instants in milliseconds.
    """

    knows = frozenset({Knowledge.DURATION})
    Parameters: ClassVar[type[LimitParameters]] = LimitParameters

    def __init__(self, parameters: LimitParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.planned: list[tuple[int, int, JobView]] = []
        """(planned end, number, job) of running jobs, rising."""
        self._ends: dict[int, int] = {}
        self._limits: dict[int, int] = {}
        self._promises: dict[int, int] = {}
        self._overtook: set[int] = set()
        self._over: set[int] = set()
        self._slack: list[int] = []

    @abstractmethod
    def schedule(self, moment: Trigger, freed: bool) -> None:
        """Start jobs; `freed`: devices became free before a planned end, or a planned end moved."""

    def plan(self, moment: Trigger) -> None:
        """Remove ended jobs, end jobs at their limits, then schedule."""
        freed = False
        for job in moment.ended:
            freed |= self.forget(job) > self.now
        while self.planned and self.planned[0][0] <= self.now:
            _, _, job = self.planned[0]
            self._over.add(job.number)
            self.forget(job)
            if self.p.overrun == "end":
                self.placement.give(self.held(job))
                self.let_go(job)
                self.act(Stop(job))
            else:
                self._expect(job, self.now + GRACE)
                freed = True
        self.schedule(moment, freed)

    def wake(self) -> Millis | None:
        """At the first limit."""
        return Millis(self.planned[0][0]) if self.planned else None

    # --- limits

    def limit(self, job: JobView) -> int:
        """The run-time limit of a job, in milliseconds; drawn or computed once."""
        limit = self._limits.get(job.number)
        if limit is None:
            self._limits[job.number] = limit = max(SHORTEST, self._limit(job))
        return limit

    def _limit(self, job: JobView) -> int:
        if job.limit is not None:
            return job.limit
        if self.p.limits == "max":
            return int(self.p.limit)
        duration: int = self.costs.profile + ceil(job.work / (1 - self.p.overhead))
        if self.p.limits == "exact":
            return duration
        factor: float = self.p.factor
        if self.p.limits == "user":
            drawn = Dice(self.setup.seed, f"limit of {job.number}").fraction()
            factor = 1 + (factor - 1) * float(drawn)
        return round(duration * factor)

    # --- running jobs

    def run(self, job: JobView) -> bool:
        """Start a job if there is a place; False, and nothing changes, if there is none."""
        if not self.start(job):
            return False
        self.began(job)
        return True

    def began(self, job: JobView) -> None:
        """Plan the end of a job that starts now, and account for its promise."""
        self._expect(job, self.now + self.limit(job))
        if (promise := self._promises.get(job.number)) is not None:
            self._slack.append(self.now - promise)

    def _expect(self, job: JobView, end: int) -> None:
        self._ends[job.number] = end
        insort(self.planned, (end, job.number, job))

    def forget(self, job: JobView) -> int:
        """Remove a job that no longer runs; return its planned end."""
        end = self._ends.pop(job.number)
        del self.planned[bisect_left(self.planned, (end, job.number, job))]
        return end

    # --- promises

    def promise(self, job: JobView, start: int) -> None:
        """Promise a start time, unless the job already has a promise."""
        self._promises.setdefault(job.number, start)

    def promised(self, job: JobView) -> bool:
        """Whether the job has a promise."""
        return job.number in self._promises

    def overtakes(self, job: JobView) -> None:
        """Count a job that starts before one that was submitted earlier."""
        self._overtook.add(job.number)

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """A job's limit (seconds), its first promise (seconds from the start of the trace), and whether it overtook."""
        values = {"limit": self.limit(job) / 1000}
        if (promise := self._promises.get(job.number)) is not None:
            values["promise"] = promise / 1000
        return values | {"backfilled": float(job.number in self._overtook)}

    def counted(self) -> Mapping[str, float]:
        """Promises made and broken, slack in seconds (negative: earlier), jobs over their limit, backfilled jobs."""
        slack = self._slack
        return {
            "promises": len(self._promises),
            "promises_broken": sum(late > 0 for late in slack),
            "over_limit": len(self._over),
            "backfilled": len(self._overtook),
            "mean_slack": sum(slack) / len(slack) / 1000 if slack else 0.0,
            "max_slack": max(slack, default=0) / 1000,
        }
