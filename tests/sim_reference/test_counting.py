"""Table D1 of policies.md: what Tiresias' simulator gives for policies that leave no choice we give exactly."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import homogeneous
from tests.sim_reference.support import measure, trace

SIXTY = {
    "fifo": (200.82, 3335),
    "fifo:placement=consolidate": (219.18, 3341),
    "backfill": (190.68, 3271),
    "backfill:placement=consolidate": (219.18, 3271),
    "srtf": (192.12, 3271),
    "srsf": (194.98, 3315),  # by (key, submit, id); the simulator's own tie-break gives 195.90
}
"""60_job.csv on 16 devices: mean JCT, makespan."""

MANY = {
    "fifo:placement=consolidate": (11929.21, 11597.5, 24907.55, 41773, 0),
    "fifo": (11219.42, 11037.5, 23396.10, 40249, 0),
    "backfill:placement=consolidate": (3394.68, 954.5, 21361.45, 39196, 0),
    "backfill": (4182.00, 1524.0, 16829.25, 37731, 0),
    "srtf": (1936.54, 370.5, 13017.00, 39478, 834),
    "srsf": (1805.50, 371.5, 12776.05, 39116, 311),
}
"""tiresias_like_480_job.csv on 60 devices: mean, median and 95th percentile of JCT, makespan, preemptions."""


@pytest.mark.parametrize("policy", SIXTY)
def test_sixty_jobs_on_sixteen_devices(policy: str) -> None:
    mean, makespan = SIXTY[policy]
    got = measure(trace("tiresias", "60_job.csv", "tiresias"), homogeneous(4, 4), policy)
    assert (round(got.mean_jct or 0, 2), got.makespan) == (mean, makespan)


@pytest.mark.parametrize("policy", MANY)
def test_480_jobs_on_sixty_devices(policy: str) -> None:
    got = measure(trace("derived", "tiresias_like_480_job.csv", "tiresias"), homogeneous(15, 4), policy)
    assert got.mean_jct is not None
    assert got.p95_jct is not None
    assert (round(got.mean_jct, 2), got.p50_jct, round(got.p95_jct, 2), got.makespan, got.preemptions) == MANY[policy]


@pytest.mark.parametrize("policy", ["fifo", "backfill", "sjf", "srtf", "srsf"])
def test_where_nobody_waits_all_policies_are_alike(policy: str) -> None:
    got = measure(trace("tiresias", "60_job.csv", "tiresias"), homogeneous(16, 4), policy)
    assert (round(got.mean_jct or 0, 2), got.makespan, got.preemptions) == (178.42, 3271, 0)


MANY_AT_ONCE = {
    "fifo": 81210.79,
    "backfill": 42455.15,
    "las:queues=3250/7200": 64943.50,
}
"""ITP cluster06 on 128 devices, where 748 of 2,396 jobs share a second of submission: mean JCT of an independent
program that, like all published simulators, takes jobs of one instant in the order of the file."""


@pytest.mark.parametrize("policy", MANY_AT_ONCE)
def test_jobs_of_one_instant_go_by_their_row(policy: str) -> None:
    jobs = trace("elasticflow", "raw-traces.tar.gz/cluster06.csv", "itp")
    got = measure(jobs, homogeneous(16, 8), policy)
    assert round(got.mean_jct or 0, 2) == MANY_AT_ONCE[policy]
