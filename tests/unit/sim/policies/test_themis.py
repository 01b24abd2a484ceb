"""Themis: which jobs run after arrivals and ends, which move, and how time alone is measured."""

from __future__ import annotations

from paictl.sim.cluster import homogeneous
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.run import FINISHED, RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis


def job(name: str, seconds: float, at: float = 0, gpus: int = 1, iterations: int = 0) -> Job:
    return Job(name, Millis(round(at * 1000)), gpus, Millis(round(seconds * 1000)), iterations=iterations)


def ends(result: RunResult) -> dict[str, float]:
    return {outcome.id: (outcome.end or 0) / 1000 for outcome in result.outcomes}


def play(jobs: list[Job], nodes: int, devices: int, more: str = "", seed: int = 0) -> RunResult:
    return simulate(jobs, homogeneous(nodes, devices), f"themis{more}", log=True, check=Invariants(), seed=seed)


def test_who_has_not_run_yet_goes_first() -> None:
    assert ends(play([job("old", 100), job("new", 10, at=50)], 1, 1)) == {"old": 110, "new": 60}


def test_the_larger_share_for_the_time_it_had_runs() -> None:
    # at 60 s both have run; "long" had 50 s and is far from its end, "late" 10 s
    jobs = [job("long", 1000), job("late", 1000, at=50), job("tick", 1, at=60)]
    result = play(jobs, 1, 1)
    starts = [entry.job for entry in result.log if entry.what == "start" and entry.time >= 61_000]
    assert starts[0] == "late", "the one that had less of the device"


def test_nothing_is_decided_while_nobody_comes_or_ends() -> None:
    result = play([job("a", 1000), job("b", 500)], 1, 1)
    assert result.counters["programs"] == 2, "at the arrivals, and when the first one ends"
    assert sum(outcome.preemptions for outcome in result.outcomes) == 0


def test_a_job_that_runs_moves_only_where_another_one_finds_no_place_otherwise() -> None:
    # "a" and "b" end up on two nodes; when "c" ends, "pair" needs a whole one
    jobs = [job("a", 100), job("c", 10), job("b", 100), job("pair", 5, at=20, gpus=2)]
    jobs[2] = job("b", 100, at=5)
    result = play(jobs, 2, 2)
    assert ends(result)["pair"] == 25
    assert ends(result) == {"a": 100, "c": 10, "b": 105, "pair": 25}, "one of both moved, and none waited"


def test_who_takes_long_steps_goes_first_where_muris_simulator_is_followed() -> None:
    jobs = [job("short-steps", 100, iterations=1000), job("long-steps", 100, iterations=10)]
    for seed in range(4):
        assert ends(play(jobs, 1, 1, ":isolated=steps", seed)) == {"short-steps": 200, "long-steps": 100}
    assert {ends(play(jobs, 1, 1, "", seed))["long-steps"] for seed in range(8)} == {100, 200}, (
        "equal jobs: by the seed"
    )


def test_a_decision_looks_at_a_bounded_number_of_jobs() -> None:
    jobs = [job(str(number), 1 + number % 7, at=number % 3) for number in range(60)]
    few = play(jobs, 1, 4, ":most=5")
    assert all(outcome.ending in FINISHED for outcome in few.outcomes)
    assert ends(few) != ends(play(jobs, 1, 4))


def test_a_job_larger_than_every_place_keeps_nobody_waiting() -> None:
    result = play([job("wide", 10, gpus=9), job("a", 10)], 2, 2)
    assert ends(result)["a"] == 10
