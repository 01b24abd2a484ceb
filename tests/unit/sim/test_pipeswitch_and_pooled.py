"""The claims of the two papers, on small cases: gaps are filled, and remote devices beat stranded ones."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import homogeneous
from paictl.sim.job import Deadline, DeadlineKind, Job
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis

SECOND = 1000


def serving(policy: str) -> RunResult:
    """One device, a request of 100 ms each second with a deadline of 250 ms, and training that outlasts them."""
    requests = [
        Job(
            f"r{n}",
            Millis(n * SECOND),
            1,
            Millis(100),
            urge=DeadlineKind.STRICT,
            deadlines=(Deadline(Millis(n * SECOND + 250)),),
        )
        for n in range(60)
    ]
    return simulate([*requests, Job("train", Millis(0), 1, Millis(50 * SECOND))], homogeneous(1, 1), policy)


def late(result: RunResult) -> int:
    return sum(
        outcome.end is None or outcome.end > outcome.deadlines[0].time
        for outcome in result.outcomes
        if outcome.deadlines
    )


def test_training_fills_the_gaps_and_no_request_is_late() -> None:
    result = serving("pipeswitch")
    train = next(outcome for outcome in result.outcomes if outcome.id == "train")
    assert late(result) == 0
    assert train.end is not None
    assert train.end < 62 * SECOND, "56 s of work in 60 s, a change costs 30 ms"
    busy = sum(interval.used for interval in result.intervals) / sum(
        interval.end - interval.start for interval in result.intervals
    )
    assert busy > 0.95


def test_the_same_with_stop_and_start_is_late() -> None:
    assert late(serving("pipeswitch:resume=6,profile=6")) > 50


def fragments(policy: str, spread: int = 6) -> RunResult:
    """Three machines of 4 with a long job of 3 each, then jobs of 2."""
    long = [Job(f"l{n}", Millis(0), 3, Millis(1000 * SECOND)) for n in range(3)]
    small = [Job(f"s{n}", Millis(1 + n), 2, Millis(100 * SECOND)) for n in range(spread)]
    return simulate([*long, *small], homogeneous(3, 4), policy)


def mean(result: RunResult) -> float:
    spans = [outcome.jct for outcome in result.outcomes if outcome.jct is not None]
    assert len(spans) == len(result.outcomes)
    return sum(spans) / len(spans)


def test_remote_devices_are_better_than_stranded_ones() -> None:
    local, remote = fragments("pooled:remote=false"), fragments("pooled")
    assert local.counters["stranded"] > 2000
    assert remote.counters["stranded"] == 0
    assert mean(remote) < mean(local)
    assert remote.counters["remote_starts"] == 6


def test_a_remote_job_is_slower_by_the_slowdown() -> None:
    ends = {outcome.id: outcome.jct for outcome in fragments("pooled:slowdown=1.04", 1).outcomes}
    assert ends["s0"] == pytest.approx(104 * SECOND, abs=2)


def test_many_remote_jobs_share_the_network() -> None:
    def slowest(policy: str) -> int:
        long = [Job(f"l{n}", Millis(0), 3, Millis(1000 * SECOND)) for n in range(8)]
        small = [Job(f"s{n}", Millis(1), 2, Millis(100 * SECOND)) for n in range(4)]
        return max(outcome.jct or 0 for outcome in simulate([*long, *small], homogeneous(8, 4), policy).outcomes[8:])

    assert slowest("pooled:slowdown=1.2") == pytest.approx(120 * SECOND, abs=2)
    assert slowest("pooled:slowdown=1.2,links=1") == pytest.approx(180 * SECOND, abs=2), (
        "four remote devices on one link"
    )


def test_whole_machines_are_not_remote() -> None:
    job = [Job("big", Millis(0), 8, Millis(100 * SECOND))]
    assert simulate(job, homogeneous(2, 4), "pooled").outcomes[0].jct == 100 * SECOND


def test_each_change_costs_thirty_milliseconds() -> None:
    """Each second, 130 ms go to inference and 30 ms to the switch back: 59 times 840 ms of training, then 440 ms."""
    train = next(outcome for outcome in serving("pipeswitch").outcomes if outcome.id == "train")
    assert train.end == 59 * SECOND + 130 + 30 + 440


def test_the_more_urgent_request_goes_first() -> None:
    jobs = [
        Job(name, Millis(0), 1, Millis(100), urge=DeadlineKind.STRICT, deadlines=(Deadline(Millis(due)),))
        for name, due in (("a", 1000), ("b", 300))
    ]
    ends = {outcome.id: outcome.end for outcome in simulate(jobs, homogeneous(1, 1), "pipeswitch").outcomes}
    assert ends == {"b": 130, "a": 260}


def test_a_remote_job_feels_others_come_and_go() -> None:
    """Each runs alone for a while (1.2 times as long) and beside the other on the one link (1.4 times)."""
    long = [Job(f"l{n}", Millis(0), 3, Millis(1000 * SECOND)) for n in range(8)]
    small = [Job(f"s{n}", Millis(1 + 50 * SECOND * n), 2, Millis(100 * SECOND)) for n in range(2)]
    result = simulate([*long, *small], homogeneous(8, 4), "pooled:slowdown=1.2,links=1")
    assert [outcome.jct for outcome in result.outcomes[8:]] == pytest.approx([131_667, 131_667], abs=5)


def test_remote_devices_come_from_as_few_machines_as_can_be() -> None:
    """Free are 1, 1 and 2: two and one of them is one remote device on one link, not two."""
    long = [Job(f"l{n}", Millis(0), gpus, Millis(1000 * SECOND)) for n, gpus in enumerate((3, 3, 2))]
    result = simulate(
        [*long, Job("s", Millis(1), 3, Millis(100 * SECOND))], homogeneous(3, 4), "pooled:slowdown=1.2,links=1"
    )
    assert result.outcomes[3].jct == pytest.approx(120 * SECOND, abs=2)


def test_the_tightest_machine_is_taken() -> None:
    jobs = [Job(name, Millis(0), gpus, Millis(SECOND)) for name, gpus in (("a", 3), ("b", 2), ("c", 1))]
    log = simulate(jobs, homogeneous(3, 4), "pooled", log=True).log
    assert {entry.job: entry.devices for entry in log if entry.what == "start"}["c"] == (3,)
