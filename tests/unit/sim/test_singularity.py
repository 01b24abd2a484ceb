"""Singularity: promised shares are kept, no device is idle while a job wants it, and work is the same at any size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous
from paictl.sim.job import Job, Share
from paictl.sim.policies.singularity import steps
from paictl.sim.simulate import simulate
from paictl.units import Millis

HOUR = 3_600_000
FREE = "singularity:overhead=0,resize=0,resume=0"


def job(name: str, at: int, gpus: int, work: int, share: Share = Share.GUARANTEED) -> Job:
    return Job(name, Millis(at), gpus, Millis(work), share=share)


def test_alone_a_job_costs_three_percent() -> None:
    [outcome] = simulate([job("a", 0, 4, HOUR)], homogeneous(1, 4), "singularity").outcomes
    assert outcome.jct == pytest.approx(HOUR / 0.97, rel=1e-5)


def test_a_second_job_takes_what_was_not_promised() -> None:
    """8 devices: a (8) has all, then gives up half for b (4); the work of both stays what it was."""
    result = simulate([job("a", 0, 8, HOUR), job("b", HOUR // 2, 4, HOUR)], homogeneous(1, 8), f"{FREE},sla=0.5")
    ends = {outcome.id: outcome.end for outcome in result.outcomes}
    assert ends["b"] == HOUR // 2 + HOUR
    assert ends["a"] == HOUR // 2 + HOUR, "half an hour whole, an hour at half"


def test_opportunistic_jobs_live_on_the_rest() -> None:
    jobs = [job("low", 0, 8, HOUR, Share.OPPORTUNISTIC), job("high", HOUR // 2, 8, HOUR // 2)]
    ends = {outcome.id: outcome.end for outcome in simulate(jobs, homogeneous(1, 8), FREE).outcomes}
    assert ends == {"high": HOUR, "low": HOUR + HOUR // 2}


def test_sizes_divide_the_world() -> None:
    assert steps(12) == [1, 2, 3, 4, 6, 12]


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([1, 2, 4, 8]), st.integers(1, 60)), min_size=1, max_size=9
    )
)
def test_whoever_started_always_has_its_part(rows: list[tuple[int, int, int]]) -> None:
    jobs = [job(str(i), at * 1000, gpus, work * 1000) for i, (at, gpus, work) in enumerate(rows)]
    result = simulate(jobs, homogeneous(2, 4), f"{FREE},sla=0.5")
    for outcome in result.outcomes:
        assert outcome.preemptions == 0
        assert outcome.first_start is not None
        assert outcome.end is not None
        span = outcome.end - outcome.first_start
        assert outcome.service >= 0.5 * outcome.gpus * span - outcome.gpus, "the promised part, over any time"
        assert outcome.service == pytest.approx(outcome.gpus * outcome.work, abs=len(rows) * outcome.gpus), (
            "work is conserved"
        )


def test_guaranteed_jobs_are_whole_before_others_get_anything() -> None:
    """A preempted job also pays 20 s to resume."""
    jobs = [job("low", 0, 8, HOUR, Share.OPPORTUNISTIC), job("high", HOUR // 2, 8, HOUR // 2)]
    result = simulate(jobs, homogeneous(1, 8), "singularity:overhead=0,sla=0.5")
    ends = {outcome.id: (outcome.end, outcome.preemptions) for outcome in result.outcomes}
    assert ends == {"high": (HOUR, 0), "low": (HOUR + HOUR // 2 + 20_000, 1)}


def test_each_resize_costs_twenty_seconds() -> None:
    """Shrunk: 20 s at half the rate are 10 s of work; grown again: 20 s more."""
    jobs = [job("a", 0, 8, HOUR), job("b", HOUR // 2, 4, HOUR)]
    result = simulate(jobs, homogeneous(1, 8), "singularity:overhead=0,sla=0.5")
    assert {outcome.id: outcome.end for outcome in result.outcomes} == {"a": HOUR * 3 // 2 + 30_000, "b": HOUR * 3 // 2}
