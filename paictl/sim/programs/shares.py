"""Gavel's programs: which fraction of its time each job spends on each type of device (OSDI '20, sections 3 to 5).

`X[c]` is the fraction of time of column c: one job, or two that share devices, on one type. What every program keeps:
`X >= 0`; the fractions of a job add up to at most 1; the devices that a type has are never given out twice.

Where the paper's print and its published code disagree we follow the code: maximum throughput is maximised (the paper
prints "Minimize"); the objective of heterogeneity-unaware baselines is the same program with all rates 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import fsum, inf
from typing import Final

from paictl.frozen import frozen, frozen_caching
from paictl.sim.programs.linear import Program, Solution

_TOLERANCE: Final = 1e-7
_BISECTION: Final = 1e-4
"""How far, relatively, a bisection may end above the optimum."""
_HOPELESS: Final = 1e9
"""A ratio beyond which no shares are looked for."""


@frozen
class Claim:
    """A job as the programs see it.

    `devices` it needs at a time, `steps` still to do, `weight` of its tenant; seconds since it came (`elapsed`), that
    what it has done would have taken on a part of the cluster of its own (`isolated`), and within which, from now, it
    has to end (`due`, inf without a deadline).
    """

    devices: int
    steps: float
    weight: float = 1.0
    elapsed: float = 0.0
    isolated: float = 0.0
    due: float = inf


@frozen
class Column:
    """One way to run: the jobs (one, or two that share), the type of device, steps per second of each of the jobs."""

    jobs: tuple[int, ...]
    kind: int
    rates: tuple[float, ...]


@frozen_caching
class Shares:
    """What is asked: jobs in the order of their arrival, columns, how many devices each type has, what one costs."""

    claims: Sequence[Claim]
    columns: Sequence[Column]
    devices: Sequence[int]
    costs: Sequence[float] = ()

    @cached_property
    def alone(self) -> Sequence[Mapping[int, float]]:
        """Steps per second of each job that has its devices for itself, by type."""
        rates: list[dict[int, float]] = [{} for _ in self.claims]
        for column in self.columns:
            if len(column.jobs) == 1:
                rates[column.jobs[0]][column.kind] = column.rates[0]
        return rates

    @cached_property
    def runnable(self) -> Sequence[int]:
        """Jobs that some type serves and that fit on it; the others would hold the worst rate at 0 for everybody."""
        fits = {
            job
            for column in self.columns
            for job, rate in zip(column.jobs, column.rates, strict=True)
            if rate > 0 and self.claims[job].devices <= self.devices[column.kind]
        }
        return sorted(fits)

    @cached_property
    def _portions(self) -> Mapping[int, tuple[Sequence[float], float]]:
        """For each number of devices that a job uses at a time: its portion of each type, and by how much all of these
        are more than the whole of its time; 1 device: as if nobody used more."""
        by_devices = {}
        for devices in {1, *(claim.devices for claim in self.claims)}:
            portions = [count / len(self.claims) / devices for count in self.devices]
            by_devices[devices] = portions, max(1.0, fsum(portions))
        return by_devices

    def fastest(self, job: int) -> float:
        """Steps per second on the best type."""
        return max(self.alone[job].values(), default=0.0)

    def equal(self, job: int) -> float:
        """Steps per second if each type were split evenly over all jobs, at most all of the time."""
        return self._part(job, 1)

    def isolated(self, job: int) -> float:
        """Steps per second if each job had its part of each type for itself, used in turns where it needs more."""
        return self._part(job, self.claims[job].devices)

    def _part(self, job: int, devices: int) -> float:
        portions, over = self._portions[devices]
        return fsum([rate * portions[kind] / over for kind, rate in self.alone[job].items()])


class _Built:
    """The program with the rows that all objectives share."""

    def __init__(self, shares: Shares, *, central: bool = False) -> None:
        self.shares = shares
        self.program = Program(central=central)
        self.x = [self.program.variable(0.0, 1.0) for _ in shares.columns]
        self.rates: list[list[tuple[int, float]]] = [[] for _ in shares.claims]
        times: list[list[tuple[int, float]]] = [[] for _ in shares.claims]
        used: list[list[tuple[int, float]]] = [[] for _ in shares.devices]
        for variable, column in zip(self.x, shares.columns, strict=True):
            used[column.kind].append((variable, float(shares.claims[column.jobs[0]].devices)))
            for job, rate in zip(column.jobs, column.rates, strict=True):
                times[job].append((variable, 1.0))
                self.rates[job].append((variable, rate))
        for terms in times:
            self.program.row(terms, at_most=1.0)
        for terms, count in zip(used, shares.devices, strict=True):
            self.program.row(terms, at_most=float(count))

    def scaled(self, job: int, factor: float) -> list[tuple[int, float]]:
        """The terms of a job's rate, times a factor."""
        return [(variable, rate * factor) for variable, rate in self.rates[job]]

    def answer(self, solution: Solution | None) -> list[float]:
        """The fractions, cleaned of the solver's dust; none at all where there is no solution."""
        if solution is None:
            return [0.0] * len(self.x)
        return [min(1.0, max(0.0, solution.values[variable])) for variable in self.x]


def _normalised(shares: Shares, job: int) -> float:
    """What a step per second counts for a job in max-min: relative to an equal share, per weight, per device."""
    claim, equal = shares.claims[job], shares.equal(job)
    return claim.devices / (claim.weight * equal) if equal > 0 else 0.0


def max_min(shares: Shares) -> list[float]:
    """Least attained service: the worst rate, relative to an equal share, is as good as it can be."""
    built = _Built(shares, central=True)
    worst = built.program.variable(0.0, inf, 1.0)
    for job in shares.runnable:
        built.program.row([*built.scaled(job, _normalised(shares, job)), (worst, -1.0)], at_least=0.0)
    return built.answer(built.program.solve())


def water_filling(shares: Shares) -> list[float]:
    """Max-min, then again for those whom the worst does not hold back, until nobody can be given more.

    A row with a price (dual) is tight in every optimum, so its job is settled; one round settles at least one job.
    """
    built = _Built(shares)
    worst = built.program.variable(0.0, inf, 1.0)
    rows = {}
    for job in shares.runnable:
        terms = [*built.scaled(job, _normalised(shares, job)), (worst, -1.0)]
        rows[job] = built.program.row(terms, at_least=0.0)
    solution = built.program.solve()
    rising = set(rows)
    while rising and solution is not None:
        priced = {job for job in rising if abs(solution.duals[rows[job]]) > _TOLERANCE} or set(rising)
        level = solution.values[worst]
        for job in sorted(priced):  # settled: this much and no more is certain
            built.program.coefficient(rows[job], worst, 0.0)
            built.program.bound_row(rows[job], at_least=max(0.0, level - _TOLERANCE * max(1.0, level)))
        rising -= priced
        if rising:
            better = built.program.solve()
            solution = better if better is not None else solution
            if better is None:
                break
    return built.answer(solution)


def makespan(shares: Shares) -> list[float]:
    """All jobs end as early as the last of them can: rates in proportion to the steps that are left."""
    built = _Built(shares, central=True)
    pace = built.program.variable(0.0, inf, 1.0)  # 1 / makespan
    for job in shares.runnable:
        scale = 1.0 / shares.fastest(job)  # seconds alone: of one size for all jobs, whatever a step is
        steps = shares.claims[job].steps * scale
        built.program.row([*built.scaled(job, scale), (pace, -max(steps, _TOLERANCE))], at_least=0.0)
    return built.answer(built.program.solve())


def first_come(shares: Shares) -> list[float]:
    """FIFO: whoever came earlier weighs more, and wants its fastest type."""
    count = len(shares.claims)
    return _weighted(shares, {job: (count - job) / shares.fastest(job) for job in shares.runnable})


def shortest_first(shares: Shares) -> list[float]:
    """SJF: the job that its fastest type would end first gets it whole, then the next."""
    runnable = shares.runnable
    order = sorted(runnable, key=lambda job: (shares.claims[job].steps / shares.fastest(job), job))
    return _weighted(shares, {job: (len(order) - rank) / shares.fastest(job) for rank, job in enumerate(order)})


def max_sum(shares: Shares) -> list[float]:
    """The most steps per second in all; jobs with a deadline first get the rate that keeps it, if that is possible."""
    return _weighted(shares, dict.fromkeys(shares.runnable, 1.0), due=True)


def _weighted(shares: Shares, gains: Mapping[int, float], *, due: bool = False) -> list[float]:
    built = _Built(shares, central=True)
    if due:
        _keep_deadlines(built)
    total: dict[int, float] = {}
    for job, gain in gains.items():
        for variable, rate in built.rates[job]:
            total[variable] = total.get(variable, 0.0) + gain * rate
    built.program.gains(total)
    return built.answer(built.program.solve())


def cheapest(shares: Shares) -> list[float]:
    """The most steps per unit of money; jobs with a deadline first get the rate that keeps it.

    A ratio of two linear functions: scaled so that the cost is 1 (Charnes and Cooper), then a linear program.
    """
    program = Program()
    runnable = set(shares.runnable)
    scale = program.variable(0.0, inf)
    y = [program.variable(0.0, inf) for _ in shares.columns]
    times: list[list[tuple[int, float]]] = [[] for _ in shares.claims]
    used: list[list[tuple[int, float]]] = [[] for _ in shares.devices]
    rates: list[list[tuple[int, float]]] = [[] for _ in shares.claims]
    cost, gains = [], {}
    for variable, column in zip(y, shares.columns, strict=True):
        devices = float(shares.claims[column.jobs[0]].devices)
        used[column.kind].append((variable, devices))
        cost.append((variable, devices * shares.costs[column.kind]))
        gains[variable] = fsum(column.rates)
        for job, rate in zip(column.jobs, column.rates, strict=True):
            times[job].append((variable, 1.0))
            rates[job].append((variable, rate))
    program.gains(gains)
    program.row(cost, at_most=1.0)
    for terms in times:
        program.row([*terms, (scale, -1.0)], at_most=0.0)
    for terms, count in zip(used, shares.devices, strict=True):
        program.row([*terms, (scale, -float(count))], at_most=0.0)
    deadlines = [
        program.row([*rates[job], (scale, -claim.steps / claim.due)], at_least=0.0)
        for job, claim in enumerate(shares.claims)
        if job in runnable and claim.due < inf and claim.due > 0 and claim.steps <= claim.due * shares.fastest(job)
    ]
    solution = program.solve()
    if solution is None or solution.values[scale] <= _TOLERANCE:
        for row in deadlines:
            program.bound_row(row)
        solution = program.solve()
    if solution is None or solution.values[scale] <= 0:
        return max_sum(shares)
    return [min(1.0, solution.values[variable] / solution.values[scale]) for variable in y]


def _keep_deadlines(built: _Built) -> None:
    """Rows for the deadlines that can be kept one by one; all of them are dropped if together they cannot."""
    rows = []
    for job, claim in enumerate(built.shares.claims):
        if inf > claim.due > 0 and claim.steps <= claim.due * built.shares.fastest(job):
            rows.append(built.program.row(built.rates[job], at_least=claim.steps / claim.due))
    if rows and built.program.solve() is None:
        for row in rows:
            built.program.bound_row(row)


def finish_time_fair(shares: Shares) -> list[float]:
    """Themis' ratio at its worst is as small as it can be: the time with these shares over the time in isolation.

    For a given ratio the rates needed are known, so a bisection over linear programs finds it; between two of them
    only bounds change. Of the many shares that keep the ratio, those in their middle, as under the other objectives.
    """
    corner, middle = _FinishTimes(shares), _FinishTimes(shares, central=True)
    low, high = 0.0, corner.first_guess()
    while (best := corner.attempt(high)) is None and high < _HOPELESS:
        low, high = high, high * 2
    while best is not None and high - low > _BISECTION * high:
        ratio = (low + high) / 2
        if (solution := corner.attempt(ratio)) is None:
            low = ratio
        else:
            best, high = solution, ratio
    return corner.answer(best if best is None else middle.attempt(high) or best)


class _FinishTimes(_Built):
    """The shares with which no job's time exceeds a ratio of what it would be in isolation."""

    def __init__(self, shares: Shares, *, central: bool = False) -> None:
        super().__init__(shares, central=central)
        runnable = shares.runnable
        self.alone = {j: shares.claims[j].isolated + shares.claims[j].steps / shares.isolated(j) for j in runnable}
        self.rows = {j: self.program.row(self.scaled(j, 1.0 / shares.fastest(j)), at_least=0.0) for j in runnable}

    def first_guess(self) -> float:
        """The ratio that those who have waited longest have already."""
        return max([1.0, *(self.shares.claims[job].elapsed / alone for job, alone in self.alone.items())])

    def attempt(self, ratio: float) -> Solution | None:
        """Shares that keep a ratio; None if there are none."""
        for job, alone in self.alone.items():
            claim = self.shares.claims[job]
            left = ratio * alone - claim.elapsed
            if left <= 0:
                return None
            self.program.bound_row(self.rows[job], at_least=claim.steps / left / self.shares.fastest(job))
        return self.program.solve()


def shares_of_time(objective: str, shares: Shares) -> list[float]:
    """The fraction of each column under one of `OBJECTIVES`; nothing for anybody if no job can run."""
    return OBJECTIVES[objective](shares) if shares.runnable else [0.0] * len(shares.columns)


OBJECTIVES: Final[Mapping[str, Callable[[Shares], list[float]]]] = {
    "max-min": max_min,
    "fifo-weights": first_come,
    "makespan": makespan,
    "finish-time": finish_time_fair,
    "max-sum": max_sum,
    "water-filling": water_filling,
    "sjf": shortest_first,
    "cost": cheapest,
}
"""Every objective by the name that the policy's parameter takes; each wants a job that can run."""
