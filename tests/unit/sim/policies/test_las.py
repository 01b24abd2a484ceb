"""Queues, promotion and placement by skew."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import Cluster, homogeneous
from paictl.sim.job import Job
from paictl.sim.policies.gittins import Index
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis


def job(name: str, at: int, gpus: int, seconds: int, skew: float = 0.0) -> Job:
    return Job(name, Millis(at * 1000), gpus, Millis(seconds * 1000), skew=skew)


def longest_wait(result: RunResult, name: str) -> int:
    """The longest time for which a job had no devices, ms."""
    longest, since = 0, 0
    for entry in result.log:
        if entry.job == name and entry.what in ("submit", "preempt"):
            since = entry.time
        elif entry.job == name and entry.what == "start":
            longest = max(longest, entry.time - since)
    return longest


STREAM = [job("long", 0, 1, 100), *(job(f"s{number}", 10 + 5 * number, 1, 5) for number in range(40))]


def test_a_job_that_has_had_its_share_waits_for_those_who_have_not() -> None:
    result = simulate(STREAM, homogeneous(1, 1), "las:queues=10", log=True)
    assert longest_wait(result, "long") == 200_000, "all forty short ones go first"


@pytest.mark.parametrize("promote", ["total", "reset"])
def test_the_knob_ends_starvation(promote: str) -> None:
    result = simulate(STREAM, homogeneous(1, 1), f"las:queues=10,knob=2,promote={promote}", log=True)
    assert 20_000 <= longest_wait(result, "long") < 100_000


def test_never_promoted_is_as_without_knob() -> None:
    result = simulate(STREAM, homogeneous(1, 1), "las:queues=10,knob=2,promote=never", log=True)
    assert longest_wait(result, "long") == 200_000


def test_who_started_first_goes_first_within_a_queue() -> None:
    jobs = [job("a", 0, 1, 20), job("b", 1, 1, 20), job("c", 2, 1, 3)]
    ends = {outcome.id: outcome.end for outcome in simulate(jobs, homogeneous(1, 1), "las:queues=5").outcomes}
    assert ends == {"c": 13_000, "a": 28_000, "b": 43_000}


@pytest.mark.parametrize(
    ("order", "ends"),
    [("start", {"c": 13_000, "b": 20_000, "a": 24_000}), ("entry", {"c": 13_000, "a": 21_000, "b": 23_000})],
)
def test_who_fell_into_a_queue_first_goes_first_there(order: str, ends: dict[str, int]) -> None:
    jobs = [job("b", 0, 1, 20), job("a", 1, 2, 20), job("c", 10, 1, 3)]  # b starts first; a falls at 3.5 s, b at 5 s
    result = simulate(jobs, homogeneous(1, 3), f"las:queues=5,order={order}")
    assert {outcome.id: outcome.end for outcome in result.outcomes} == ends


@pytest.mark.parametrize(
    ("order", "ends"), [("running", {"y": 15_000, "z": 12_000}), ("entry", {"y": 8_000, "z": 15_000})]
)
def test_by_entry_who_waits_may_go_before_who_runs(order: str, ends: dict[str, int]) -> None:
    jobs = [job("x", 0, 1, 5), job("y", 1, 2, 3), job("z", 2, 1, 10)]  # z starts beside x, where y has no place
    result = simulate(jobs, homogeneous(1, 2), f"las:queues=100,order={order}")
    assert {outcome.id: outcome.end for outcome in result.outcomes} == {"x": 5_000, **ends}


def placed(jobs: list[Job], policy: str) -> dict[str, int]:
    """Over how many nodes of 4 each job was spread at its first start."""
    cluster = Cluster(homogeneous(3, 4))
    result = simulate(jobs, homogeneous(3, 4), policy, log=True)
    return {entry.job: cluster.spread(entry.devices) for entry in reversed(result.log) if entry.what == "start"}


FILL = [job("f1", 0, 2, 50), job("f2", 0, 4, 50), job("f3", 0, 4, 50), job("gang", 1, 4, 5)]


def test_skewed_models_wait_to_be_together_and_others_fill_fragments() -> None:
    jobs = [job("f1", 0, 3, 50, 0.7), job("f2", 0, 3, 60, 0.7), job("gang", 1, 4, 5, 0.7), job("flat", 2, 4, 50, 0.1)]
    nodes = placed(jobs, "tiresias")
    assert nodes["gang"] == 1
    assert nodes["flat"] == 3, "two fragments, and the rest on the third node when the gang has left it"


def test_a_skewed_gang_waits_although_there_are_enough_devices() -> None:
    jobs = [job("f1", 0, 3, 50, 0.7), job("f2", 0, 3, 60, 0.7), job("f3", 0, 3, 70, 0.7), job("gang", 1, 3, 5, 0.7)]
    started = {outcome.id: outcome.first_start for outcome in simulate(jobs, homogeneous(3, 4), "tiresias").outcomes}
    assert started["gang"] == 50_000
    flat = {
        outcome.id: outcome.first_start
        for outcome in simulate(jobs, homogeneous(3, 4), "tiresias:packlimit=0.9").outcomes
    }
    assert flat["gang"] == 1000


def test_a_policy_that_does_not_know_the_skew_cannot_place_by_it() -> None:
    with pytest.raises(ParameterError, match="'skew' is not a known value"):
        simulate(FILL, homogeneous(3, 4), "las:placement=skew")


def test_the_index_is_the_formula() -> None:
    index = Index([1, 2, 10])
    # of the two jobs beyond 1, one ends within 5; they would take 1 and 5
    assert index(1, 5) == pytest.approx((1 / 2) / ((1 + 5) / 2))
    assert index(10, 5) == 0
