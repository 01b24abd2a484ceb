"""Table D2 of policies.md: Muri's simulator on 8 nodes of 8; it charges restarts that we do not, hence the bounds."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import homogeneous
from tests.sim_reference.support import measure, trace

CLUSTER = homogeneous(8, 8)


@pytest.mark.parametrize(
    ("name", "policy", "mean", "makespan"),
    [
        ("3", "srtf", 193081.80, 8174135),
        ("3", "srsf", 185021.88, 8174135),
        ("3_pr", "srtf", 844394.78, 7261796),
        ("3_pr", "srsf", 798057.68, 6907790),
    ],
)
def test_whoever_knows_the_durations(name: str, policy: str, mean: float, makespan: float) -> None:
    got = measure(trace("muri", f"trace{name}.csv", "muri"), CLUSTER, policy)
    assert got.mean_jct == pytest.approx(mean, rel=0.1)
    assert got.makespan == pytest.approx(makespan, rel=0.1)


@pytest.mark.parametrize("name", ["3", "3_pr"])
def test_antman_is_done_no_later_than_tiresias(name: str) -> None:
    jobs = trace("muri", f"trace{name}.csv", "muri")
    antman, tiresias = measure(jobs, CLUSTER, "antman"), measure(jobs, CLUSTER, "tiresias")
    assert antman.makespan is not None
    assert tiresias.makespan is not None
    assert antman.makespan <= tiresias.makespan
    if name == "3":
        assert (antman.mean_jct or 0) < (tiresias.mean_jct or 0)
