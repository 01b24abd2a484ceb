"""Gavel's programs: the paper's example, and brute force over a grid on two jobs and two types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.programs.shares import OBJECTIVES, Claim, Column, Shares, shares_of_time

STEP = 20
"""The grid of the brute force: fractions of 1/20."""


def asked(rates: list[list[float]], steps: list[float], devices: tuple[int, ...] = (1, 1)) -> Shares:
    columns = [Column((job,), kind, (rate,)) for job, row in enumerate(rates) for kind, rate in enumerate(row)]
    return Shares([Claim(1, steps_left) for steps_left in steps], columns, devices, (2.0, 1.0))


def rate(shares: Shares, x: list[float], job: int) -> float:
    return sum(
        share * column.rates[0] for share, column in zip(x, shares.columns, strict=True) if column.jobs == (job,)
    )


def grid() -> Iterator[list[float]]:
    """Every way to share two types among two jobs, in steps."""
    fractions = [number / STEP for number in range(STEP + 1)]
    for a, b in product(fractions, repeat=2):
        if a + b > 1 + 1e-9:
            continue
        for c, d in product(fractions, repeat=2):
            if c + d <= 1 + 1e-9 and a + c <= 1 + 1e-9 and b + d <= 1 + 1e-9:
                yield [a, b, c, d]


def worst(shares: Shares, x: list[float]) -> float:
    return min(rate(shares, x, job) / shares.equal(job) for job in range(2))


def pace(shares: Shares, x: list[float]) -> float:
    return min(rate(shares, x, job) / shares.claims[job].steps for job in range(2))


def first(shares: Shares, x: list[float]) -> float:
    return sum(rate(shares, x, job) / shares.fastest(job) * (2 - job) for job in range(2))


def total(shares: Shares, x: list[float]) -> float:
    return sum(rate(shares, x, job) for job in range(2))


def unfair(shares: Shares, x: list[float]) -> float:
    ratios = []
    for job in range(2):
        alone = shares.claims[job].steps / shares.isolated(job)
        mine = rate(shares, x, job)
        ratios.append(shares.claims[job].steps / mine / alone if mine > 0 else 1e9)
    return -max(ratios)


GOALS: dict[str, Callable[[Shares, list[float]], float]] = {
    "max-min": worst,
    "water-filling": worst,
    "makespan": pace,
    "fifo-weights": first,
    "max-sum": total,
    "finish-time": unfair,
}


def test_the_example_of_the_paper() -> None:
    shares = asked([[40, 10], [12, 4], [100, 50]], [1, 1, 1])
    solution = OBJECTIVES["max-min"](shares)
    assert solution == pytest.approx([0.455, 0.0, 0.455, 0.091, 0.091, 0.909], abs=1e-3)
    assert min(rate(shares, solution, job) / shares.equal(job) for job in range(3)) == pytest.approx(1.0909, abs=1e-4)


@pytest.mark.parametrize("objective", GOALS)
@settings(max_examples=25, deadline=None)
@given(
    rates=st.lists(st.lists(st.integers(1, 50).map(float), min_size=2, max_size=2), min_size=2, max_size=2),
    steps=st.lists(st.integers(1, 100).map(float), min_size=2, max_size=2),
)
def test_no_shares_of_a_grid_are_better(objective: str, rates: list[list[float]], steps: list[float]) -> None:
    shares = asked(rates, steps)
    solution = OBJECTIVES[objective](shares)
    goal = GOALS[objective]
    reached = goal(shares, solution)
    best = max(goal(shares, x) for x in grid())
    assert reached >= best - 1e-3 * abs(best)


@pytest.mark.parametrize("objective", OBJECTIVES)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_nothing_is_given_out_twice(objective: str, data: st.DataObject) -> None:
    jobs = data.draw(st.integers(1, 8))
    rates = data.draw(
        st.lists(st.lists(st.integers(0, 9).map(float), min_size=2, max_size=2), min_size=jobs, max_size=jobs)
    )
    sizes = data.draw(st.lists(st.sampled_from([1, 2, 4]), min_size=jobs, max_size=jobs))
    columns = [
        Column((job,), kind, (value,)) for job, row in enumerate(rates) for kind, value in enumerate(row) if value > 0
    ]
    shares = Shares([Claim(size, 5.0, elapsed=3.0, isolated=1.0) for size in sizes], columns, (4, 4), (1.0, 1.0))
    solution = shares_of_time(objective, shares)
    for job in range(jobs):
        assert sum(x for x, column in zip(solution, columns, strict=True) if column.jobs == (job,)) <= 1 + 1e-5
    for kind in range(2):
        used = sum(
            x * sizes[column.jobs[0]] for x, column in zip(solution, columns, strict=True) if column.kind == kind
        )
        assert used <= 4 + 1e-4


def test_water_filling_goes_on_where_max_min_stops() -> None:
    """Job 0 runs only on the slow type and has all of it; job 1 does not have to wait for it."""
    shares = Shares([Claim(1, 9), Claim(1, 9)], [Column((0,), 1, (1.0,)), Column((1,), 0, (10.0,))], (1, 1))
    assert OBJECTIVES["water-filling"](shares) == pytest.approx([1.0, 1.0], abs=1e-6)


def test_shortest_first_gives_the_shortest_its_fastest_type() -> None:
    shares = asked([[10, 5], [10, 5]], [100, 10])
    assert OBJECTIVES["sjf"](shares) == pytest.approx([0, 1, 1, 0], abs=1e-6)


def test_a_deadline_comes_before_money() -> None:
    columns = [Column((0,), 0, (10.0,)), Column((0,), 1, (4.0,))]
    cheap = Shares([Claim(1, 100)], columns, (1, 1), (10.0, 1.0))
    urgent = Shares([Claim(1, 100, due=12.5)], columns, (1, 1), (10.0, 1.0))
    assert OBJECTIVES["cost"](cheap)[0] == pytest.approx(0.0, abs=1e-6)
    assert rate(urgent, OBJECTIVES["cost"](urgent), 0) >= 8 - 1e-6


def test_jobs_that_share_devices_are_used_where_that_gains() -> None:
    columns = [Column((0,), 0, (1.0,)), Column((1,), 0, (1.0,)), Column((0, 1), 0, (0.9, 0.9))]
    solution = OBJECTIVES["max-min"](Shares([Claim(1, 9), Claim(1, 9)], columns, (1,)))
    assert solution[2] == pytest.approx(1.0, abs=1e-4)


def test_rates_add_up_alike_on_every_python() -> None:
    """`sum` of floats is another number from Python 3.12 on; a last bit decides between equal shares."""
    tenths = Shares([Claim(1, 1.0)] * 10, [Column((0,), kind, (1.0,)) for kind in range(10)], [1] * 10)
    assert tenths.equal(0) == tenths.isolated(0) == 1.0


class Watched(list[Column]):
    """Columns that count how often they are iterated."""

    reads = 0

    def __iter__(self) -> Iterator[Column]:
        self.reads += 1
        return super().__iter__()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_objective_goes_through_all_columns_for_each_job(objective: str) -> None:
    """With thousands of waiting jobs, that took most of the time of a run."""
    reads = []
    for jobs in (5, 20):
        columns = Watched(Column((job,), kind, (1.0 + kind,)) for job in range(jobs) for kind in range(2))
        shares = Shares([Claim(1, 100.0 + job, due=1e6) for job in range(jobs)], columns, (2, 2), (2.0, 1.0))
        shares_of_time(objective, shares)
        for job in range(jobs):
            shares.isolated(job)
        reads.append(columns.reads)
    assert reads[0] == reads[1]
