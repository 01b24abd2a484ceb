"""ElasticFlow: deadlines are promised with as few devices as will do, and what is left makes jobs faster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final, Literal

from paictl.frozen import frozen
from paictl.sim.actions import Resize, Start, Trigger
from paictl.sim.knowledge import Knowledge
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.policies.unpromised import Unpromised
from paictl.sim.programs.filling import Curve, FreeDevices
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis

_WAITS: Final = -1
"""The level of a job without devices."""


@frozen
class ElasticFlowParameters(Parameters):
    """`elasticflow:slot=60`; the defaults are those of the published runs."""

    slot: Span = parameter(
        Span(60_000), "length of a slot; at its end, devices are assigned again if anything has changed", least=0.001
    )
    admission: Literal["each", "slot"] = parameter(
        "each",
        "each: jobs are admitted or refused one by one; slot: all or none of the jobs that arrived in a slot are "
        "admitted",
    )
    most: int = parameter(1024, "number of jobs without a promise that a decision considers, oldest first", least=1)


class ElasticFlow(Policy):
    """Admits a job if its deadline can be kept in addition to all promised ones. Example: `elasticflow:slot=5m`.

    Promised jobs are planned in the order of their deadlines, each with as few devices as possible. The remaining
    devices go, one step at a time, to the job that wastes least of them, then to jobs without a promise.
    """

    id = "elasticflow"
    title = "deadlines with elastic jobs: each gets the fewest that meet its deadline, others go where they help"
    paper = "Gu et al., ASPLOS'23; pkusys/ElasticFlow@04a0109 `--schedule=ef-accessctrl`"
    knows = frozenset({Knowledge.DURATION, Knowledge.SCALING, Knowledge.DEADLINE})
    Parameters = ElasticFlowParameters
    choices = (
        "levels are powers of two within a job's elastic range, as long as each makes it faster; a job that is not "
        "elastic has one level",
        "a job's quota applies from now to its end; the published code uses the next smaller one for as long as "
        "that is enough",
        "the waste of one more device is estimated from the rates of both levels, as if the smaller one lasted; the "
        "published code plans again for each candidate",
        "refused jobs are not dropped: they run on the remaining devices, least remaining service first, like jobs "
        "without deadlines",
        "each job is admitted separately; the published code refuses all jobs that arrived in a slot if their "
        "deadlines cannot all be kept (admission=slot)",
        "of several deadlines the first one counts; durations are exact",
        "a job that becomes late because of a resize or a restart loses its promise, and runs on the remaining devices",
    )

    def __init__(self, parameters: ElasticFlowParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self._promised: dict[int, JobView] = {}
        self._curves: dict[int, Curve] = {}
        self._levels: dict[int, int] = {}
        """Of those that run: place in their curve."""
        self._others = Unpromised(parameters.most, self._levels)
        """Without a deadline, or refused."""
        self._admitted: dict[int, bool] = {}
        self._arrived: list[JobView] = []
        self._news = False
        self._broken = 0

    # --- who comes and goes

    def plan(self, moment: Trigger) -> None:
        """Note who came and went; at the end of a slot decide."""
        for job in moment.ended:
            for book in (self._promised, self._curves, self._levels):
                book.pop(job.number, None)
            self._others.leave(job.number, self.now)
        self._arrived += moment.arrived
        self._news = self._news or bool(moment.arrived or moment.ended)
        if self._news and self.now % self.p.slot == 0:
            self._news = False
            self._decide()

    def wake(self) -> Millis | None:
        """The end of the slot, where anything has changed."""
        return Millis((self.now // self.p.slot + 1) * self.p.slot) if self._news else None

    def _decide(self) -> None:
        self._curves |= {job.number: self._curve(job) for job in self._arrived}
        for jobs in [self._arrived] if self.p.admission == "slot" else [[job] for job in self._arrived]:
            self._admit(jobs)
        self._arrived = []
        profile = FreeDevices(self.cluster.size)
        wanted = self._least(profile)
        self._fill(wanted, self._spread(wanted, self._promised.values(), profile.free(0)))
        self._carry_out(wanted)

    def _curve(self, job: JobView) -> Curve:
        least, most = job.elastic or (job.gpus, job.gpus)
        numbers = {1 << power for power in range(most.bit_length()) if least <= 1 << power <= most} | {job.gpus}
        levels: list[int] = []
        rates: list[float] = []
        for number in sorted(number for number in numbers if number <= self.cluster.size):
            rate = (1.0 if number == job.gpus else job.scaling.get(number, number / job.gpus)) * self.p.slot
            if rate > (rates[-1] if rates else 0.0):
                levels.append(number)
                rates.append(rate)
        return Curve(tuple(levels), tuple(rates))

    # --- promises

    def _admit(self, jobs: Iterable[JobView]) -> None:
        """Promise jobs their deadlines if all promises can be kept then; else none of them."""
        due = {job.number: job for job in jobs if job.deadlines}
        before = dict(self._promised)
        self._promised |= due
        kept = not due or not self._late(FreeDevices(self.cluster.size))
        self._promised = self._promised if kept else before
        self._admitted |= dict.fromkeys(due, kept)
        for job in jobs:
            if job.number not in self._promised:
                self._others.enter(job, self.now)

    def _late(self, profile: FreeDevices) -> bool:
        """Whether a promise cannot be kept."""
        return any(level is None for _, level in self._planned(profile))

    def _planned(self, profile: FreeDevices) -> Iterable[tuple[JobView, int | None]]:
        """Each promised job by deadline, and its level in this slot; None: it would be late."""
        for job in sorted(self._promised.values(), key=lambda job: (job.deadlines[0].time, job.number)):
            curve = self._curves[job.number]
            due = (job.deadlines[0].time - self.now) // self.p.slot
            plan = profile.filled(curve, job.remaining(self.now) / ONE, due)
            if plan is None:
                yield job, None
                continue
            profile.take(plan, curve)
            yield job, plan[0].level if plan and plan[0].first == 0 else _WAITS

    def _least(self, profile: FreeDevices) -> dict[int, int]:
        """The level of each promised job in this slot; those that have become late lose their promise."""
        wanted: dict[int, int] = {}
        for job, level in list(self._planned(profile)):
            if level is None:
                self._others.enter(self._promised.pop(job.number), self.now)
                self._broken += 1
            else:
                wanted[job.number] = level
        return wanted

    # --- what is left

    def _spread(self, wanted: dict[int, int], jobs: Iterable[JobView], free: int) -> int:
        """Raise levels by one, of the job that wastes least on it, until nobody can be raised; what is left then."""
        jobs = list(jobs)
        while True:
            best, chosen = inf, None
            for job in jobs:
                waste = self._waste(self._curves[job.number], wanted.get(job.number, _WAITS), free)
                if waste < best:
                    best, chosen = waste, job.number
            if chosen is None:
                return free
            curve, level = self._curves[chosen].levels, wanted.get(chosen, _WAITS)
            free -= curve[level + 1] - (curve[level] if level >= 0 else 0)
            wanted[chosen] = level + 1

    @staticmethod
    def _waste(curve: Curve, level: int, free: int) -> float:
        """Device-slots that a slot at the next level costs more than the work is worth at this one, by device."""
        if level + 1 >= len(curve.levels):
            return inf
        above, below = curve.levels[level + 1], curve.levels[level] if level >= 0 else 0
        if above - below > free:
            return inf
        if level < 0:
            return 0.0  # to start is never a waste
        return (above - below * curve.rates[level + 1] / curve.rates[level]) / (above - below)

    def _fill(self, wanted: dict[int, int], free: int) -> None:
        """Jobs without a promise, least remaining service first, each at its least level; then what is left again."""
        if free <= 0:
            return
        started: list[JobView] = []
        for job in self._others.by_service(self.now):
            levels = self._curves[job.number].levels
            if levels and levels[0] <= free:
                wanted[job.number] = 0
                free -= levels[0]
                started.append(job)
            if not free:
                return
        self._spread(wanted, started, free)

    # --- devices

    def _carry_out(self, wanted: Mapping[int, int]) -> None:
        """Stop and shrink jobs, then grow and start others, the largest first; whoever changes keeps what it can."""
        changed = [
            self._promised.get(number) or self._others[number]
            for number in {**self._levels, **wanted}
            if wanted.get(number, _WAITS) != self._levels.get(number, _WAITS)
        ]
        changed.sort(
            key=lambda job: (
                wanted.get(job.number, _WAITS) > self._levels.get(job.number, _WAITS),
                -wanted.get(job.number, _WAITS),
                job.number,
            )
        )
        for job in changed:
            level, held = wanted.get(job.number, _WAITS), self.held(job)
            if level < 0:
                self.preempt(job)
                del self._levels[job.number]
                self._others.waits(job.number, self.now)
                continue
            more = self._curves[job.number].levels[level] - len(held)
            if more < 0:
                self.placement.give(held[more:])
                devices = held[:more]
            elif (place := self.placement.take(job, more)) is None:
                continue  # others have its type: it stays as it is
            else:
                devices = tuple(sorted((*held, *place)))
            self.act(Resize(job, devices) if held else Start(job, devices))
            self.hold(job, devices)
            self._levels[job.number] = level
            self._others.runs(job.number)

    # --- results

    def notes(self, job: JobView, /) -> Mapping[str, float]:
        """Whether it was admitted."""
        return {"admitted": float(self._admitted[job.number])} if job.number in self._admitted else {}

    def counted(self) -> Mapping[str, float]:
        """Promises that restarts or resizes made late."""
        return {"promises_broken": self._broken}
