"""Published traces, and figures of runs on them."""

from __future__ import annotations

from functools import cache

import pytest

from paictl.sim.cluster import ClusterShape
from paictl.sim.job import Trace
from paictl.sim.metrics import Figures, figures
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.sim.traces.load import load
from tests.conftest import SHARED


@cache
def trace(archive: str, member: str, kind: str) -> Trace:
    """A file of one of the archives; skips the test where they are absent."""
    packed = SHARED / "traces" / f"{archive}.tar.gz"
    if not packed.is_file():
        pytest.skip(f"no traces at {packed} (set PAICTL_SHARED)")
    return load(f"{packed}/{archive}/{member}", kind)


def run(jobs: Trace, cluster: ClusterShape, policy: str) -> RunResult:
    return simulate(jobs.jobs, cluster, policy)


def measure(jobs: Trace, cluster: ClusterShape, policy: str) -> Figures:
    return figures(run(jobs, cluster, policy))
