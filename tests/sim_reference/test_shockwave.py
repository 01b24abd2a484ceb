"""Shockwave and its baselines on its trace of 120 jobs and 32 devices: the published runs (policies-2.md, B.7)."""

from __future__ import annotations

import csv
from functools import cache

import pytest

from paictl.sim.cluster import homogeneous
from paictl.sim.metrics import figures
from paictl.sim.run import RunResult
from paictl.sim.traces.source import source
from tests.conftest import SHARED
from tests.sim_reference.support import run, trace

NAMES = {
    "shockwave": "shockwave",
    "rounds:objective=finish-time": "finish_time_fairness",
    "rounds:objective=gandiva-fair": "gandiva_fair",
    "rounds:objective=max-sum": "max_sum_throughput_perf",
}


@cache
def played(policy: str) -> RunResult:
    return run(trace("shockwave", "trace_120.csv", "shockwave"), homogeneous(32, 1), policy)


@pytest.mark.parametrize("policy", NAMES)
def test_120_jobs_on_32_devices(policy: str) -> None:
    result = played(policy)
    rows = csv.DictReader(source(f"{SHARED}/traces/shockwave.tar.gz/shockwave/expected.csv").text().splitlines())
    theirs = next(row for row in rows if row["policy"] == NAMES[policy])
    found = figures(result)
    assert found.jobs == 120
    assert found.makespan == pytest.approx(float(theirs["makespan"]), rel=0.05)
    assert found.mean_jct == pytest.approx(float(theirs["mean_jct"]), rel=0.05)
    assert result.counters["unfair"] == pytest.approx(float(theirs["unfair_percent"]), abs=5)
    worst = float(theirs["worst_ftf"])
    if policy == "shockwave":  # ours is an optimum, and fairer
        assert 1 < result.counters["worst_ftf"] < worst
    else:
        assert result.counters["worst_ftf"] == pytest.approx(worst, rel=0.2)


def test_a_job_that_nobody_interrupts_takes_the_published_time_to_the_second() -> None:
    """Job 0 doubles its batch size once, and ends before anybody waits."""
    result = played("rounds:objective=finish-time")
    assert (result.outcomes[0].jct or 0) / 1000 == pytest.approx(1182.612, abs=0.05)


def test_shockwave_ends_well_before_fair_finish_times_do() -> None:
    plan, fair = (figures(played(name)) for name in ("shockwave", "rounds:objective=finish-time"))
    assert (plan.makespan or 0) < 0.8 * (fair.makespan or 0)
