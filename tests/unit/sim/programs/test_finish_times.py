"""Themis' shares: they fit, their worst ratio is minimal, and remaining devices are not wasted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from paictl.sim.programs.finish_times import Demands, fair_shares, isolated_shares

JOBS = st.lists(
    st.tuples(st.integers(1, 8), st.floats(1, 1e6), st.floats(0, 1e6), st.floats(1, 1e7)), min_size=1, max_size=12
)


def demands(rows: list[tuple[int, float, float, float]]) -> Demands:
    return Demands(*(np.array(column, dtype=float) for column in zip(*rows, strict=True)))


def worst(problem: Demands, shares: np.ndarray) -> float:
    return float(((problem.age + problem.left / shares) / problem.alone).max())


@example(rows=[(1, 1.0, 0.0, 1853206.900672152), (8, 536687.9145729485, 598710.0, 1.0)], size=8, seed=0)
@example(rows=[(1, 1.0, 0.0, 8741.0), (8, 1.0, 1036.0, 1.0)], size=8, seed=0)  # needs next to nothing, but not nothing
@given(rows=JOBS, size=st.integers(8, 64), seed=st.integers(0, 99))
def test_no_other_shares_have_a_smaller_worst_ratio(
    rows: list[tuple[int, float, float, float]], size: int, seed: int
) -> None:
    problem = demands(rows)
    shares = fair_shares(problem, size)
    assert (shares > 0).all()
    assert (shares <= 1).all()
    assert (problem.devices * shares).sum() <= size * (1 + 1e-9)
    best, dice = worst(problem, shares), np.random.RandomState(seed)
    for _ in range(20):
        other = dice.random_sample(len(rows)) + 1e-9
        other = np.minimum(other * size / (problem.devices * other).sum(), 1.0)
        assert best <= worst(problem, other) * (1 + 1e-6)


@example(rows=[(1, 10.0, 1000.0, 10.0)] + [(1, 1e5, 0.0, 1e5)] * 60, size=61, seed=0)
@example(rows=[(8, 1.0, 0.0, 1.0), (1, 1.0, 396194.0, 1.0)], size=8, seed=7)  # one that has nearly no choice
@example(rows=[(1, 10.0, 1000.0, 10.0), (8, 1e6, 0.0, 9e3), (8, 1e6, 0.0, 9e3)], size=64, seed=0)
@given(rows=JOBS, size=st.integers(8, 64), seed=st.integers(0, 99))
def test_shares_are_farther_from_all_their_bounds_than_others_with_the_same_ratio(
    rows: list[tuple[int, float, float, float]], size: int, seed: int
) -> None:
    problem = demands(rows)
    shares = fair_shares(problem, size)
    ratio = worst(problem, shares) * (1 + 1e-9)
    least = np.minimum(problem.left / (ratio * problem.alone - problem.age), 1.0)
    free = size - (problem.devices * least).sum()
    if free <= 1e-3 * size or (least > 1 - 1e-3).all():
        return  # there is only one answer

    inner = least < 1 - 1e-3  # the job that sets the ratio has no choice

    def distance(at: np.ndarray) -> float:
        room = size - (problem.devices * at).sum()
        return float(2 * np.log((at - least)[inner]).sum() + np.log((1 - at)[inner]).sum() + np.log(room))

    dice, best = np.random.RandomState(seed), distance(shares)
    for _ in range(20):
        other = np.where(inner, least + (shares - least) * (1 + 0.02 * dice.uniform(-1, 1, len(rows))), shares)
        if (other[inner] < 1).all() and (problem.devices * other).sum() < size:
            assert distance(other) <= best + 1e-6 * abs(best) + 1e-6


def test_where_devices_are_short_each_gets_what_it_needs_and_no_more() -> None:
    # both are new and need 100 s; the one that would take longer alone can wait longer
    shares = fair_shares(demands([(1, 100, 0, 100), (1, 100, 0, 300)]), 1)
    assert shares == pytest.approx([0.75, 0.25])


@pytest.mark.parametrize("seed", [*range(6), 137, 356])
def test_all_needs_fit_however_long_jobs_have_waited(seed: int) -> None:
    # ages up to 10^7 times what is left: a need computed from the ratio would lose as many digits
    dice, jobs, size = np.random.RandomState(seed), 200, 8
    devices, (left, age, alone) = 2.0 ** dice.randint(0, 6, jobs), np.exp(dice.uniform(0, 18, (3, jobs)))
    shares = fair_shares(Demands(devices, left, age, alone), size)
    assert (devices * shares).sum() == pytest.approx(size, rel=1e-11) or shares.max() == pytest.approx(1)
    assert (devices * shares).sum() <= size * (1 + 1e-11)


def test_what_is_left_over_goes_to_small_jobs_first() -> None:
    # the first sets the ratio alone: it has waited so long that the others need next to nothing
    shares = fair_shares(demands([(1, 10, 1000, 10), (1, 1e5, 0, 1e5), (8, 1e5, 0, 8e5), (8, 1e5, 0, 8e5)]), 8)
    assert shares[0] == pytest.approx(1.0)
    assert shares[1] > 2 * shares[2]
    assert shares[2] == pytest.approx(shares[3])
    assert 6 < (np.array([1, 1, 8, 8]) * shares).sum() < 8


def test_alone_a_job_has_its_part_of_the_devices_and_at_most_all_of_its_time() -> None:
    assert isolated_shares([1, 4, 8, 16], 64, 10).tolist() == [1.0, 1.0, 7 / 8, 7 / 16]
    assert isolated_shares([2], 64, 1000).tolist() == [0.5]


@pytest.mark.parametrize("size", [2004, 4000, 6212, 50_000, 100_000])
def test_a_small_job_has_all_its_time_on_a_large_cluster(size: int) -> None:
    for more in range(60):
        assert fair_shares(demands([(1, 1.0, 0.0, 1.0)]), size + more).tolist() == [1.0]
