"""AntMan: two jobs on one device as in the paper, and what guaranteed jobs are never charged."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import ClusterSpec, Node, homogeneous
from paictl.sim.job import Job, Share
from paictl.sim.simulate import simulate
from paictl.units import Millis

MINUTE = 60_000
A = Job("a", Millis(0), 1, Millis(43 * MINUTE), gpu_util=0.606)
B = Job("b", Millis(1), 1, Millis(round(65.2 * MINUTE)), gpu_util=0.9)


def ends(policy: str, jobs: list[Job], spec: ClusterSpec) -> dict[str, float]:
    return {one.id: (one.end or 0) / MINUTE for one in simulate(jobs, spec, policy).outcomes}


def test_two_jobs_on_one_device() -> None:
    """The paper's Figure: 43.0 and 108.2 minutes one after the other, 43.9 and 91.8 under AntMan."""
    spec = homogeneous(1, 1)
    alone = ends("fifo", [A, B], spec)
    shared = ends("antman:epsilon=0.02", [A, B], spec)
    assert (round(alone["a"], 1), round(alone["b"], 1)) == (43.0, 108.2)
    assert (round(shared["a"], 1), round(shared["b"], 1)) == (43.9, 91.8)


def test_a_full_device_leaves_nothing() -> None:
    busy = Job("a", Millis(0), 1, Millis(10 * MINUTE), gpu_util=0.9)
    assert ends("antman", [busy, B], homogeneous(1, 1))["b"] == 10 + 65.2


def test_whoever_is_over_quota_runs_opportunistically_and_is_promoted() -> None:
    spec = ClusterSpec("1x2", (Node("n", 2),), quotas={"x": 1, "y": 1})
    jobs = [
        Job("x1", Millis(0), 1, Millis(10 * MINUTE), vc="x", gpu_util=0.5),
        Job("x2", Millis(0), 1, Millis(30 * MINUTE), vc="x", gpu_util=0.5),
        Job("y1", Millis(5 * MINUTE), 1, Millis(10 * MINUTE), vc="y", gpu_util=0.5),
    ]
    found = ends("antman", jobs, spec)
    assert found["y1"] == 15, "its own device, although x2 was there first"
    assert found["x1"] == 10
    # x2: 5 min alone, 5 min beside y1 at one half; x's quota is free at 10, and its device has y1 until 15
    assert 30 < found["x2"] <= 35


def test_a_reserved_device_is_kept_for_the_gang() -> None:
    jobs = [
        Job("one", Millis(0), 1, Millis(10 * MINUTE), gpu_util=1.0),
        Job("gang", Millis(1), 2, Millis(10 * MINUTE), gpu_util=1.0),
        Job("late", Millis(2), 1, Millis(60 * MINUTE), gpu_util=1.0),
    ]
    found = ends("antman:auto=false", jobs, homogeneous(1, 2))
    assert found["gang"] == 20, "the late job did not take the reserved device"


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 60), st.sampled_from([1, 2, 4]), st.integers(1, 60), st.floats(0.1, 1.0), st.booleans()
        ),
        min_size=1, max_size=12,
    )
)  # fmt: skip
def test_opportunistic_jobs_cost_guaranteed_ones_nothing(rows: list[tuple[int, int, int, float, bool]]) -> None:
    """With quotas and auto=false: the guaranteed end when they would without the others."""
    jobs = [
        Job(str(i), Millis(at * MINUTE), gpus, Millis(work * MINUTE), vc="x", gpu_util=util,
            share=Share.OPPORTUNISTIC if low else Share.GUARANTEED)
        for i, (at, gpus, work, util, low) in enumerate(rows)
    ]  # fmt: skip
    spec = ClusterSpec("2x4", (Node("n1", 4), Node("n2", 4)), quotas={"x": 6})
    together = ends("antman:auto=false", jobs, spec)
    alone = ends("antman:auto=false", [job for job in jobs if job.share is Share.GUARANTEED], spec)
    assert {name: together[name] for name in alone} == alone
