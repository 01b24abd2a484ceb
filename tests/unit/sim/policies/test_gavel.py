"""Gavel's rounds: types of jobs, devices that jobs keep, and no leak of devices in times without jobs."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import ClusterShape, ClusterShapeError, homogeneous, mixed
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.policies import gavel
from paictl.sim.programs.shares import Shares
from paictl.sim.run import Ending, RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis

TWO = mixed([("fast", 1, 1), ("slow", 1, 1)])


def job(name: str, at: float, gpus: int, seconds: float, **more: object) -> Job:
    return Job(name, Millis(round(at * 1000)), gpus, Millis(round(seconds * 1000)), **more)  # type: ignore[arg-type]


def play(jobs: list[Job], policy: str = "gavel", spec: ClusterShape = TWO) -> RunResult:
    return simulate(jobs, spec, policy, log=True, check=Invariants(shared=True))


def ends(result: RunResult) -> dict[str, float | None]:
    return {outcome.id: None if outcome.end is None else outcome.end / 1000 for outcome in result.outcomes}


def test_what_a_round_held_is_free_after_a_time_without_jobs() -> None:
    """The devices were lost, and the first large job after a quiet night ended in a traceback."""
    result = play([job("a", 0, 8, 100), job("b", 5000, 8, 100)], spec=homogeneous(1, 8))
    assert ends(result) == {"a": 100, "b": 5100}


def test_each_type_goes_to_whom_it_helps_most() -> None:
    picky, easy = {"fast": 1.0, "slow": 0.1}, {"fast": 1.0, "slow": 0.9}
    result = play([job("easy", 0, 1, 3000, throughput=easy), job("picky", 0, 1, 3000, throughput=picky)])
    begun = {entry.job: entry.devices for entry in result.log if entry.what == "start" and entry.time == 0}
    assert begun == {"picky": (0,), "easy": (1,)}


def test_who_runs_on_the_same_type_again_keeps_its_devices() -> None:
    result = play([job("a", 0, 1, 3000)], spec=homogeneous(1, 1))
    assert (ends(result)["a"], result.counters["preemptions"]) == (3000, 0)


def test_two_on_one_device_take_turns_of_a_round() -> None:
    result = play([job("a", 0, 1, 720), job("b", 0, 1, 720)], spec=homogeneous(1, 1))
    order = [(entry.time // 1000, entry.job) for entry in result.log if entry.what == "start"]
    assert [at for at, _ in order] == [0, 360, 720, 1080]
    assert [name for _, name in order] in (["a", "b", "a", "b"], ["b", "a", "b", "a"])


@pytest.mark.parametrize(("late", "solved"), [(1, 0), (2, 1)])
def test_shares_are_computed_only_where_there_is_no_room_for_all(
    late: int, solved: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that comes later and leaves no room brings them about; they are those of before it came."""
    asked: list[Shares] = []

    def noted(_: str, shares: Shares) -> list[float]:
        asked.append(shares)
        return [1.0] * len(shares.columns)

    monkeypatch.setattr(gavel, "shares_of_time", noted)
    found = play([job("a", 0, 1, 1800), job("late", 400, late, 100)], spec=homogeneous(1, 2))
    assert [len(shares.claims) for shares in asked] == [1] * solved
    assert found.counters["programs"] == 1, "posed once, whether it was solved or not"


def test_weights_are_parts_of_the_time() -> None:
    """Three rounds in four for the one with three times the weight."""
    heavy, light = job("heavy", 0, 1, 36000, facts={"weight": 3.0}), job("light", 0, 1, 36000)
    result = play([heavy, light], spec=homogeneous(1, 1))
    held = {entry.job: 0 for entry in result.log}
    owner, since = "", 0
    for entry in result.log:
        if entry.what == "start" and entry.time <= 36_000_000:
            if owner:
                held[owner] += entry.time - since
            owner, since = entry.job, entry.time
    assert held["heavy"] / (held["heavy"] + held["light"]) == pytest.approx(0.75, abs=0.05)


def test_a_type_on_which_a_job_makes_no_progress_is_not_given_to_it() -> None:
    result = play([job("a", 0, 1, 400, throughput={"fast": 1.0}), job("b", 0, 1, 400, throughput={"fast": 1.0})])
    assert {entry.devices for entry in result.log if entry.what == "start"} == {(0,)}
    result = play([job("a", 0, 1, 400, gpu_type="slow")])
    assert {entry.devices for entry in result.log if entry.what == "start"} == {(1,)}


@pytest.mark.parametrize(("beside", "shares"), [(0.8, True), (0.4, False)])
def test_pairs_share_a_device_only_where_that_beats_taking_turns(beside: float, *, shares: bool) -> None:
    jobs = [job(name, 0, 1, 720, model=name, coloc={"a": beside, "b": beside}) for name in "ab"]
    result = play(jobs, "gavel:space-sharing=true", homogeneous(1, 1))
    assert any(entry.what == "colocate" for entry in result.log) == shares
    if shares:
        assert ends(result) == {"a": 900, "b": 900}


@pytest.mark.parametrize("policy", ["gavel", "fifo"])
def test_a_trace_for_other_devices_is_refused_with_what_to_write(policy: str) -> None:
    with pytest.raises(ClusterShapeError, match="rates are for fast, slow") as refused:
        simulate([job("a", 0, 1, 5, throughput={"fast": 1.0, "slow": 0.5, "none": 0.0})], homogeneous(1, 4), policy)
    assert refused.value.hint == "name the types: --cluster fast=2x4,slow=2x4"


def test_a_job_for_which_there_are_too_few_devices_that_it_runs_on_is_impossible() -> None:
    jobs = [job("a", 0, 2, 5, throughput={"fast": 1.0}), job("b", 0, 2, 5, throughput={"fast": 1.0, "slow": 0.5})]
    endings = {outcome.id: outcome.ending for outcome in play(jobs, "fifo").outcomes}
    assert endings == {"a": Ending.IMPOSSIBLE, "b": Ending.PASSED}


def test_first_come_first_served_gives_the_fastest_free_type_and_blocks() -> None:
    """The wide job waits for both slow devices, and the small one behind it waits although one is free."""
    rates = {"fast": 1.0, "slow": 0.5}
    jobs = [job(name, 0, gpus, 1000, throughput=rates) for name, gpus in (("a", 1), ("b", 1), ("wide", 2), ("d", 1))]
    result = play(jobs, "gavel:objective=fifo", mixed([("fast", 1, 1), ("slow", 2, 1)]))
    begun = {entry.job: entry for entry in reversed(result.log) if entry.what == "start"}
    assert (begun["a"].devices, begun["b"].devices) == ((0,), (1,))
    assert begun["a"].time == begun["b"].time == 0
    assert begun["wide"].time >= 1_000_000
    assert begun["d"].time >= begun["wide"].time


def test_unaware_first_come_keeps_the_type_that_was_drawn() -> None:
    rates = {"fast": 1.0, "slow": 0.1}
    kinds = set()
    for seed in range(8):
        result = simulate(
            [job("a", 0, 1, 3000, throughput=rates)], TWO, "gavel:objective=fifo,aware=false", seed=seed, log=True
        )
        used = {entry.devices for entry in result.log if entry.what == "start"}
        assert len(used) == 1
        kinds |= used
    assert kinds == {(0,), (1,)}
