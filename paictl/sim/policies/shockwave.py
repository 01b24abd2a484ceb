"""Shockwave: a plan of rounds for jobs whose batch size changes, fair by forecast finish times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Final

from paictl.frozen import frozen
from paictl.sim.policies.base import Setup
from paictl.sim.policies.parameters import parameter
from paictl.sim.policies.rounds import InRounds, RoundParameters
from paictl.sim.policies.training import seconds_done
from paictl.sim.programs.epochs import Prospect, laid_out, rounds_for, weighted_rounds
from paictl.sim.view import JobView

_NEARLY_DONE: Final = 100.0
"""Exponent of lateness for jobs that need less than a round."""
_MOST: Final = 1e9
"""The largest weight: very late jobs come first in any case, and larger weights would cost the solver precision."""


@frozen
class ShockwaveParameters(RoundParameters):
    """`shockwave:…`; the defaults are those published for 32 devices."""

    horizon: int = parameter(20, "number of planned rounds", least=1, most=1000)
    renew: int = parameter(
        8, "number of rounds after which the plan is renewed even if no job arrived or ended", least=1
    )
    power: float = parameter(12.0, "weight of the progress of a late job: lateness to this power")
    pressure: float = parameter(0.001, "cost of a second of the longest remaining job, for a short makespan")


class Shockwave(InRounds):
    """Plans rounds so that the product of all jobs' progress is large and no job completes later than is fair.

    A job's remaining time is forecast from the batch sizes in its profile and those it has used. Jobs that will still
    be late weigh more, in proportion to their lateness. Example: `shockwave:horizon=20`.
    """

    id = "shockwave"
    title = "fair finish times for jobs whose batch size changes, by a plan of rounds"
    paper = "Zheng et al., Shockwave (NSDI'23); uw-mad-dash/shockwave@8a44f4a"
    Parameters = ShockwaveParameters
    choices = (
        "the plan is an optimum to 0.1 %; the published runs stop their solver after 15 s, and three of them differ "
        "by 3 % in makespan",
        "forecasts are not scaled by measured times: a job has the times of its profile",
        "a job without epochs in the trace has up to a hundred equal epochs and one batch size",
        "a job runs on devices of one type; a job larger than every type never runs",
    )

    def __init__(self, parameters: ShockwaveParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._plan: list[list[int]] = []
        """Numbers of jobs by round, the next round last."""
        self._age = 0
        """Rounds since the plan was made."""
        self._changed = False
        self._finishes: dict[int, tuple[float, float, float, float]] = {}
        """By job, its forecast finish times in seconds: (integral over time, time, the latest forecast, since when)."""
        self._programs = 0

    def entered(self, _: JobView, /) -> None:
        """A new plan is due."""
        self._changed = True

    def left(self, job: JobView, /) -> None:
        """A new plan is due."""
        self._finishes.pop(job.number, None)
        self._changed = True

    def counted(self) -> Mapping[str, float]:
        """Also how many plans were made."""
        return {**super().counted(), "programs": self._programs}

    def order(self) -> Sequence[JobView]:
        """The jobs planned for this round, then the others, the longest remaining time first."""
        if self._changed or self._age >= self.p.renew or not self._plan:
            self._make_plan()
        self._age += 1
        planned = [self.jobs[number] for number in self._plan.pop() if number in self.jobs]
        chosen = {job.number for job in planned}
        rest = [job for job in self.jobs.values() if job.number not in chosen]
        rest.sort(key=lambda job: (-self._remaining(job), job.number))
        return planned + rest

    # --- the plan

    def _make_plan(self) -> None:
        jobs = list(self.jobs.values())
        if self._changed:
            self._forecast(jobs)
        prospects = [self._prospect(job) for job in jobs]
        length, horizon, size = self.p.round / 1000, self.p.horizon, self.cluster.size
        weights = [1.0] * len(jobs)
        rounds = rounds_for(prospects, size, horizon, length, self.p.pressure)
        if rounds is None:
            weights = [self._weight(prospect, length) for prospect in prospects]
            rounds = weighted_rounds(prospects, size, horizon, length, self.p.pressure, weights)
        self._programs += 1
        plan = laid_out(rounds, [job.gpus for job in jobs], weights, size, horizon)
        self._plan = [[jobs[place].number for place in row] for row in reversed(plan)]
        self._age, self._changed = 0, False

    def _forecast(self, jobs: Sequence[JobView]) -> None:
        """Forecast when each job would end on its fair part of the cluster; earlier forecasts count by their time."""
        now = self.now / 1000
        for job in jobs:
            epoch, course = self._epoch(job), self.trainings[job.number]
            total = (course.expected(epoch) + self._remaining(job)) * self._slowdown(job)
            area, time, latest, since = self._finishes.get(job.number, (0.0, 0.0, 0.0, now))
            span = now - since
            self._finishes[job.number] = area + latest * span, time + span, job.submit / 1000 + total, now

    def _prospect(self, job: JobView) -> Prospect:
        epoch, course = self._epoch(job), self.trainings[job.number]
        now = self.now / 1000
        area, time, latest, since = self._finishes[job.number]
        area, time = area + latest * (now - since), time + now - since
        target = 0.9 * (area / time if time > 0 else latest) + 0.1 * latest
        epochs_by_batch = course.seen(min(epoch + 1, course.epochs))
        mean = fsum(count * course.epoch_seconds[batch] for batch, count in epochs_by_batch.items()) / max(
            1, sum(epochs_by_batch.values())
        )
        return Prospect(job.gpus, course.epochs, epoch, mean, self._remaining(job), self._slowdown(job), target - now)

    def _weight(self, job: Prospect, length: float) -> float:
        """The weight of a job: its lateness (forecast by target) to a power, 1 for a job in time."""
        now = self.now / 1000
        target = max(job.target + now, 1e-3)
        late = (now + job.remaining * job.slowdown) / target
        if late <= 1:
            return 1.0
        return float(min(_MOST, late ** (_NEARLY_DONE if job.remaining < length else self.p.power)))

    def _slowdown(self, _: JobView) -> float:
        return max(1.0, len(self.jobs) / self.cluster.size)

    def _epoch(self, job: JobView) -> int:
        course = self.trainings[job.number]
        return min(course.epochs - 1, int(course.progress(seconds_done(job, self.now))[1]))

    def _remaining(self, job: JobView) -> float:
        return self.trainings[job.number].remaining(self._epoch(job))
