"""Rounds and plans of rounds: the order of jobs, the cost of restarts, forecasts, and the layout of rounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous, mixed
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.policies.training import Training
from paictl.sim.programs.epochs import Prospect, laid_out, rounds_for, weighted_rounds
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis


def job(name: str, at: float, seconds: float, gpus: int = 1, **more: object) -> Job:
    return Job(name, Millis(round(at * 1000)), gpus, Millis(round(seconds * 1000)), **more)  # type: ignore[arg-type]


def ends(result: RunResult) -> dict[str, float]:
    return {outcome.id: (outcome.end or 0) / 1000 for outcome in result.outcomes}


def starts(result: RunResult, name: str) -> list[float]:
    return [entry.time / 1000 for entry in result.log if entry.job == name and entry.what == "start"]


# --- rounds


def test_nothing_starts_within_a_round_and_the_last_round_ends_early() -> None:
    jobs = [job("a", 0, 100), job("b", 5, 100), job("c", 5, 300)]
    result = simulate(jobs, homogeneous(2, 1), "rounds:objective=gandiva-fair,restart=0,settle=0", check=Invariants())
    assert ends(result) == {"a": 100, "b": 200, "c": 400}, "a is alone: its round ends with it"


def test_a_restart_costs_a_part_of_the_round() -> None:
    result = simulate([job("a", 0, 50), job("b", 10, 240)], homogeneous(1, 1), "rounds:settle=0", log=True)
    assert ends(result)["b"] == pytest.approx(50 + 260, abs=0.01), "it was not there in the round before: 20 s are lost"
    short = simulate([job("a", 0, 50), job("b", 10, 100)], homogeneous(1, 1), "rounds:settle=0")
    assert ends(short)["b"] == 150, "a last slice that is shorter than a round loses nothing"
    first = simulate([job("b", 0, 240)], homogeneous(1, 1), "rounds:settle=0")
    assert ends(first)["b"] == 240, "nor does the first round of all"


def test_who_came_since_shares_were_computed_waits_until_they_are_computed_anew() -> None:
    jobs = [job("a", 0, 5000), job("b", 100, 5000), job("c", 200, 100)]
    result = simulate(jobs, homogeneous(4, 1), "rounds:objective=gandiva-fair", log=True)
    assert starts(result, "b") == [120], "the shares of time 0 do not count"
    assert starts(result, "c") == [1200], "a round after 120 + 1000"


@pytest.mark.parametrize("objective", ["max-min", "finish-time", "max-sum", "makespan", "gandiva-fair", "allox"])
def test_every_objective_ends_all_jobs_and_takes_turns_where_there_is_one_device(objective: str) -> None:
    jobs = [job(str(number), 0, 600) for number in range(4)]
    result = simulate(jobs, homogeneous(1, 1), f"rounds:objective={objective},restart=0", check=Invariants())
    assert max(ends(result).values()) == 2400
    if objective in ("max-min", "finish-time", "makespan", "gandiva-fair"):
        assert sorted(ends(result).values()) == [2040, 2160, 2280, 2400]


def test_makespan_favours_the_long_and_allox_the_short() -> None:
    jobs = [*(job(f"s{number}", 0, 600) for number in range(8)), job("long", 0, 6000)]
    makespan = simulate(jobs, homogeneous(2, 1), "rounds:objective=makespan,restart=0")
    allox = simulate(jobs, homogeneous(2, 1), "rounds:objective=allox,restart=0")
    assert ends(makespan)["long"] < ends(allox)["long"]
    assert min(ends(allox).values()) == 600


def test_finish_time_fairness_is_counted() -> None:
    result = simulate([job("a", 0, 120), job("b", 0, 120)], homogeneous(1, 1), "rounds:restart=0")
    assert (result.counters["worst_ftf"], result.counters["unfair"]) == (1.0, 0.0)
    crowd = simulate([job("a", 0, 120), job("b", 0, 12)], homogeneous(1, 1), "rounds:restart=0")
    assert crowd.counters["worst_ftf"] > 1
    assert crowd.counters["unfair"] == 50


def test_a_job_that_no_type_holds_waits_and_stops_nobody() -> None:
    jobs = [job("wide", 0, 100, gpus=3), job("a", 0, 100), job("typed", 0, 100, gpu_type="old")]
    result = simulate(jobs, mixed([("gpu", 1, 2), ("old", 1, 2)]), "shockwave", check=Invariants())
    assert ends(result) == {"wide": 0, "a": 100, "typed": 100}


# --- Shockwave


def test_shockwave_ends_long_and_short_jobs_together_where_shares_do_not() -> None:
    jobs = [job("long", 0, 4800), *(job(f"s{number}", 0, 1200) for number in range(4))]
    plan = simulate(jobs, homogeneous(2, 1), "shockwave:restart=0,power=0", check=Invariants())
    fair = simulate(jobs, homogeneous(2, 1), "rounds:objective=gandiva-fair,restart=0")
    assert 4800 <= max(ends(plan).values()) <= 5200
    assert max(ends(fair).values()) > 5500


COURSE = Training(
    20, ((10, 10), (20, 10)), ((0.0, 10, 0.0), (100.0, 20, 10.0)), {10: 10.0, 20: 5.0}, {10: 1, 20: 1}, 150.0
)


def test_progress_follows_the_batch_size() -> None:
    assert COURSE.progress(50.0) == (10, 5.0)
    assert COURSE.progress(100.0) == (20, 10.0)
    assert COURSE.progress(125.0) == (20, 15.0)
    assert (COURSE.expected(10), COURSE.expected(20)) == (100.0, 150.0)


def test_a_forecast_moves_from_equal_parts_to_what_was_seen() -> None:
    counts = COURSE.seen(1)
    assert counts == {10: 1, 20: 0}
    # 10 + 1 and 10 of 21, scaled to 20, one done: 9.48 epochs of 10 s, 9.52 of 5 s; 20 are left, 20 are counted
    assert COURSE.remaining(0) == pytest.approx((11 * 20 / 21 - 1) * 10 + 10 * 20 / 21 * 5, rel=1e-9)
    assert COURSE.remaining(19) < COURSE.remaining(10) < COURSE.remaining(0)


def prospect(remaining: float, target: float = 1e9, done: int = 0, gpus: int = 1) -> Prospect:
    return Prospect(gpus, 10, done, remaining / max(1, 10 - done), remaining, 1.0, target)


def test_a_plan_gives_everybody_the_same_progress_and_the_longest_what_it_needs() -> None:
    equal, other = weighted_rounds([prospect(1200), prospect(1200)], 1, 10, 120, 0.0, [1, 1])
    assert (equal + other, min(equal, other)) in ((10, 4), (10, 5)), "both are between the same points of the logarithm"
    long, short = weighted_rounds([prospect(6000), prospect(1200)], 1, 10, 120, 1.0, [1, 1])
    assert long > short, "a second of the one that is left longest costs more than progress is worth"
    assert weighted_rounds([prospect(1200), prospect(1200)], 1, 4, 120, 0.0, [1, 50]) < [2, 2]


def test_targets_are_kept_or_there_is_no_plan() -> None:
    late = prospect(1200, target=10 * 120)
    assert rounds_for([late, prospect(1200)], 1, 10, 120, 0.0) == [10, 0]
    assert rounds_for([late, late], 1, 10, 120, 0.0) is None
    assert rounds_for([prospect(1200, target=600), prospect(1)], 2, 10, 120, 0.0) is None, "sooner than the plan ends"


@given(
    st.integers(0, 3).flatmap(
        lambda power: st.tuples(
            st.just(2**power),
            st.lists(st.tuples(st.integers(0, 8), st.integers(0, power), st.floats(0.1, 100)), max_size=12),
        )
    )
)
def test_rounds_of_single_devices_that_fit_in_sum_are_laid_out_whole(
    given: tuple[int, list[tuple[int, int, float]]],
) -> None:
    devices, rows = given
    expected: list[int] = []
    sizes: list[int] = []
    weights: list[float] = []
    area = 0
    for count, power, weight in rows:
        size = 2**power
        count = min(count, (8 * devices - area) // size)
        expected, sizes, weights = [*expected, count], [*sizes, size], [*weights, weight]
        area += count * size
    plan = laid_out(expected, sizes, weights, devices, 8)
    assert all(sum(sizes[place] for place in row) <= devices and len(set(row)) == len(row) for row in plan)
    got = [sum(place in row for row in plan) for place in range(len(expected))]
    assert all(number <= count for number, count in zip(got, expected, strict=True))
    if set(sizes) <= {1}:
        assert got == expected
