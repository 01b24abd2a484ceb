"""Philly: why jobs wait (ATC'19 §3.1: fragmentation is 59, 74, 98 % of the causes for 2-4, 5-8 and more devices)."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import homogeneous
from tests.sim_reference.support import run, trace


@pytest.mark.slow
def test_fragmentation_is_what_large_jobs_wait_for() -> None:
    """Quotas by demand on 1,000 devices: single devices wait for their share, gangs for places."""
    result = run(trace("philly", "philly.csv", "philly"), homogeneous(125, 8), "yarn-cs")
    share = {}
    for size in ("gpus-1", "gpus-5-8", "gpus-over-8"):
        rows = [result.counters.get(f"delay_causes.{size}.{cause}", 0) for cause in ("fragmentation", "fair-share")]
        share[size] = rows[0] / sum(rows)
    assert share["gpus-1"] < share["gpus-5-8"] < share["gpus-over-8"]
    assert result.counters["preemptions"] > 0
