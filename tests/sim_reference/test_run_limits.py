"""EASY backfill against a counting program of ours (policies-2.md, D); no published figures on GPU traces are known."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import homogeneous
from paictl.sim.metrics import figures
from tests.sim_reference.support import run, trace

ROWS = {
    "easy": (7311.24, 37079, 20178, 19796),
    "easy:limits=factor,factor=2": (5690.62, 38740, 20383, 19849),
}
"""Mean JCT, makespan, longest wait, longest wait of jobs of at least 16 devices."""


@pytest.mark.parametrize("policy", ROWS)
def test_480_jobs_on_sixty_devices(policy: str) -> None:
    result = run(trace("derived", "tiresias_like_480_job.csv", "tiresias"), homogeneous(15, 4), policy)
    found = figures(result)
    waits = [((one.queueing or 0) / 1000, one.gpus) for one in result.outcomes]
    longest = max(wait for wait, _ in waits)
    of_large = max(wait for wait, gpus in waits if gpus >= 16)
    assert (round(found.mean_jct or 0, 2), found.makespan, longest, of_large) == ROWS[policy]
    assert result.counters["promises_broken"] == 0
