"""Table D3 of policies.md: Gavel's simulator on 8 V100, 16 P100 and 24 K80, each on a machine of its own."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import mixed
from tests.sim_reference.support import measure, trace

CLUSTER = mixed([("V100", 8, 1), ("P100", 16, 1), ("K80", 24, 1)])

KNOWN = {
    "gavel": (13766.0, 61591.2),
    "gavel:aware=false": (18705.4, 70929.1),
    "gavel:objective=water-filling": (13712.0, 61717.8),
    "gavel:objective=finish-time": (14170.5, 61833.4),
    "gavel:objective=finish-time,aware=false": (18517.8, 72761.4),
    "gavel:objective=makespan": (21391.9, 58494.1),
    "gavel:objective=makespan,aware=false": (19861.9, 70491.9),
    "gavel:objective=max-sum": (15665.5, 63445.3),
}
"""Mean JCT and makespan."""

HUNDRED = {
    "gavel:objective=finish-time,aware=false": 34808.6,
    "gavel:objective=makespan,aware=false": 69155.5,
    "gavel:aware=false": 33192.9,
    "gavel": 33346.9,
    "gavel:objective=makespan": 62657.1,
    "gavel:objective=fifo": 38540.0,
}
"""Mean JCT of a trace with more large jobs."""


@pytest.mark.parametrize("policy", HUNDRED)
def test_100_jobs(policy: str) -> None:
    got = measure(trace("gavel", "physical_cluster/minimize_makespan.trace", "gavel"), CLUSTER, policy)
    assert got.jobs == 100
    assert got.mean_jct == pytest.approx(HUNDRED[policy], rel=0.06)


@pytest.mark.parametrize("policy", KNOWN)
def test_96_jobs(policy: str) -> None:
    mean, makespan = KNOWN[policy]
    got = measure(trace("gavel", "physical_cluster/max_min_fairness.trace", "gavel"), CLUSTER, policy)
    assert got.jobs == 96
    assert got.mean_jct == pytest.approx(mean, rel=0.06)
    assert got.makespan == pytest.approx(makespan, rel=0.06)


def test_knowing_the_devices_helps() -> None:
    jobs = trace("gavel", "physical_cluster/max_min_fairness.trace", "gavel")
    for objective in ("max-min", "finish-time"):
        aware = measure(jobs, CLUSTER, f"gavel:objective={objective}").mean_jct
        unaware = measure(jobs, CLUSTER, f"gavel:objective={objective},aware=false").mean_jct
        assert aware is not None
        assert unaware is not None
        assert aware < unaware
