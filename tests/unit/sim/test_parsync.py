"""ParSync's claims, on 200 devices with tasks of 5 s: latency, quality, and the causes of conflicts."""

from __future__ import annotations

from functools import cache

import pytest

from paictl.sim.cluster import homogeneous, mixed
from paictl.sim.dice import Dice
from paictl.sim.job import Job
from paictl.sim.run import Ending, RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis

DEVICES, TASK = 200, 5000


def tasks(load: float, number: int = 2500) -> list[Job]:
    dice, at, jobs = Dice(1), 0, []
    gap = round(2000 * TASK / (DEVICES * load))
    for n in range(number):
        at += dice.between(0, gap)
        jobs.append(Job(str(n), Millis(at // 1000), 1, Millis(dice.between(TASK // 2, TASK * 3 // 2))))
    return jobs


@cache
def play(load: float, more: str) -> RunResult:
    return simulate(tasks(load), homogeneous(DEVICES // 8, 8), f"parsync:{more}")


def latency(result: RunResult) -> float:
    spans = [outcome.queueing for outcome in result.outcomes if outcome.queueing is not None]
    return sum(spans) / len(spans)


def test_under_load_latency_first_is_fast_and_a_synchronous_view_is_slow() -> None:
    runs = [play(0.95, f"strategy={name}") for name in ("latency", "adaptive", "statesync")]
    assert latency(runs[0]) < latency(runs[1]) < latency(runs[2])


def test_quality_is_the_other_way_round() -> None:
    runs = [play(0.95, f"strategy={name}").counters["quality"] for name in ("statesync", "adaptive", "latency")]
    assert runs[0] >= runs[1] >= runs[2] > 0.9


def test_one_scheduler_never_conflicts() -> None:
    for name in ("latency", "adaptive", "quality", "statesync"):
        assert play(0.8, f"strategy={name},schedulers=1").counters["conflicts"] == 0


def test_conflicts_grow_with_schedulers_with_staleness_and_with_variance() -> None:
    def conflicts(more: str) -> float:
        return play(0.7, more).counters["conflicts"]

    assert 0 < conflicts("strategy=adaptive,schedulers=2") < conflicts("strategy=adaptive,schedulers=16")
    assert conflicts("strategy=latency,gap=0.5") < conflicts("strategy=latency,gap=4")
    assert conflicts("strategy=quality,variance=0") < conflicts("strategy=quality,variance=0.9")


def test_every_task_runs_once_and_no_device_twice() -> None:
    result = play(0.95, "strategy=quality")
    assert [outcome.ran for outcome in result.outcomes] == [outcome.work for outcome in result.outcomes]


def test_schedulers_decide_one_after_the_other_evenly_spaced() -> None:
    """Four schedulers that need 50 ms each: one decides every 12 ms."""
    jobs = [Job(str(n), Millis(0), 1, Millis(TASK)) for n in range(4)]
    result = simulate(jobs, homogeneous(8, 8), "parsync:schedulers=4")
    starts = [outcome.first_start or 0 for outcome in result.outcomes]
    assert {start % 12 for start in starts} == {0}
    assert 36 <= max(starts) < 200


@pytest.mark.parametrize("strategy", ["latency", "quality", "adaptive", "statesync"])
def test_who_can_only_wait_for_another_to_end_is_not_decided_about_twenty_times_a_second(strategy: str) -> None:
    day = 86_400_000
    jobs = [Job("runs", Millis(0), 8, Millis(day)), Job("waits", Millis(1000), 8, Millis(1000))]
    result = simulate(jobs, homogeneous(1, 8), f"parsync:strategy={strategy},schedulers=2,gap=2,decide=0.333")
    waited = result.outcomes[1].first_start
    assert result.counters["decisions"] < 10
    assert waited is not None
    assert day < waited <= day + 4000, "as soon as its scheduler knows, and it is its turn"


def test_everybody_decides_when_the_clock_says_so_whoever_slept_before() -> None:
    """The start of the second job does not depend on how long no turn had an effect: skipped turns are counted."""
    waits = set()
    for hour in (20_000, 3_620_000):
        jobs = [Job("a", Millis(0), 4, Millis(hour)), Job("b", Millis(500), 4, Millis(5))]
        first = simulate(jobs, homogeneous(1, 4), "parsync:schedulers=4,decide=0.2").outcomes[1].first_start
        assert first is not None
        waits.add(first - hour)
    assert len(waits) == 1


def test_a_job_of_one_type_gets_that_type() -> None:
    cluster = mixed([("old", 2, 4), ("new", 1, 4)], "mixed")
    jobs = [Job(str(n), Millis(0), 2, Millis(1000), gpu_type="new") for n in range(6)]
    for strategy in ("latency", "quality", "statesync"):
        assert {outcome.ending for outcome in simulate(jobs, cluster, f"parsync:strategy={strategy}").outcomes} == {
            Ending.PASSED
        }


@pytest.mark.parametrize("strategy", ["latency", "quality", "adaptive", "statesync"])
def test_decisions_do_not_grow_with_those_who_wait(strategy: str) -> None:
    """A hundred jobs, one at a time: there is no decision between an end and the refresh that shows it."""
    jobs = [Job(str(n), Millis(0), 8, Millis(3_600_000)) for n in range(100)]
    result = simulate(jobs, homogeneous(1, 8), f"parsync:strategy={strategy}")
    assert result.counters["decisions"] < 1_000
    assert {outcome.ending for outcome in result.outcomes} == {Ending.PASSED}
