"""Gavel: any objective made aware of heterogeneous devices, by shares of time and rounds that come close to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import fsum, inf
from typing import Final, Literal

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.dice import Dice
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.nodes import TypedPools
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.gavel_rounds import Numbers, RoundQueue
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.programs.first_come import FirstCome
from paictl.sim.programs.shares import Claim, Column, Shares, shares_of_time
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis

_DOLLARS: Final = {"V100": 2.48, "P100": 1.46, "K80": 0.45}
"""US dollars an hour (Google Cloud, 2020, as in the paper's §7); other types cost 1."""

_BY_TIME: Final = frozenset({"makespan", "finish-time"})
"""Objectives that divide the steps left by a rate: without awareness that of the reference, on every type."""


@frozen
class GavelParameters(Parameters):
    """`gavel:objective=…`."""

    objective: Literal[
        "max-min", "fifo", "fifo-weights", "makespan", "finish-time", "max-sum", "water-filling", "sjf", "cost"
    ] = parameter("max-min", "objective of the shares; fifo: no shares, one type for each job in the order of arrival")
    aware: bool = parameter(True, "false: treat all types as equally fast (the baseline of each objective)")
    space_sharing: bool = parameter(False, "two jobs may share devices if the trace has measurements of the pair")
    round: Span = parameter(Span(360_000), "length of a round", least=0.001)
    settle: Span = parameter(Span(1_920_000), "minimum time between two computations of shares")


class Gavel(Policy):
    """A program computes shares; rounds follow priority = share / fraction of time received. Example:
    `gavel:objective=makespan`.

    Shares are recomputed when jobs arrive or end, at most every `settle`; received time counts from then on. Each
    round fills the types in the order of the cluster, jobs with the highest priority first; jobs that do not fit are
    skipped.
    """

    id = "gavel"
    title = "heterogeneity-aware shares of time, by any objective"
    paper = "Narayanan et al., OSDI'20; stanford-futuredata/gavel@c4fa400"
    knows = frozenset(
        {
            Knowledge.DURATION,
            Knowledge.THROUGHPUT,
            Knowledge.COLOCATION,
            Knowledge.MODEL,
            Knowledge.DEADLINE,
            Knowledge.FACTS,
        }
    )
    Parameters = GavelParameters
    choices = (
        "the weight of a job is its fact `weight` (1 if it has none)",
        "among all optimal shares (worst rate, makespan, or sum), the center is taken, as by the interior-point "
        "solver of the published code",
        "without awareness, the order of types is shuffled for each round by the seed, as in the published code",
        "a job that ends during a round frees its devices at the end of the round, as in the published code: "
        "nothing starts in between",
        "without awareness, makespan and finish-time use the reference rate on every type, as in the published "
        "code; all other objectives treat every job as equally fast",
        "fifo is the published code's: whole types in the order of arrival, and the first job that does not fit "
        "blocks all later ones; fifo-weights is the paper's program",
        "cost: V100 2.48, P100 1.46, K80 0.45 dollars an hour, others 1",
    )

    def __init__(self, parameters: GavelParameters, setup: Setup) -> None:
        super().__init__(parameters, setup)
        self.kinds = tuple(self.cluster.types)
        self._dice = Dice(setup.seed)
        self._pools = TypedPools(self.cluster)
        self._jobs: dict[int, JobView] = {}
        self._sizes = [self.cluster.types[name] for name in self.kinds]
        self._slots = RoundQueue(self._sizes, parameters.round // 2)
        self._alone = _TimeAlone() if parameters.objective == "finish-time" else None
        self._round: dict[Numbers, int] = {}
        """The type on which each slot runs."""
        self._devices: dict[Numbers, Devices] = {}
        self._began = Millis(0)
        self._settled: Millis | None = None
        self._changed = False
        self._next: Millis | None = None
        self._due: tuple[Shares, list[Numbers]] | None = None
        """The program whose shares have not been asked for yet."""
        self._posed = 0
        self._queue = FirstCome(self._dice.below, aware=parameters.aware) if parameters.objective == "fifo" else None

    # --- rounds

    def plan(self, moment: Trigger) -> None:
        """Note who came and went; at the end of a round, begin another."""
        for job in moment.arrived:
            self._enter(job)
        for job in moment.ended:
            self._leave(job)
        if self._next is None or self.now >= self._next:
            self._turn()

    def wake(self) -> Millis | None:
        """The end of the round."""
        return self._next

    def ended(self, job: JobView, _: Devices, /) -> None:
        """Its devices stay idle until the round ends."""

    def counted(self) -> Mapping[str, float]:
        """How many programs were posed; one whose answer decides nothing is not solved."""
        return {"programs": self._posed}

    def _enter(self, job: JobView) -> None:
        self._jobs[job.number] = job
        gaps = () if self._queue is not None else self._able(job)  # whoever has no shares yet fills gaps
        self._slots.enter(job, gaps)
        if self._alone is not None:
            self._alone.enter(job, self.now)
        self._changed = True

    def _leave(self, job: JobView) -> None:
        del self._jobs[job.number]
        self._slots.leave(job.number)
        if self._alone is not None:
            self._alone.leave(job.number)
        self._changed = True

    def _turn(self) -> None:
        self._slots.account(self._round.items(), self.now - self._began)
        if self._alone is not None:
            ran = (number for numbers in self._round for number in numbers if number in self._jobs)
            self._alone.account([self._jobs[number] for number in ran], self.now)
        if not self._jobs:
            self._carry_out({})  # what the last round held is free, whoever comes next
            self._next = None
            return
        if self._changed and (self._settled is None or self.now - self._settled >= self.p.settle):
            self._settle()
        order = self._order()
        chosen = self._slots.everybody(order)
        if chosen is None:
            self._share_out()
            chosen = self._slots.choose(order)
        self._carry_out(chosen)
        self._began = self.now
        self._next = Millis(self.now + self.p.round)

    # --- shares

    def _settle(self) -> None:
        jobs = list(self._jobs.values())
        self._slots.reset()
        if self._queue is not None:
            self._slots.clear()
            line = [(job.number, job.gpus, [self._rate(job, name) for name in self.kinds]) for job in jobs]
            for number, kind in self._queue.assign(line, self._sizes).items():
                self._slots.offer((number,), kind, self._jobs[number].gpus)
                self._slots.share((number,), kind, 1.0)
        else:
            self._due = self._asked(jobs)
            self._posed += 1
            if self._alone is not None:
                asked, _ = self._due
                self._alone.pace = {job.number: asked.isolated(index) for index, job in enumerate(jobs)}
            if self.p.space_sharing:
                self._share_out()  # shares say which pairs there are
        self._settled, self._changed = self.now, False

    def _share_out(self) -> None:
        """Solve the program of the last settlement, when its answer first decides something."""
        if self._due is None:
            return
        (asked, slots), self._due = self._due, None
        shares = shares_of_time(self.p.objective, asked)
        for column, numbers, share in zip(asked.columns, slots, shares, strict=True):
            if len(numbers) > 1 and share > 0:
                self._slots.offer(numbers, column.kind, self._jobs[numbers[0]].gpus)
            self._slots.share(numbers, column.kind, share)

    def _asked(self, jobs: Sequence[JobView]) -> tuple[Shares, list[Numbers]]:
        """The program's input: steps a second where the trace tells steps, else a step is a second on the reference."""
        claims = [self._claim(job) for job in jobs]
        columns: list[Column] = []
        slots: list[Numbers] = []
        for index, job in enumerate(jobs):
            slot = (job.number,)
            for kind, name in enumerate(self.kinds):
                if (rate := self._rate(job, name)) > 0:
                    columns.append(Column((index,), kind, (self._counted(job, rate),)))
                    slots.append(slot)
        if self.p.space_sharing:
            self._pairs(jobs, columns, slots)
        costs = [_DOLLARS.get(name, 1.0) for name in self.kinds]
        return Shares(claims, columns, self._sizes, costs), slots

    def _claim(self, job: JobView) -> Claim:
        due = (job.deadlines[0].time - self.now) / 1000 if job.deadlines else inf
        return Claim(
            devices=job.gpus,
            steps=max(job.remaining(self.now), 1) / ONE / 1000 * _steps(job),
            weight=job.facts.get("weight", 1.0),
            elapsed=(self.now - job.submit) / 1000,
            isolated=0.0 if self._alone is None else self._alone.seconds[job.number],
            due=due if due > 0 else inf,
        )

    def _pairs(self, jobs: Sequence[JobView], columns: list[Column], slots: list[Numbers]) -> None:
        """Pairs of one size, on types where both were measured side by side and do not lose against taking turns."""
        for a, job_a in enumerate(jobs):
            for b, other in enumerate(jobs[a + 1 :], a + 1):
                if job_a.gpus != other.gpus:
                    continue
                for kind, name in enumerate(self.kinds):
                    rates = (self._rate(job_a, name), self._rate(other, name))
                    beside = (_beside(job_a, other, name), _beside(other, job_a, name))
                    if min(rates) > 0 and min(beside) > 0 and fsum(beside) > 1:
                        steps = self._counted(job_a, rates[0]), self._counted(other, rates[1])
                        columns.append(Column((a, b), kind, (steps[0] * beside[0], steps[1] * beside[1])))
                        slots.append((job_a.number, other.number))

    def _counted(self, job: JobView, rate: float) -> float:
        """Steps a second that the program is told, of a job with that rate on a type."""
        if self.p.aware:
            return rate * _steps(job)
        return _steps(job) if self.p.objective in _BY_TIME else 1.0

    def _rate(self, job: JobView, kind: str) -> float:
        if job.gpu_type is not None and job.gpu_type != kind:
            return 0.0
        return job.throughput.get(kind, 0.0) if job.throughput else 1.0

    def _able(self, job: JobView) -> list[int]:
        """The types on which a job makes progress."""
        return [kind for kind, name in enumerate(self.kinds) if self._rate(job, name) > 0]

    # --- who runs in the next round

    def _order(self) -> list[int]:
        """The order in which types fill up."""
        order = list(range(len(self.kinds)))
        if not self.p.aware:
            for last in range(len(order) - 1, 0, -1):  # Fisher and Yates
                other = self._dice.below(last + 1)
                order[last], order[other] = order[other], order[last]
        return order

    def _carry_out(self, chosen: Mapping[Numbers, int]) -> None:
        """Whoever runs on the same type again keeps its devices; the others go, and then come."""
        if chosen == self._round:
            return
        for numbers in [numbers for numbers, kind in self._round.items() if chosen.get(numbers) != kind]:
            del self._round[numbers]
            self._pools.give(self._devices.pop(numbers))
            for number in numbers:
                if number in self._jobs:
                    self.act(Preempt(self._jobs[number]))
        fresh = [numbers for numbers in chosen if numbers not in self._round]
        for numbers in sorted(fresh, key=lambda numbers: (-self._jobs[numbers[0]].gpus, numbers[0])):
            jobs = [self._jobs[number] for number in numbers]
            devices = self._pools.take(self.kinds[chosen[numbers]], jobs[0].gpus)
            self._round[numbers] = chosen[numbers]
            self._devices[numbers] = devices
            for job in jobs:
                self.act(Start(job, devices) if len(jobs) == 1 else Colocate(job, devices))


class _TimeAlone:
    """What the work that jobs have done would have taken on a part of the cluster of their own, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[int, float] = {}
        self.pace: dict[int, float] = {}
        """Steps a second on that part; jobs that came since shares were computed have none yet."""
        self._left: dict[int, int] = {}

    def enter(self, job: JobView, now: Millis) -> None:
        """A job that has done nothing yet."""
        self.seconds[job.number] = 0.0
        self._left[job.number] = job.remaining(now)

    def leave(self, number: int) -> None:
        """A job is gone."""
        del self.seconds[number], self._left[number]

    def account(self, jobs: Iterable[JobView], now: Millis) -> None:
        """Jobs that ran until now."""
        for job in jobs:
            left = job.remaining(now)
            if pace := self.pace.get(job.number, 0.0):
                done = (self._left[job.number] - left) / ONE / 1000
                self.seconds[job.number] += done * _steps(job) / pace
            self._left[job.number] = left


def _steps(job: JobView) -> float:
    """Steps a second on the reference."""
    return job.iterations / (job.work / 1000) if job.iterations and job.work else 1.0


def _beside(job: JobView, other: JobView, kind: str) -> float:
    return job.coloc.get(f"{kind}/{other.model}", job.coloc.get(other.model, 0.0))
