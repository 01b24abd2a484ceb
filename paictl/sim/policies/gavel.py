"""Gavel: any objective made aware of heterogeneous devices, by shares of time and rounds that come close to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, inf
from typing import Final, Literal

from paictl.frozen import frozen
from paictl.sim.actions import Colocate, Preempt, Start, Trigger
from paictl.sim.cluster import Devices
from paictl.sim.dice import Dice
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.nodes import TypedPools
from paictl.sim.policies.base import Parameters, Policy, Setup
from paictl.sim.policies.parameters import Span, parameter
from paictl.sim.programs.first_come import FirstCome
from paictl.sim.programs.shares import Claim, Column, Shares, shares_of_time
from paictl.sim.state import ONE
from paictl.sim.view import JobView
from paictl.units import Millis

_FIRST: Final = 1e9
"""Stands for "has not run on that type yet": such jobs come first, in the order of their shares."""

_DOLLARS: Final = {"V100": 2.48, "P100": 1.46, "K80": 0.45}
"""US dollars an hour (Google Cloud, 2020, as in the paper's §7); other types cost 1."""

_BY_TIME: Final = frozenset({"makespan", "finish-time"})
"""Objectives that divide the steps left by a rate: without awareness that of the reference, on every type."""

Slot = tuple[JobView, ...]
"""One job, or two that share devices."""


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
        self._shares: dict[tuple[int, ...], list[float]] = {}
        self._received: dict[int, list[int]] = {}
        self._given = [0] * len(self.kinds)
        self._isolated: dict[int, float] = {}
        self._pace: dict[int, float] = {}
        self._seen: dict[int, int] = {}
        self._round: dict[Slot, tuple[int, Devices]] = {}
        self._began = Millis(0)
        self._settled: Millis | None = None
        self._changed = False
        self._next: Millis | None = None
        self._solved = 0
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
        """How many programs were solved."""
        return {"programs": self._solved}

    def _enter(self, job: JobView) -> None:
        half = self.p.round // 2
        self._jobs[job.number] = job
        self._received[job.number] = [half] * len(self.kinds)  # the published code's start: nobody is infinitely behind
        self._isolated[job.number] = 0.0
        self._seen[job.number] = job.remaining(self.now)
        self._given = [given + half for given in self._given]
        self._changed = True

    def _leave(self, job: JobView) -> None:
        self._jobs.pop(job.number)
        received = self._received.pop(job.number)
        self._given = [given - own for given, own in zip(self._given, received, strict=True)]
        del self._isolated[job.number], self._seen[job.number]
        self._changed = True

    def _turn(self) -> None:
        self._account()
        if not self._jobs:
            self._carry_out({})  # what the last round held is free, whoever comes next
            self._next = None
            return
        if self._changed and (self._settled is None or self.now - self._settled >= self.p.settle):
            self._settle()
        self._carry_out(self._choose())
        self._began = self.now
        self._next = Millis(self.now + self.p.round)

    def _account(self) -> None:
        """What the round that ends gave to those who are still there; nobody else has come any further."""
        span = self.now - self._began
        for slot, (kind, _) in self._round.items():
            for job in slot:
                if job.number in self._jobs:
                    self._received[job.number][kind] += span
                    self._given[kind] += span
                    left = job.remaining(self.now)
                    if pace := self._pace.get(job.number, 0.0):
                        done = (self._seen[job.number] - left) / ONE / 1000
                        self._isolated[job.number] += done * _steps(job) / pace
                    self._seen[job.number] = left

    # --- shares

    def _settle(self) -> None:
        half = self.p.round // 2
        jobs = list(self._jobs.values())
        asked, slots = self._asked(jobs)
        self._shares = {}
        if self._queue is None:
            found = shares_of_time(self.p.objective, asked)
            self._solved += 1
            for column, slot, share in zip(asked.columns, slots, found, strict=True):
                row = self._shares.setdefault(tuple(job.number for job in slot), [0.0] * len(self.kinds))
                row[column.kind] = share
        else:
            line = [(job.number, job.gpus, [self._rate(job, name) for name in self.kinds]) for job in jobs]
            for number, kind in self._queue.assign(line, asked.devices).items():
                self._shares[number,] = [float(other == kind) for other in range(len(self.kinds))]
        self._pace = {job.number: asked.isolated(index) for index, job in enumerate(jobs)}
        self._received = {job.number: [half] * len(self.kinds) for job in jobs}
        self._given = [half * len(jobs)] * len(self.kinds)
        self._settled, self._changed = self.now, False

    def _asked(self, jobs: Sequence[JobView]) -> tuple[Shares, list[Slot]]:
        """The program's input: steps a second where the trace tells steps, else a step is a second on the reference."""
        claims = [self._claim(job) for job in jobs]
        columns: list[Column] = []
        slots: list[Slot] = []
        for index, job in enumerate(jobs):
            for kind, name in enumerate(self.kinds):
                if (rate := self._rate(job, name)) > 0:
                    columns.append(Column((index,), kind, (self._counted(job, rate),)))
                    slots.append((job,))
        if self.p.space_sharing:
            self._pairs(jobs, columns, slots)
        costs = [_DOLLARS.get(name, 1.0) for name in self.kinds]
        return Shares(claims, columns, [self.cluster.types[name] for name in self.kinds], costs), slots

    def _claim(self, job: JobView) -> Claim:
        due = (job.deadlines[0].time - self.now) / 1000 if job.deadlines else inf
        return Claim(
            devices=job.gpus,
            steps=max(job.remaining(self.now), 1) / ONE / 1000 * _steps(job),
            weight=job.facts.get("weight", 1.0),
            elapsed=(self.now - job.submit) / 1000,
            isolated=self._isolated[job.number],
            due=due if due > 0 else inf,
        )

    def _pairs(self, jobs: Sequence[JobView], columns: list[Column], slots: list[Slot]) -> None:
        """Pairs of one size, on types where both were measured side by side and do not lose against taking turns."""
        for a, one in enumerate(jobs):
            for b, other in enumerate(jobs[a + 1 :], a + 1):
                if one.gpus != other.gpus:
                    continue
                for kind, name in enumerate(self.kinds):
                    rates = (self._rate(one, name), self._rate(other, name))
                    beside = (_beside(one, other, name), _beside(other, one, name))
                    if min(rates) > 0 and min(beside) > 0 and fsum(beside) > 1:
                        steps = self._counted(one, rates[0]), self._counted(other, rates[1])
                        columns.append(Column((a, b), kind, (steps[0] * beside[0], steps[1] * beside[1])))
                        slots.append((one, other))

    def _counted(self, job: JobView, rate: float) -> float:
        """Steps a second that the program is told, of a job with that rate on a type."""
        if self.p.aware:
            return rate * _steps(job)
        return _steps(job) if self.p.objective in _BY_TIME else 1.0

    def _rate(self, job: JobView, kind: str) -> float:
        if job.gpu_type is not None and job.gpu_type != kind:
            return 0.0
        return job.throughput.get(kind, 0.0) if job.throughput else 1.0

    # --- who runs in the next round

    def _choose(self) -> dict[Slot, int]:
        order = list(range(len(self.kinds)))
        if not self.p.aware:
            for last in range(len(order) - 1, 0, -1):  # Fisher and Yates
                other = self._dice.below(last + 1)
                order[last], order[other] = order[other], order[last]
        left = [self.cluster.types[name] for name in self.kinds]
        chosen: dict[Slot, int] = {}
        taken: set[int] = set()
        for kind in order:
            for slot in self._ranked(kind):
                if not left[kind]:
                    break
                devices = slot[0].gpus
                if devices <= left[kind] and not any(job.number in taken for job in slot):
                    left[kind] -= devices
                    chosen[slot] = kind
                    taken.update(job.number for job in slot)
        return chosen

    def _ranked(self, kind: int) -> list[Slot]:
        """Slots that can run on a type, the one that is most behind its share first."""
        entries = []
        slots: list[tuple[int, ...]] = [numbers for numbers in self._shares if all(n in self._jobs for n in numbers)]
        if self._queue is None:  # whoever has no shares yet fills gaps
            slots += [(number,) for number in self._jobs if (number,) not in self._shares]
        for numbers in slots:
            slot = tuple(self._jobs[number] for number in numbers)
            if all(self._rate(job, self.kinds[kind]) > 0 for job in slot):
                share = self._shares.get(numbers, [0.0] * len(self.kinds))[kind]
                if share > 0 or (len(numbers) == 1 and self._queue is None):
                    entries.append((-self._priority(numbers, kind, share), -share, numbers, slot))
        entries.sort(key=lambda entry: entry[:3])
        return [entry[3] for entry in entries]

    def _priority(self, numbers: tuple[int, ...], kind: int, share: float) -> float:
        if share <= 0:
            return 0.0
        received = max(self._received[number][kind] for number in numbers)
        if received <= 0 or self._given[kind] <= 0:
            return share * _FIRST
        return share / (received / self._given[kind])

    def _carry_out(self, chosen: Mapping[Slot, int]) -> None:
        """Whoever runs on the same type again keeps its devices; the others go, and then come."""
        kept: dict[Slot, tuple[int, Devices]] = {}
        for slot, (kind, devices) in self._round.items():
            if chosen.get(slot) == kind and all(job.number in self._jobs for job in slot):
                kept[slot] = kind, devices
            else:
                self._pools.give(devices)
                for job in slot:
                    if job.number in self._jobs:
                        self.act(Preempt(job))
        moved = dict(kept)
        for slot, kind in sorted(chosen.items(), key=lambda item: (-item[0][0].gpus, item[0][0].number)):
            if slot in kept:
                continue
            devices = self._pools.take(self.kinds[kind], slot[0].gpus)
            moved[slot] = kind, devices
            for job in slot:
                self.act(Start(job, devices) if len(slot) == 1 else Colocate(job, devices))
        self._round = moved


def _steps(job: JobView) -> float:
    """Steps a second on the reference."""
    return job.iterations / (job.work / 1000) if job.iterations and job.work else 1.0


def _beside(job: JobView, other: JobView, kind: str) -> float:
    return job.coloc.get(f"{kind}/{other.model}", job.coloc.get(other.model, 0.0))
