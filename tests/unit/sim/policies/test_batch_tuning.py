"""Sia and Pollux: measurements of jobs, numbers of devices, the cost of restarts, and batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.cluster import ClusterShape, homogeneous, mixed
from paictl.sim.goodput import BatchSize, StepTimes, TrainingProfile
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.policies import batch_tuning
from paictl.sim.programs.steps import Measurement, StepModel, fitted
from paictl.sim.run import RunResult
from paictl.sim.simulate import PausedError, simulate
from paictl.units import Millis

POLLUX = "pollux:population=20,generations=15"


def times(sample: float, network: float, most: int = 64) -> StepTimes:
    """Seconds of a step for each sample of a replica, and of the network between several replicas."""
    rows: dict[tuple[int, ...], tuple[tuple[int, float, float], ...]] = {
        placement: tuple((size, 0.01 + sample * size + wire, wire) for size in (8, 16, 32, most))
        for placement in (
            (1,),
            (2,),
            (3,),
            (4,),
            (4, 4),
            (1, 1),
            (2, 2),
            (3, 3),
            (1, 2),
            (1, 3),
            (1, 4),
            (2, 3),
            (2, 4),
            (3, 4),
        )
        for wire in [0.0 if placement == (1,) else network * (3 if len(placement) > 1 else 1)]
    }
    spread = tuple(
        (4, 4 * n, size, 0.01 + sample * size + 4 * network, 4 * network) for n in (1, 4) for size in (8, 64)
    )
    return StepTimes(rows, spread)


def profile(*, epochs: int = 10, steps: float = 400.0, var: float = 50.0, **types: StepTimes) -> TrainingProfile:
    """Gradients so noisy that large batches are worth it; epochs of equal length."""
    by_type = {kind.replace("any", ""): type_times for kind, type_times in types.items()} or {"": times(0.002, 0.005)}
    rows = tuple(((epoch + 1) * steps, 1.0, var) for epoch in range(epochs))
    return TrainingProfile("net", epochs, by_type, {32: rows, 512: rows}, {}, restart=20.0, believed=30.0)


def test_a_placement_with_one_measured_batch_size_has_that_and_no_other() -> None:
    measured = StepTimes({(1,): ((8, 0.1, 0.02),), (2,): ((8, 0.1, 0.02), (8, 0.1, 0.02))}, ())
    assert (measured.step((1,), 8), measured.step((1,), 9)) == ((0.1, 0.02), None)
    assert measured.step((2,), 8) == (0.1, 0.02), "a size that was measured twice"


def job(name: str, training: TrainingProfile, at: float = 0, gpus: int = 1) -> Job:
    return Job(name, Millis(round(at * 1000)), gpus, Millis(1_000_000), model="net", training=training)


def play(jobs: list[Job], cluster: ClusterShape, policy: str) -> RunResult:
    return simulate(jobs, cluster, policy, log=True, check=Invariants())


@given(batch=st.integers(32, 512), var=st.floats(0, 1e4), replicas=st.sampled_from([1, 2, 4]))
def test_steps_take_as_long_as_progress(batch: int, var: float, replicas: int) -> None:
    """A reader's work for a profile and the run time under `pollux` are the same seconds."""
    training = profile(var=var)
    size = training.asked(batch, replicas, "", (replicas,))
    step, sync = training.step("", (replicas,), size.local)
    seconds = sum(400 / training.speed("", (replicas,), size, epoch) for epoch in range(10))
    assert (training.steps(size.total(replicas)) or 0) * (step + (size.passes - 1) * (step - sync)) == pytest.approx(
        seconds
    )


def test_fewer_steps_with_a_larger_batch_by_what_its_gradients_are_worth() -> None:
    training = profile(var=50.0)  # 4,000 steps of 32 samples; one of 512 is worth 51 / (50/16 + 1) of them
    assert training.steps(32) == 4000
    assert training.steps(512) == pytest.approx(4000 / (51 / (50 / 16 + 1)))
    assert training.steps(31) is training.steps(513) is None


def sizes(result: RunResult, name: str) -> list[int]:
    return [len(entry.devices) for entry in result.log if entry.job == name and entry.what == "start"]


def test_progress_is_gain_by_time_of_a_step() -> None:
    training = profile(slow=times(0.002, 0.005))
    # 4 passes of 16 on 2 devices: a batch of 128, four times the initial one
    gain = (50 + 1) / (50 / 4 + 1)
    step, sync = 0.01 + 0.002 * 16 + 0.005, 0.005
    assert training.speed("slow", (2,), BatchSize(16, 4), 3) == pytest.approx(gain / (step + 3 * (step - sync)))


def test_an_epoch_is_found_by_progress_and_the_last_one_never_ends() -> None:
    training = profile(epochs=4)
    assert [training.epoch(part) for part in (0.0, 0.249, 0.25, 0.5, 0.99, 1.0)] == [0, 0, 1, 2, 3, 3]


@pytest.mark.parametrize("policy", ["sia", POLLUX])
def test_a_job_alone_doubles_what_it_has_tried_until_more_does_not_help(policy: str) -> None:
    result = play([job("a", profile())], homogeneous(2, 4), policy)
    tried = sizes(result, "a")
    assert tried[0] == 1
    assert all(after <= 2 * max(tried[: place + 1]) for place, after in enumerate(tried[1:]))
    assert max(tried) >= 4
    assert result.outcomes[0].ending.value == "passed"


@pytest.mark.parametrize("policy", ["sia", POLLUX])
def test_nothing_happens_between_intervals_and_a_restart_makes_no_progress(policy: str) -> None:
    result = play([job("a", profile(var=1e-9), at=10)], homogeneous(1, 1), policy)
    outcome = result.outcomes[0]
    assert outcome.first_start == 60_000
    # one device for good, 20 s of restart, and gradients so quiet that the initial batch is best
    assert (outcome.end or 0) / 1000 == pytest.approx(60 + 20 + 4000 * (0.01 + 0.002 * 32), abs=0.1)
    assert outcome.preemptions == 0


@pytest.mark.parametrize("policy", ["sia", POLLUX])
def test_noisy_gradients_make_a_larger_batch_worth_it_and_quiet_ones_do_not(policy: str) -> None:
    noisy, quiet = (
        play([job("a", profile(var=var))], homogeneous(1, 4), policy).outcomes[0].end or 0 for var in (1e4, 1e-4)
    )
    assert noisy < 0.9 * quiet


def test_sia_takes_the_faster_type_before_it_was_tried_there() -> None:
    """One device of each type is tried; from then on the ratio of one-device speeds says how fast the other is."""
    training = profile(slow=times(0.004, 0.005), fast=times(0.001, 0.005))
    cluster = mixed([("slow", 1, 4), ("fast", 1, 4)])
    result = play([job("a", training), job("b", training)], cluster, "sia")
    last = {entry.job: entry.devices for entry in result.log if entry.what == "start"}
    assert any(min(devices) >= 4 for devices in last.values())
    assert result.counters["restarts"] >= 1


def test_sia_never_mixes_types_and_keeps_configurations_to_powers_of_two_and_whole_nodes() -> None:
    training = profile(slow=times(0.004, 0.005), fast=times(0.001, 0.005))
    jobs = [job(f"j{n}", training, at=30 * n) for n in range(6)]
    result = play(jobs, mixed([("slow", 2, 4), ("fast", 1, 4)]), "sia")
    for entry in result.log:
        if entry.what == "start":
            assert len({device >= 8 for device in entry.devices}) == 1
            assert len(entry.devices) in (1, 2, 4, 8)
    assert all(outcome.ending.value == "passed" for outcome in result.outcomes)


def test_pollux_lets_one_job_at_most_be_spread_over_a_node() -> None:
    jobs = [job(f"j{n}", profile(), at=20 * n) for n in range(5)]
    result = play(jobs, homogeneous(3, 4), POLLUX)
    held: dict[str, tuple[int, ...]] = {}
    for at, entry in enumerate(result.log):
        if entry.what in ("start", "preempt", "passed"):
            held[entry.job] = entry.devices if entry.what == "start" else ()
        last = at + 1 == len(result.log) or result.log[at + 1].time != entry.time
        if last:
            nodes = [
                node
                for devices in held.values()
                if len({device // 4 for device in devices}) > 1
                for node in {device // 4 for device in devices}
            ]
            assert len(nodes) == len(set(nodes))


@pytest.mark.parametrize("policy", ["sia", POLLUX])
def test_jobs_without_a_profile_get_exactly_what_they_ask_for(policy: str) -> None:
    jobs = [
        Job("big", Millis(0), 8, Millis(100_000)),
        Job("odd", Millis(0), 3, Millis(100_000)),
        Job("small", Millis(1_000), 1, Millis(50_000)),
    ]
    result = play(jobs, homogeneous(3, 4), policy)
    assert {outcome.id: outcome.ending.value for outcome in result.outcomes} == dict.fromkeys(
        ("big", "odd", "small"), "passed"
    )
    assert {outcome.id: outcome.service // max(1, outcome.ran) for outcome in result.outcomes} == {
        "big": 8,
        "odd": 3,
        "small": 1,
    }


def test_the_seed_alone_decides_a_search() -> None:
    jobs = [job(f"j{n}", profile(), at=20 * n) for n in range(4)]
    ends = [
        [outcome.end for outcome in simulate(jobs, homogeneous(2, 4), POLLUX, seed=seed).outcomes]
        for seed in (1, 1, 2, 3)
    ]
    assert ends[0] == ends[1]
    assert len({str(end) for end in ends}) > 1


@pytest.mark.parametrize("policy", ["sia", POLLUX])
def test_models_are_fitted_as_in_the_simulator_of_each(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fits: list[tuple[int, bool, float | None]] = []

    def recorded(rows: Sequence[Measurement], last: StepModel | None = None, **more: Any) -> StepModel:
        fits.append((len(rows), last is None, more["tolerance"]))
        return fitted(rows, last, **more)

    monkeypatch.setattr(batch_tuning, "fitted", recorded)
    rows = tuple((400.0 * (epoch + 1), 1.0, 2.0 ** (epoch - 5)) for epoch in range(20))  # another batch size each epoch
    training = TrainingProfile("net", 20, {"": times(0.002, 0.005, most=512)}, {32: rows, 512: rows}, {})
    play([job("a", training)], homogeneous(1, 1), policy)
    measured = [number for number, _, _ in fits]
    if policy == "sia":
        assert measured == list(range(1, measured[-1] + 1)), "after each measurement"
        assert {(afresh, tolerance) for _, afresh, tolerance in fits} == {(True, 1e-5)}
    else:
        assert any(after > before + 1 for before, after in pairwise(measured)), "not after each measurement"
        assert {(afresh, tolerance) for _, afresh, tolerance in fits[1:]} == {(False, None)}


@pytest.mark.parametrize("policy", ["sia", POLLUX])
def test_a_stopped_run_goes_on_with_what_its_jobs_have_measured(policy: str) -> None:
    jobs, cluster = [job("a", profile()), job("b", profile(), at=200)], homogeneous(2, 4)
    whole = simulate(jobs, cluster, policy, log=True)
    snapshot: bytes | None = None
    for stop in (12, 9):
        instants = iter(range(stop))
        with pytest.raises(PausedError) as paused:
            simulate(jobs, cluster, policy, log=True, stop=lambda: next(instants, None) is None, snapshot=snapshot)  # noqa: B023
        snapshot = paused.value.snapshot
    resumed = simulate(jobs, cluster, policy, log=True, snapshot=snapshot)
    assert (resumed.log, resumed.outcomes, resumed.counters) == (whole.log, whole.outcomes, whole.counters)
