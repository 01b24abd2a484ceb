"""Tiresias: figure 7 of its paper, table D1 of policies.md."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import homogeneous
from paictl.sim.job import Job
from paictl.sim.simulate import simulate
from paictl.units import Millis
from tests.sim_reference.support import measure, trace

SEVEN = [
    Job(name, Millis(0), gpus, Millis(1000 * time)) for name, gpus, time in (("1", 2, 2), ("2", 1, 8), ("3", 2, 6))
]
UNITS = "/".join(map(str, range(1, 13)))


@pytest.mark.parametrize(
    ("policy", "mean"),
    [("srsf", 28 / 3), (f"las:quantum=1,queues={UNITS}", 35 / 3)],
    ids=["SRSF", "2D-LAS in units of time"],
)
def test_figure_7(policy: str, mean: float) -> None:
    result = simulate(SEVEN, homogeneous(1, 2), policy)
    assert sum(outcome.jct or 0 for outcome in result.outcomes) / 3000 == pytest.approx(mean)


@pytest.mark.parametrize(
    ("policy", "mean", "preemptions"), [("las:queues=3200", 3307.06, 417), ("las:queues=3250/7200", 2931.61, None)]
)
def test_2d_las_is_that_of_the_reference(policy: str, mean: float, preemptions: int | None) -> None:
    """The page asks for 5 %; by first start, ours is the oracle's to the cent."""
    got = measure(trace("derived", "tiresias_like_480_job.csv", "tiresias"), homogeneous(15, 4), policy)
    assert got.mean_jct == pytest.approx(mean, abs=0.005)
    assert preemptions in (None, got.preemptions)


@pytest.mark.parametrize("queues", ["3200", "3250/7200"])
def test_gittins_is_not_worse_than_las(queues: str) -> None:
    jobs, cluster = trace("derived", "tiresias_like_480_job.csv", "tiresias"), homogeneous(15, 4)
    las, gittins = (measure(jobs, cluster, f"{name}:queues={queues}").mean_jct or 0 for name in ("las", "gittins"))
    assert gittins <= las * 1.02


@pytest.mark.parametrize(
    ("policy", "mean"), [("las:dimension=1,queues=3250/7200", 3907.62), ("las:dimension=1", 3840.01)]
)
def test_las_without_devices_is_close_to_the_published_simulator(policy: str, mean: float) -> None:
    got = measure(trace("derived", "tiresias_like_480_job.csv", "tiresias"), homogeneous(15, 4), policy)
    assert got.mean_jct == pytest.approx(mean, rel=0.05)


@pytest.mark.parametrize(("knob", "mean"), [(2, 3087.26), (8, 2929.76)])
def test_promotion_with_two_queues_is_close_to_the_published_simulator(knob: int, mean: float) -> None:
    got = measure(trace("derived", "tiresias_like_480_job.csv", "tiresias"), homogeneous(15, 4), f"las:knob={knob}")
    assert got.mean_jct == pytest.approx(mean, rel=0.05)


def test_promotion_with_three_queues_is_close_to_the_published_simulator() -> None:
    """Knob 8; 1 and 2 are 13 and 12 % worse than published: docs/simulator.md says what we know of it."""
    jobs = trace("derived", "tiresias_like_480_job.csv", "tiresias")
    assert measure(jobs, homogeneous(15, 4), "las:queues=3250/7200,knob=8").mean_jct == pytest.approx(2897.45, rel=0.05)


def longest_stop(policy: str) -> int:
    """The longest time between a preemption and the next start of the same job."""
    jobs = trace("derived", "tiresias_like_480_job.csv", "tiresias")
    stopped: dict[str, int] = {}
    longest = 0
    for entry in simulate(jobs.jobs, homogeneous(15, 4), policy, log=True).log:
        if entry.what == "preempt":
            stopped[entry.job] = entry.time
        elif entry.what == "start" and entry.job in stopped:
            longest = max(longest, entry.time - stopped.pop(entry.job))
    return longest


def test_promotion_ends_starvation() -> None:
    """The longest stop of a job is a fifth of that without promotion, and grows with the knob."""
    never, one, two, eight = map(longest_stop, ("las", "las:knob=1", "las:knob=2", "las:knob=8"))
    assert one < two < eight < never / 2


@pytest.mark.parametrize("policy", ["las", "las:knob=1", "las:queues=3250/7200", "las:queues=3250/7200,knob=8"])
def test_sixty_jobs_with_any_knob(policy: str) -> None:
    got = measure(trace("tiresias", "60_job.csv", "tiresias"), homogeneous(4, 4), policy)
    assert (round(got.mean_jct or 0, 2), got.makespan) == (190.68, 3271)


def test_gittins_on_sixty_jobs_ends_with_the_published_simulator() -> None:
    """Its mean, 219.05, comes from another distribution, looked up in steps: with both ours is the same (D1)."""
    got = measure(trace("tiresias", "60_job.csv", "tiresias"), homogeneous(4, 4), "gittins:queues=3250/7200,last=index")
    assert got.makespan == 3271
    assert got.mean_jct == pytest.approx(219.05, rel=0.05)


@pytest.mark.parametrize(("queues", "mean", "makespan"), [("3200", 2888.41, 37606), ("3250/7200", 2832.63, 36910)])
def test_gittins_by_index_in_all_queues_is_the_published_simulator(queues: str, mean: float, makespan: float) -> None:
    """With the last queue in the order of first starts, as in the text, two queues come out 15 % higher."""
    jobs = trace("derived", "tiresias_like_480_job.csv", "tiresias")
    got = measure(jobs, homogeneous(15, 4), f"gittins:queues={queues},last=index")
    assert got.mean_jct == pytest.approx(mean, rel=0.03)
    assert got.makespan == pytest.approx(makespan, rel=0.05)


def test_gittins_with_three_queues_is_close_to_the_published_simulator() -> None:
    jobs = trace("derived", "tiresias_like_480_job.csv", "tiresias")
    assert measure(jobs, homogeneous(15, 4), "gittins:queues=3250/7200").mean_jct == pytest.approx(2832.63, rel=0.05)


def test_the_order_of_the_paper() -> None:
    """YARN-CS is several times worse than LAS without knowledge, and that is near SRTF with it."""
    jobs, cluster = trace("derived", "tiresias_like_480_job.csv", "tiresias"), homogeneous(15, 4)
    yarn, best, las = (
        measure(jobs, cluster, policy).mean_jct or 0
        for policy in ("fifo:placement=consolidate", "backfill:placement=consolidate", "las:queues=3250/7200")
    )
    assert yarn / las > 3.5
    assert las < best < yarn
