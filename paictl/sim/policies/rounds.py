"""Rounds on devices of one type, as in Shockwave's simulator, and the baselines to which it was compared."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any, Final, Literal

import numpy as np

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.nodes import TypedPools
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.policies.training import Training, seconds_done, training
from paictl.sim.programs.finish_times import Demands, fair_shares
from paictl.sim.programs.shares import Claim, Column, Shares, shares_of_time
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis

_NEARLY: Final = 5_000
"""A slice that is shorter than a round by more than this (ms) is a job's last one, and its restart costs nothing."""
_STEPS: Final = 1e-3
"""The fewest steps that a job has left: without any it would get no share."""
_MAKESPANS: Final = (100.0, 1e6)
"""Bounds in seconds of the published code's search for the least makespan."""
UNFAIR: Final = 1.05
"""A job is treated unfairly if it takes more than this times as long as on its fair part of the cluster."""


@frozen
class RoundParameters(Parameters):
    """The parameters of all policies in rounds."""

    round: Span = parameter(Span(120_000), "length of a round", least=0.001)
    restart: Span = parameter(Span(20_000), "time that a job loses in a round if it did not run in the previous one")


class InRounds(Policy):
    """Nothing starts or stops within a round; it ends early if all its jobs have ended.

    A subclass ranks the jobs for the next round in `order`; jobs that do not fit are skipped.
    """

    knows = frozenset({Knowledge.DURATION, Knowledge.THROUGHPUT, Knowledge.FACTS})

    def __init__(self, parameters: Any, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.jobs: dict[int, JobView] = {}
        """Jobs that have not ended, in the order of arrival."""
        self.trainings: dict[int, Training] = {}
        self._pools = TypedPools(self.cluster)
        self._round: dict[int, tuple[JobView, str, Devices, int]] = {}
        """The jobs of the present round: (job, type, devices, rate limit in units of `ONE`)."""
        self._began: Millis | None = None
        self._rounds = 0
        self._fair: list[float] = []
        """Of each ended job: its time from submission to end, divided by its time alone."""
        self._arrivals = 0

    # --- to be overridden

    @abstractmethod
    def order(self) -> Sequence[JobView]:
        """The jobs that may run in the next round, the most urgent first."""

    def entered(self, job: JobView, /) -> None:
        """A job arrived."""

    def left(self, job: JobView, /) -> None:
        """A job ended."""

    def served(self, job: JobView, span: int, /) -> None:
        """A job that has not ended ran for `span` milliseconds in the round that is over."""

    # --- the round

    def plan(self, moment: Trigger) -> None:
        """Update the jobs; when a round is over, start the next one."""
        for job in moment.arrived:
            self._arrivals += 1
            self.jobs[job.number] = job
            self.trainings[job.number] = training(job)
            self.entered(job)
        for job in moment.ended:
            self._note(job)
            self.left(job)
            del self.jobs[job.number], self.trainings[job.number]
        began = self._began
        if began is None or self.now >= began + self.p.round or not any(n in self.jobs for n in self._round):
            self._turn()

    def wake(self) -> Millis | None:
        """The end of the round."""
        return None if self._began is None else Millis(self._began + self.p.round)

    def ended(self, job: JobView, _: Devices, /) -> None:
        """Its devices stay idle until the round ends."""

    def _turn(self) -> None:
        if self._began is not None:
            for number, (job, *_) in self._round.items():
                if number in self.jobs:
                    self.served(job, self.now - self._began)
        chosen = self._choose(self.order()) if self.jobs else {}
        self._carry_out(chosen)
        self._began = self.now if chosen else None
        self._rounds += bool(chosen)

    def _choose(self, order: Sequence[JobView]) -> dict[int, tuple[JobView, str]]:
        """By number, the jobs of the round, each on the first type that has room; its present type is tried first."""
        free, idle = dict(self.cluster.types), self.cluster.size
        chosen: dict[int, tuple[JobView, str]] = {}
        for job in order:
            if not idle:  # thousands may wait
                break
            at = self._round.get(job.number)
            kinds = ([at[1]] if at else []) + [kind for kind in free if job.gpu_type in (None, kind)]
            kind = next((kind for kind in kinds if free[kind] >= job.gpus), None)
            if kind is not None:
                free[kind] -= job.gpus
                idle -= job.gpus
                chosen[job.number] = job, kind
        return chosen

    def _carry_out(self, chosen: Mapping[int, tuple[JobView, str]]) -> None:
        """Preempt and start; jobs that run again on the same type keep their devices."""
        before, self._round = self._round, {}
        for number, (job, kind, devices, limit) in before.items():
            if number in chosen and chosen[number][1] == kind:
                self._round[number] = job, kind, devices, ONE
                if limit != ONE:
                    self.act(Colocate(job, devices))
            else:
                self._pools.give(devices)
                if number in self.jobs:
                    self.act(Preempt(job))
        starting = [(job, kind) for number, (job, kind) in chosen.items() if number not in self._round]
        for job, kind in sorted(starting, key=lambda start: (-start[0].gpus, start[0].number)):
            devices, limit = self._pools.take(kind, job.gpus), self._limit(job)
            self._round[job.number] = job, kind, devices, limit
            self.act(Start(job, devices, limit))

    def _limit(self, job: JobView) -> int:
        """The rate limit of a job that starts, in units of `ONE`: the cost of a restart is spread over the round."""
        span: int = min(self.p.round, job.remaining(self.now) // ONE)
        if not self._rounds or span <= self.p.round - _NEARLY:
            return ONE
        lost: int = self.p.restart
        return max(0, span - lost) * ONE // max(1, span)

    # --- fairness of finish times

    def _note(self, job: JobView) -> None:
        alone = job.facts.get("alone", job.work / 1000)
        if alone > 0:
            self._fair.append((self.now - job.submit) / 1000 / alone)

    def counted(self) -> Mapping[str, float]:
        """Rounds, and finish-time fairness: a job's time / (its time alone * jobs per device of the cluster)."""
        crowd = max(1.0, self._arrivals / self.cluster.size)
        fair = [ratio / crowd for ratio in self._fair]
        return {
            "rounds": self._rounds,
            "worst_ftf": max(fair, default=0.0),
            "unfair": 100 * sum(ratio > UNFAIR for ratio in fair) / max(1, len(fair)),
        }


@frozen
class FairParameters(RoundParameters):
    """`rounds:objective=…`."""

    objective: Literal["max-min", "finish-time", "max-sum", "makespan", "gandiva-fair", "allox"] = parameter(
        "finish-time", "what the shares optimize"
    )
    settle: Span = parameter(Span(1_000_000), "minimum time between two computations of shares")


class FairRounds(InRounds):
    """A program gives jobs shares of time; each round runs the jobs that are furthest behind their shares.

    The baselines of Shockwave: Gavel's objectives on one type of device, Gandiva's fair shares, AlloX. Example:
    `rounds:objective=allox`.
    """

    id = "rounds"
    title = "shares of time on one type of device, in rounds (Shockwave's baselines)"
    paper = "Zheng et al., Shockwave (NSDI'23), baselines; uw-mad-dash/shockwave@8a44f4a"
    Parameters = FairParameters
    choices = (
        "the program knows the current batch size but has no forecast: this is what Shockwave improves",
        "among all optima, the center, as an interior-point solver finds it",
        "makespan: among the shares that the bisection allows, those halfway between demand and supply",
        "a job that arrived after shares were computed does not run yet, as in the published runs",
        "shares computed at time 0 do not count for `settle`, as in the published runs",
        "a job runs on devices of one type; a job larger than every type never runs",
    )

    def __init__(self, parameters: FairParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._shares: dict[int, float] = {}
        self._received: dict[int, int] = {}
        self._deficit: dict[int, float] = {}
        self._isolated: dict[int, float] = {}
        """Seconds that a job's past work would have taken on its fair part of the cluster."""
        self._pace: dict[int, tuple[float, float]] = {}
        """(seconds of work done when shares were last computed, seconds that a second of work takes in isolation)."""
        self._settled: Millis | None = None
        self._changed = False

    def entered(self, job: JobView, /) -> None:
        """Credit the job with half a round, so that it is not infinitely behind."""
        self._received[job.number] = self.p.round // 2
        self._deficit[job.number] = self._isolated[job.number] = 0.0
        self._changed = True

    def left(self, job: JobView, /) -> None:
        """Forget it."""
        for book in (self._shares, self._received, self._deficit, self._isolated, self._pace):
            book.pop(job.number, None)
        self._changed = True

    def served(self, job: JobView, span: int, /) -> None:
        """Count the time, regardless of the number of devices."""
        self._received[job.number] += span

    def order(self) -> Sequence[JobView]:
        """By share / part of the time received, then by time owed, then by share."""
        if self._changed and (not self._settled or self.now - self._settled >= self.p.settle):
            self._settle()
        entitled = [job for job in self.jobs.values() if job.number in self._shares]
        if self._shares.keys() == self._round.keys():  # all of them run already
            return entitled
        received = sum(self._received.values())

        def key(job: JobView) -> tuple[float, float, float, int]:
            share = self._shares.get(job.number, 0.0)
            part = self._received[job.number] / received if received else 0.0
            urgent = share / part if part else share * 1e9
            return -urgent, -self._deficit[job.number], -share, job.number

        return sorted(entitled, key=key)

    def _settle(self) -> None:
        half = self.p.round // 2
        since = 0 if self._settled is None else self.now - self._settled
        for number in self.jobs:
            owed = self._shares.get(number, 0.0) * since
            self._deficit[number] += owed - (self._received[number] - half)
            self._received[number] = half
        shares = self._compute(list(self.jobs.values()))
        self._shares = dict(zip(self.jobs, shares, strict=True))
        self._settled, self._changed = self.now, False

    def _compute(self, jobs: Sequence[JobView]) -> list[float]:
        match self.p.objective:
            case "gandiva-fair":
                return [min(1.0, self.cluster.size / len(jobs))] * len(jobs)
            case "allox":
                return self._allox(jobs)
            case "makespan":
                return self._makespan(jobs)
            case "finish-time":
                return self._finish_times(jobs)
            case objective:
                return shares_of_time(objective, self._problem(jobs, aware=objective != "max-min"))

    def _problem(self, jobs: Sequence[JobView], *, aware: bool) -> Shares:
        claims, columns = [], []
        for index, job in enumerate(jobs):
            speed, steps = self._now(job)
            claims.append(Claim(job.gpus, max(steps, _STEPS), job.facts.get("weight", 1.0)))
            columns.append(Column((index,), 0, (speed if aware else 1.0,)))
        return Shares(claims, columns, [self.cluster.size])

    def _finish_times(self, jobs: Sequence[JobView]) -> list[float]:
        """Shares for which the worst ratio of a job's time to its time in isolation is least; 0 for a job that is
        larger than the cluster."""
        size, part = self.cluster.size, self.cluster.size / len(jobs)
        shares = dict.fromkeys((job.number for job in jobs), 0.0)
        rows = []
        for job in jobs:
            speed, steps = self._now(job)
            left, slower = max(steps, _STEPS) / speed, max(1.0, job.gpus / part)
            done = seconds_done(job, self.now)
            before, slower_before = self._pace.get(job.number, (done, 0.0))
            self._isolated[job.number] += (done - before) * slower_before
            self._pace[job.number] = done, slower
            if job.gpus <= size:
                age = (self.now - job.submit) / 1000
                rows.append((job.number, job.gpus, left, age, self._isolated[job.number] + left * slower))
        if rows:
            numbers, *columns = zip(*rows, strict=True)
            demands = Demands(*(np.array(column, dtype=float) for column in columns))
            shares.update(zip(numbers, fair_shares(demands, size).tolist(), strict=True))
        return list(shares.values())

    def _now(self, job: JobView) -> tuple[float, float]:
        """(Steps a second, steps left) at the present batch size."""
        course = self.trainings[job.number]
        batch, epoch = course.progress(seconds_done(job, self.now))
        speed = course.steps_per_second[batch]
        return speed, (course.epochs - epoch) * course.epoch_seconds[batch] * speed

    def _makespan(self, jobs: Sequence[JobView]) -> list[float]:
        """The centre of the shares with which all jobs end within a makespan at most 5 % above the least."""
        seconds = [steps / speed for speed, steps in map(self._now, jobs)]
        area = fsum(job.gpus * length for job, length in zip(jobs, seconds, strict=True)) / self.cluster.size
        least, low, high = max(area, *seconds), *_MAKESPANS
        while high > low * 1.05:
            middle = (low + high) / 2
            low, high = (low, middle) if middle >= least else (middle, high)
        needed = [min(1.0, length / max(high, least)) for length in seconds]
        used = fsum(job.gpus * share for job, share in zip(jobs, needed, strict=True))
        room = fsum(job.gpus * (1 - share) for job, share in zip(jobs, needed, strict=True))
        more = min(1.0, max(0.0, self.cluster.size - used) / room) / 2 if room > 0 else 0.0
        return [share + more * (1 - share) for share in needed]

    def _allox(self, jobs: Sequence[JobView]) -> list[float]:
        """Jobs with a share of 1 keep it; the oldest of the others are assigned to positions in the workers' queues."""
        from scipy.optimize import linear_sum_assignment

        served = [job for job in jobs if self._shares.get(job.number, 0.0) == 1.0]
        others = [job for job in jobs if self._shares.get(job.number, 0.0) != 1.0]
        free = self.cluster.size - len(served)
        shares = dict(self._shares)
        tried = others[: max(int(0.2 * len(jobs)), free)] if free > 0 else []
        if tried:
            ages = np.array([(self.now - job.submit) / 1000 for job in tried])
            lengths = np.array([steps / speed for speed, steps in map(self._now, tried)])
            places = np.arange(1, len(tried) + 1)
            costs = np.repeat(places[None, :] * lengths[:, None] + ages[:, None], free, axis=1)
            rows, columns = linear_sum_assignment(costs)
            last: dict[int, tuple[int, int]] = {}
            for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
                place, worker = divmod(column, free)
                last[worker] = max(last.get(worker, (-1, -1)), (place, row))
            for _, row in last.values():
                shares[tried[row].number] = 1.0 / tried[row].gpus
        return [shares.get(job.number, 0.0) for job in jobs]
