"""AntMan: two jobs on one device as in the paper, and guaranteed jobs that sharing never slows down."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import ClusterShape, Node, homogeneous
from paictl.sim.job import Job, Share
from paictl.sim.policies.antman_rates import interleaved
from paictl.sim.simulate import simulate
from paictl.units import Millis

MINUTE = 60_000
A = Job("a", Millis(0), 1, Millis(43 * MINUTE), gpu_util=0.606)
B = Job("b", Millis(1), 1, Millis(round(65.2 * MINUTE)), gpu_util=0.9)


def ends(policy: str, jobs: list[Job], spec: ClusterShape) -> dict[str, float]:
    return {outcome.id: (outcome.end or 0) / MINUTE for outcome in simulate(jobs, spec, policy).outcomes}


def test_two_jobs_on_one_device() -> None:
    """The paper's figure: 43.0 and 108.2 minutes one after the other, 43.9 and 91.8 under AntMan."""
    spec = homogeneous(1, 1)
    alone = ends("fifo", [A, B], spec)
    shared = ends("antman:epsilon=0.02", [A, B], spec)
    assert (round(alone["a"], 1), round(alone["b"], 1)) == (43.0, 108.2)
    assert (round(shared["a"], 1), round(shared["b"], 1)) == (43.9, 91.8)


def test_a_full_device_leaves_nothing() -> None:
    busy = Job("a", Millis(0), 1, Millis(10 * MINUTE), gpu_util=0.9)
    assert ends("antman", [busy, B], homogeneous(1, 1))["b"] == 10 + 65.2


def test_whoever_is_over_quota_runs_opportunistically_and_is_promoted() -> None:
    spec = ClusterShape("1x2", (Node("n", 2),), quotas={"x": 1, "y": 1})
    jobs = [
        Job("x1", Millis(0), 1, Millis(10 * MINUTE), vc="x", gpu_util=0.5),
        Job("x2", Millis(0), 1, Millis(30 * MINUTE), vc="x", gpu_util=0.5),
        Job("y1", Millis(5 * MINUTE), 1, Millis(10 * MINUTE), vc="y", gpu_util=0.5),
    ]
    times = ends("antman", jobs, spec)
    assert times["y1"] == 15, "its own device, although x2 was there first"
    assert times["x1"] == 10
    # x2: 5 min alone, 5 min beside y1 at one half; x's quota is free at 10, and its device has y1 until 15
    assert 30 < times["x2"] <= 35


def test_a_reserved_device_is_kept_for_the_gang() -> None:
    jobs = [
        Job("one", Millis(0), 1, Millis(10 * MINUTE), gpu_util=1.0),
        Job("gang", Millis(1), 2, Millis(10 * MINUTE), gpu_util=1.0),
        Job("late", Millis(2), 1, Millis(60 * MINUTE), gpu_util=1.0),
    ]
    times = ends("antman:auto=false", jobs, homogeneous(1, 2))
    assert times["gang"] == 20, "the late job did not take the reserved device"


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 60), st.sampled_from([1, 2, 4]), st.integers(1, 60), st.floats(0.1, 1.0), st.booleans()
        ),
        min_size=1,
        max_size=12,
    )
)
def test_opportunistic_jobs_cost_guaranteed_ones_nothing(rows: list[tuple[int, int, int, float, bool]]) -> None:
    """With quotas and auto=false, guaranteed jobs end as they would without opportunistic ones."""
    jobs = [
        Job(
            str(i),
            Millis(at * MINUTE),
            gpus,
            Millis(work * MINUTE),
            vc="x",
            gpu_util=util,
            share=Share.OPPORTUNISTIC if low else Share.GUARANTEED,
        )
        for i, (at, gpus, work, util, low) in enumerate(rows)
    ]
    spec = ClusterShape("2x4", (Node("n1", 4), Node("n2", 4)), quotas={"x": 6})
    together = ends("antman:auto=false", jobs, spec)
    alone = ends("antman:auto=false", [job for job in jobs if job.share is Share.GUARANTEED], spec)
    assert {name: together[name] for name in alone} == alone


def test_the_busiest_lead_says_what_is_left_and_followers_share_it() -> None:
    """On two devices beside leads of 0.2 and 0.6: 0.4 is left, two followers get 0.2 each."""
    jobs = [
        Job("a", Millis(0), 1, Millis(1000 * MINUTE), gpu_util=0.2),
        Job("b", Millis(0), 1, Millis(1000 * MINUTE), gpu_util=0.6),
        Job("x", Millis(0), 2, Millis(10 * MINUTE), gpu_util=0.1, share=Share.OPPORTUNISTIC),
        Job("y", Millis(0), 2, Millis(10 * MINUTE), gpu_util=0.1, share=Share.OPPORTUNISTIC),
    ]
    times = ends("antman", jobs, homogeneous(1, 2))
    assert (times["x"], times["y"]) == (50, 50)
    assert (times["a"], times["b"]) == (1000, 1000)


def test_an_opportunistic_job_goes_where_there_is_least_to_do_and_nowhere_if_all_is_busy() -> None:
    lead = [Job(name, Millis(0), 1, Millis(100 * MINUTE), gpu_util=util) for name, util in (("a", 0.6), ("b", 0.2))]
    guest = Job("x", Millis(1), 1, Millis(8 * MINUTE), gpu_util=0.1, share=Share.OPPORTUNISTIC)
    assert ends("antman", [*lead, guest], homogeneous(1, 2))["x"] * MINUTE == 1 + 10 * MINUTE, "0.8 of b's device"
    assert ends("antman:busy=0.2", [*lead, guest], homogeneous(1, 2))["x"] > 100, "below `busy`, not at it"


def test_a_guarantee_of_no_more_than_its_share_is_kept_for_each_tenant() -> None:
    spec = ClusterShape("1x4", (Node("n", 4),), quotas={"x": 1, "y": 2})
    jobs = [
        Job(f"{vc}{i}", Millis(i), 1, Millis(10 * MINUTE), vc=vc, gpu_util=1.0) for i in range(3) for vc in ("x", "y")
    ]
    result = simulate(jobs, spec, "antman:auto=false", log=True)
    begun = sorted((entry.time, entry.job) for entry in result.log if entry.what in ("start", "colocate"))
    assert [name for _, name in begun[:3]] == ["x0", "y0", "y1"], (
        "x1 and y2 are over quota, although one device is idle"
    )
    assert begun[3][0] == 10 * MINUTE


def test_within_a_tenant_nobody_overtakes_a_job_that_waits_for_its_guarantee() -> None:
    spec = ClusterShape("1x4", (Node("n", 4),), quotas={"x": 3})
    jobs = [
        Job("a", Millis(0), 2, Millis(10 * MINUTE), vc="x", gpu_util=1.0),
        Job("big", Millis(1), 3, Millis(10 * MINUTE), vc="x", gpu_util=1.0),
        Job("small", Millis(2), 1, Millis(10 * MINUTE), vc="x", gpu_util=1.0),
    ]
    assert ends("antman:auto=false", jobs, spec) == {"a": 10, "big": 20, "small": 30}


def test_a_guaranteed_gang_is_put_together() -> None:
    spec = ClusterShape("2x4", (Node("n1", 4), Node("n2", 4)))
    jobs = [Job("one", Millis(0), 1, Millis(99 * MINUTE)), Job("gang", Millis(1), 4, Millis(MINUTE))]
    result = simulate(jobs, spec, "antman", log=True)
    assert next(entry.devices for entry in result.log if entry.job == "gang" and entry.devices) == (4, 5, 6, 7)


def test_a_guaranteed_job_takes_the_machine_that_it_fills() -> None:
    jobs = [Job("a", Millis(0), 2, Millis(99 * MINUTE)), Job("b", Millis(1), 2, Millis(MINUTE))]
    result = simulate(jobs, ClusterShape("2x4", (Node("n1", 4), Node("n2", 4))), "antman", log=True)
    assert [entry.devices for entry in result.log if entry.devices][:2] == [(0, 1), (2, 3)]


def test_a_reservation_holds_against_other_tenants() -> None:
    jobs = [
        Job("one", Millis(0), 1, Millis(10 * MINUTE), vc="x", gpu_util=1.0),
        Job("gang", Millis(1), 2, Millis(10 * MINUTE), vc="y", gpu_util=1.0),
        Job("late", Millis(2), 1, Millis(60 * MINUTE), vc="z", gpu_util=1.0),
    ]
    assert ends("antman:auto=false", jobs, homogeneous(1, 2)) == {"one": 10, "gang": 20, "late": 80}


def test_stages_interleave_where_the_trace_tells_them() -> None:
    """By hand: the leader computes 6 of 10 ms and reads for 4; the other needs the device for 2 and 8 ms."""
    leader = (10.0, 4.0, 6.0, 0.0)
    assert interleaved((2.0, 0.0, 2.0, 0.0), leader) == 1.0
    assert interleaved((8.0, 0.0, 8.0, 0.0), leader) == pytest.approx(8 / 20)  # 4 ms of each step of the leader
    assert interleaved((6.0, 6.0, 0.0, 0.0), leader) == pytest.approx(
        6 / 10
    )  # waits for 4, then 6 ms while it computes
    assert interleaved((3.0, 3.0, 0.0, 0.0), leader) == pytest.approx(3 / 7)  # waits for 4, then reads
    assert interleaved((5.0, 0.0, 5.0, 0.0), (10.0, 0.0, 10.0, 0.0)) == 0.0


@given(own=st.tuples(*[st.floats(0, 50)] * 3), leader=st.tuples(*[st.floats(0.1, 50)] * 3), more=st.floats(1, 3))
def test_a_longer_stage_never_makes_it_faster(
    own: tuple[float, float, float], leader: tuple[float, float, float], more: float
) -> None:
    step, other = sum(own), (sum(leader), *leader)
    before = interleaved((step, *own), other)
    for place in range(3):
        longer = [time * more if index == place else time for index, time in enumerate(own)]
        assert interleaved((step, *longer), other) <= before + 1e-9


def test_followers_bounds_who_shares_a_device() -> None:
    guaranteed = Job("a", Millis(0), 1, Millis(60 * MINUTE), gpu_util=0.1)
    low = [Job(name, Millis(1), 1, Millis(9 * MINUTE), gpu_util=0.1, share=Share.OPPORTUNISTIC) for name in ("b", "c")]
    many = ends("antman", [guaranteed, *low], homogeneous(1, 1))
    end = ends("antman:followers=1", [guaranteed, *low], homogeneous(1, 1))
    assert (round(many["b"]), round(many["c"])) == (20, 20)
    assert (round(end["b"]), round(end["c"])) == (10, 20)
