"""Tasks that start again whatever happens, and tasks that hardly ever end: time passes all the same, for everybody."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from paictl.cluster.embedded.jobs import Timer
from paictl.cluster.embedded.present import END
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import ClusterError, EventKind, JobRequest
from paictl.units import Millis
from tests.unit.cluster.conftest import MINUTE, Bench, MakeBench


@pytest.fixture(autouse=True)
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever never comes to an end fails."""
    happen, left = World._happen, iter(range(5_000))

    def counted(world: World, timer: Timer) -> None:
        assert next(left, None) is not None, "too much happens"
        happen(world, timer)

    monkeypatch.setattr(World, "_happen", counted)


def endless(lab: Bench, name: str = "loop", commands: str = "sleep 0", **options: Any) -> str:
    """A job whose task starts again even if it succeeds."""
    data = lab.job(name, "default", gang=False, commands=[commands], **options)
    data["taskRoles"]["train"]["taskRetryCount"] = -2
    return lab.cluster.submit([JobRequest("ann", data)])[0].key


def starts(lab: Bench, key: str) -> list[float]:
    """When its pods started, in seconds since the cluster came up."""
    events = lab.cluster.events(f"job/{key}")
    return [(event.at - lab.at(0)).total_seconds() for event in events if event.kind is EventKind.STARTED]


@pytest.mark.parametrize("commands", ["sleep 0", "sleep 0.001", "sleep 5"])
def test_a_task_that_is_done_at_once_and_starts_again_stops_nobodys_time(bench: MakeBench, commands: str) -> None:
    lab = bench()
    key = endless(lab, commands=commands)
    lab.pass_time(24 * 60 * MINUTE)
    assert lab.state(key) == "Running"
    pauses = [round(later - earlier) for earlier, later in pairwise(starts(lab, key)[1:])]
    assert pauses[:7] == [10, 20, 40, 80, 160, 320, 360]
    assert set(pauses[7:]) == {360}
    lab.cluster.stop_job(key)
    assert lab.state(key) == "Stopped"


def test_a_task_that_lasts_longer_than_the_pause_is_not_held_up(bench: MakeBench) -> None:
    lab = bench()
    key = endless(lab, commands="sleep 10m")
    lab.pass_time(61 * MINUTE)
    assert starts(lab, key) == [600.0 * number for number in range(7)]


def test_a_clock_that_runs_out_does_not_wait_for_a_task_that_always_starts_again(bench: MakeBench) -> None:
    lab = bench(clock=(0.0, True))
    key = endless(lab, commands="sleep 5m")
    other = lab.submit("other", "vc1", commands=["sleep 90m"])
    assert (lab.state(key), lab.state(other)) == ("Running", "Succeeded")
    assert lab.again().now == lab.at(90 * MINUTE)


@pytest.mark.parametrize("span", ["99999999999d", "3651d", "9" * 400])
def test_what_lasts_longer_than_ten_years_never_ends(bench: MakeBench, span: str) -> None:
    lab = bench(clock=(0.0, True))
    key = lab.submit("far", commands=[f"sleep {span}"])
    other = lab.submit("other", "vc1", commands=["sleep 1m"])
    assert (lab.state(key), lab.state(other)) == ("Running", "Succeeded")
    assert lab.again().now == lab.at(MINUTE)
    assert lab.state(lab.submit("told", "vc1", duration=Millis(10**18))) == "Running"


def test_time_ends_before_calendars_do(bench: MakeBench) -> None:
    lab = bench()
    with pytest.raises(ClusterError, match="ends in the year 9000"):
        lab.pass_time(Millis(20_000_000 * 24 * 60 * MINUTE))
    assert lab.again().now == lab.at(0)
    lab.cluster.set_speed(1_000_000, run_out=False)
    lab.wall[0] += 400 * 24 * 3600
    assert lab.again().now == END
    assert lab.submit("late") in [job.key for job in lab.again().jobs()]


def test_jobs_that_follow_each_other_do_not_run_a_clock_out_of_the_calendar(bench: MakeBench) -> None:
    lab = bench(clock=(0.0, True))
    jobs = [lab.job(f"j{number}", "default", commands=["sleep 3649d"]) for number in range(1_500)]
    lab.cluster.submit([JobRequest("ann", job) for job in jobs])
    assert lab.again().now < END
    states = {job.state.value for job in lab.again().jobs()}
    assert states == {"Succeeded", "Running", "Waiting"}
