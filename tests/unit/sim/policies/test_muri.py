"""Muri: which jobs share devices, at which rate, which wait, and what happens when a member of a group ends."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous, mixed
from paictl.sim.failures import FailureModel
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.programs.interleave import SLOWER, Stages, kind, period
from paictl.sim.run import FINISHED, RunResult
from paictl.sim.simulate import PausedError, simulate
from paictl.units import Millis

LOAD, COMPUTE = Stages(100.0, 10.0, 0.0, 110.0), Stages(10.0, 100.0, 0.0, 110.0)


def job(name: str, stages: Stages | None, seconds: float, at: float = 0, gpus: int = 1, **more: object) -> Job:
    names = ("cpu", "gpu", "network", "step")
    facts = {} if stages is None else {f"stage.{name}": time for name, time in zip(names, stages, strict=True)}
    return Job(name, Millis(round(at * 1000)), gpus, Millis(round(seconds * 1000)), facts=facts, **more)  # type: ignore[arg-type]


def ends(result: RunResult) -> dict[str, float]:
    return {outcome.id: (outcome.end or 0) / 1000 for outcome in result.outcomes}


def places(result: RunResult, name: str) -> list[tuple[int, ...]]:
    return [entry.devices for entry in result.log if entry.job == name and entry.what == "colocate"]


def play(jobs: list[Job], nodes: int, devices: int, more: str = "resume=0") -> RunResult:
    check = Invariants(shared=True)
    return simulate(jobs, homogeneous(nodes, devices), f"muri:{more}", log=True, check=check)


def test_two_that_go_well_together_share_a_device_at_the_pace_of_their_period() -> None:
    result = play([job("a", LOAD, 110), job("b", COMPUTE, 110)], 1, 1)
    together = 1000 * period(kind((LOAD,), (COMPUTE,))) / 1000 * SLOWER[1]
    assert list(ends(result).values()) == pytest.approx([together, together], rel=1e-4)
    assert places(result, "a") == places(result, "b") == [(0,)]
    assert result.counters["largest_group"] == 2


def test_two_that_need_the_same_take_turns() -> None:
    result = play([job("a", COMPUTE, 110), job("b", COMPUTE, 220)], 1, 1)
    assert ends(result) == pytest.approx({"a": 110 * SLOWER[0], "b": 330 * SLOWER[0]}, rel=1e-4)
    assert result.counters["largest_group"] == 1


def test_nobody_shares_where_there_is_room() -> None:
    result = play([job("a", LOAD, 110), job("b", COMPUTE, 110)], 1, 2)
    assert list(ends(result).values()) == pytest.approx([110 * SLOWER[0]] * 2, rel=1e-4)


def test_who_is_left_over_is_faster_when_its_company_has_ended() -> None:
    result = play([job("a", LOAD, 11), job("b", COMPUTE, 110)], 1, 1)
    pace = 110 / (period(kind((LOAD,), (COMPUTE,))) * SLOWER[1])
    first = 11 / pace
    assert ends(result) == pytest.approx({"a": first, "b": first + (110 - 11) * SLOWER[0]}, rel=1e-4)


def test_only_jobs_of_one_size_and_type_share() -> None:
    jobs = [job("wide", LOAD, 110, gpus=2), job("a", COMPUTE, 110)]
    assert play(jobs, 1, 2).counters["largest_group"] == 1
    typed = [job("x", LOAD, 110, gpu_type="x"), job("y", COMPUTE, 110, gpu_type="y")]
    result = simulate(typed, mixed([("x", 1, 1), ("y", 1, 1)]), "muri", check=Invariants(shared=True))
    assert result.counters["largest_group"] == 1


def test_the_shortest_service_goes_first_or_the_least_attained() -> None:
    jobs = [job("long", COMPUTE, 300), job("short", COMPUTE, 100, at=50)]
    with_durations = play(jobs, 1, 1)
    assert ends(with_durations)["short"] < ends(with_durations)["long"]
    without_durations = play(
        [job("old", COMPUTE, 60), job("new", COMPUTE, 300, at=50)], 1, 1, "resume=0,duration=false"
    )
    assert without_durations.outcomes[0].preemptions == 1, "who came has attained nothing, however long it is"


def test_without_stages_it_is_shortest_remaining_service_first() -> None:
    jobs = [
        job(str(number), None, 30 + 17 * (number * 7 % 5), at=number * 3, gpus=1 + number % 3) for number in range(20)
    ]
    muri = simulate(jobs, homogeneous(2, 4), "muri:placement=count,resume=0")
    assert ends(muri) == ends(simulate(jobs, homogeneous(2, 4), "srsf"))


def test_a_trace_may_tell_the_stages_of_some_jobs_only() -> None:
    jobs = [job("plain", None, 200), job("gone", None, 20), job("a", LOAD, 110, at=20), job("b", COMPUTE, 110, at=30)]
    result = play(jobs, 1, 2)
    assert all(outcome.ending in FINISHED for outcome in result.outcomes)
    assert result.counters["largest_group"] == 2
    assert ends(result)["plain"] == 200


def shuffled(number: int) -> list[Job]:
    """Jobs of all kinds and sizes, far more than eight devices can run at once."""
    kinds = [LOAD, COMPUTE, Stages(30.0, 30.0, 30.0, 90.0), Stages(50.0, 20.0, 40.0, 110.0), None]
    return [
        job(str(place), kinds[place * 7 % 5], 20 + place * 37 % 190, at=place * 13 % 100, gpus=1 << (place * 11 % 3))
        for place in range(number)
    ]


def test_groups_on_devices_that_fail_run_elsewhere_and_come_to_their_ends() -> None:
    failures = FailureModel("node=100s", node=Millis(100_000), repair=Millis(50_000), checkpoint=Millis(0))
    result = simulate(
        shuffled(60), homogeneous(2, 4), "muri", failures=failures, check=Invariants(shared=True), log=True
    )
    assert all(outcome.ending in FINISHED for outcome in result.outcomes)
    assert result.counters["largest_group"] > 1
    assert sum(outcome.interruptions for outcome in result.outcomes) > 5


def test_a_run_that_was_interrupted_while_jobs_share_ends_as_if_it_had_not_been() -> None:
    """A snapshot holds no solver: the next matching starts from scratch and is the same."""
    jobs, spec = shuffled(60), homogeneous(2, 4)
    whole = simulate(jobs, spec, "muri", log=True)
    snapshot: bytes | None = None
    for _ in range(4):
        rest = iter(range(12))
        with pytest.raises(PausedError) as paused:
            simulate(jobs, spec, "muri", log=True, snapshot=snapshot, stop=lambda rest=rest: next(rest, None) is None)  # type: ignore[misc]
        snapshot = paused.value.snapshot
    resumed = simulate(jobs, spec, "muri", log=True, snapshot=snapshot)
    assert replace(resumed, wall_seconds=0) == replace(whole, wall_seconds=0)


def test_a_job_that_leaves_does_not_shuffle_the_others() -> None:
    """Forty jobs share ten devices; while they end one after another, most of the others stay in place."""
    kinds = [LOAD, COMPUTE, Stages(30.0, 30.0, 30.0, 90.0), Stages(50.0, 20.0, 40.0, 110.0)]
    jobs = [job(str(place), kinds[place % 4], 100 + 15 * (place * 7 % 40)) for place in range(40)]
    result = play(jobs, 1, 10)
    moves = sum(entry.what == "colocate" for entry in result.log) - len(jobs)
    assert moves < 4 * len(jobs), "a few for each that ends, not all of those that run"


def test_where_all_are_placed_anew_groups_stay_on_places_that_are_used_again() -> None:
    """Jobs of whole nodes among single ones: now and then only another order of all of them fits."""
    kinds = [LOAD, COMPUTE, Stages(30.0, 30.0, 30.0, 90.0), Stages(50.0, 20.0, 40.0, 110.0)]
    jobs = [
        job(str(place), kinds[place % 4], 100 + 15 * (place * 7 % 40), at=5 * place, gpus=(1, 1, 1, 8, 1)[place % 5])
        for place in range(60)
    ]
    result = play(jobs, 4, 8)
    moves = sum(entry.what == "colocate" for entry in result.log) - len(jobs)
    assert moves < 11 * len(jobs), "616; 742 where the places go by rank"


def test_nobody_moves_where_every_job_has_devices_of_its_own() -> None:
    result = play(shuffled(40), 20, 8)
    assert all(len(places(result, outcome.id)) == 1 for outcome in result.outcomes)
    assert all(outcome.first_start == outcome.submit for outcome in result.outcomes)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, LOAD, COMPUTE, Stages(30, 30, 30, 90)]),
            st.integers(1, 300),
            st.integers(0, 200),
            st.sampled_from([1, 1, 2, 4, 8]),
        ),
        min_size=1,
        max_size=24,
    ),
    st.sampled_from(["", "duration=false", "placement=count"]),
)
def test_groups_keep_every_invariant(rows: list[tuple[Stages | None, int, int, int]], more: str) -> None:
    jobs = [job(str(n), stages, seconds, at, gpus) for n, (stages, seconds, at, gpus) in enumerate(rows)]
    result = play(jobs, 2, 4, more)
    assert all(outcome.ending in FINISHED for outcome in result.outcomes)
