"""Defragmentation in simulated time: scattered gangs move so that a larger waiting gang can start."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.scheduler.defrag import find_room
from paictl.scheduler.invariants import validate
from paictl.sim.cluster import ClusterShape, homogeneous
from paictl.sim.engine import Simulation
from paictl.sim.failures import FailureModel
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job, Share
from paictl.sim.policies import simulated_defragmentation
from paictl.sim.policies.hived import Hived
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.run import Ending, RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis

MINUTE = 60_000


def job(name: str, gpus: int, at: int, minutes: int, share: Share = Share.GUARANTEED) -> Job:
    return Job(name, Millis(at * MINUTE), gpus, Millis(minutes * MINUTE), vc="a", user="ann", share=share)


def scattered(share: Share) -> list[Job]:
    """From minute 10 on, half of three of the four nodes is free, and a gang of a whole node arrives."""
    small = [job(f"small{number}", 2, 0, 10 if number in (1, 3, 5) else 600, share) for number in range(8)]
    return [*small, job("large", 4, 20, 100, share)]


def shape() -> ClusterShape:
    return replace(homogeneous(4, 4), quotas={"a": 16})


def events(result: RunResult, kind: str) -> list[tuple[float, str]]:
    return [(entry.time / MINUTE, entry.job) for entry in result.log if entry.what == kind]


@pytest.mark.parametrize("share", list(Share))
def test_a_gang_moves_so_that_a_larger_one_starts(share: Share) -> None:
    without = simulate(scattered(share), shape(), "hived", log=True)
    assert (600, "large") in events(without, "start")
    assert "moved" not in without.counters
    result = simulate(scattered(share), shape(), "hived:defragment=1h,checkpoint=50m", log=True, check=Invariants())
    ((at, mover),) = events(result, "migrate")
    assert events(result, "start")[-1] == (at, "large")
    assert at == 60
    moved = next(outcome for outcome in result.outcomes if outcome.id == mover)
    assert moved.lost == 10 * MINUTE, "since its checkpoint"
    assert moved.end == (600 + 10 + 5) * MINUTE, "it does that again, after five minutes to start"
    counters = result.counters
    assert (counters["moved"], counters["moved_for"], counters["migrations"]) == (1, 1, 1)
    assert counters["moved_hours"] == round(2 * 10 / 60, 6)
    assert counters["moved_idle_hours"] == round(2 * 5 / 60, 6)


def test_nobody_moves_before_the_wait_has_come_to_the_price() -> None:
    """The move costs 2 devices x (300 s + work lost); the gang has waited with 4 devices since minute 20."""
    ats = {}
    for options in ("", ",checkpoint=10m", ",on-sigterm=1"):
        result = simulate(scattered(Share.OPPORTUNISTIC), shape(), f"hived:defragment=1m{options}", log=True)
        ((ats[options], _),) = events(result, "migrate")
    assert ats == {"": 45, ",checkpoint=10m": 25, ",on-sigterm=1": 23}


def test_a_move_loses_only_what_was_done_since_the_last_checkpoint() -> None:
    options = "hived:defragment=17m,checkpoint=10m,migrate=1m"
    result = simulate(scattered(Share.OPPORTUNISTIC), shape(), options, log=True)
    ((at, mover),) = events(result, "migrate")
    moved = next(outcome for outcome in result.outcomes if outcome.id == mover)
    assert (at, moved.lost, moved.end) == (34, 4 * MINUTE, (600 + 4 + 1) * MINUTE)


@pytest.mark.parametrize("given", ["1ms", "-1h", "often"])
def test_an_interval_that_cannot_be_is_refused(given: str) -> None:
    with pytest.raises(ParameterError, match="defragment"):
        simulate([job("one", 1, 0, 1)], shape(), f"hived:defragment={given}")


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("options", ["", ",order=created,backfill=easy", ",checkpoint=20s,victims=least-loss"])
@pytest.mark.parametrize("seed", range(4))
def test_whoever_moves_runs_again_and_the_books_agree(seed: int, options: str, failing: bool) -> None:
    dice = random.Random(seed)  # noqa: S311 the same jobs every time
    jobs = [
        Job(
            str(number),
            Millis(dice.randrange(600_000)),
            gpus,
            Millis(dice.randrange(1, 200_000)),
            vc=dice.choice("ab"),
            priority=dice.randrange(2),
            share=dice.choice(list(Share)),
        )
        for number in range(80)
        for gpus in [dice.choice([1, 1, 2, 2, 4, 8])]
    ]
    quotas = {"a": 16, "b": 8}
    invariants = Invariants(quotas=quotas)

    def check(engine: Simulation) -> None:
        invariants(engine)
        policy = engine.policy
        assert isinstance(policy, Hived)
        state = policy.cells.engine.state
        validate(state)
        assert {str(progress.number) for progress in engine.live.values() if progress.devices} == set(
            state.groups.by_name
        )
        for progress in engine.live.values():
            assert policy.held(engine._views[progress.number]) == progress.devices

    failures = FailureModel("drawn", node=Millis(300_000), repair=Millis(15_000), checkpoint=Millis(5_000))
    result = simulate(
        jobs,
        replace(homogeneous(6, 4), quotas=quotas),
        f"hived:defragment=10s,migrate=2s{options}",
        check=check,
        failures=failures if failing else None,
    )
    assert {outcome.ending for outcome in result.outcomes} == {Ending.PASSED}
    assert result.counters["moved"] == sum(outcome.migrations for outcome in result.outcomes)


# --- accounts


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    """Some jobs of all sizes, many of them at once, so that gangs move again before they have started."""
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, 40),
                st.sampled_from([1, 1, 1, 2, 2, 3, 4, 4, 8]),
                st.integers(1, 60),
                st.sampled_from("ab"),
                st.booleans(),
                st.integers(0, 2),
            ),
            min_size=8,
            max_size=16,
        )
    )
    return [
        Job(
            str(number),
            Millis(at * 1000),
            gpus,
            Millis(1000 * work),
            vc=vc,
            priority=priority,
            share=Share.OPPORTUNISTIC if spare else Share.GUARANTEED,
        )
        for number, (at, gpus, work, vc, spare, priority) in enumerate(rows)
    ]


OPTIONS = (
    "defragment=1s,migrate=5s",
    "defragment=3s,migrate=2s,checkpoint=4s",
    "defragment=1s,migrate=9s,on-sigterm=1",
    "defragment=2s,migrate=7s,checkpoint=1m,order=created,backfill=easy",
)
MIXED = replace(homogeneous(4, 4), quotas={"a": 8, "b": 4})


def agreed(jobs: list[Job], options: str) -> RunResult:
    """A run whose device time is exactly work that counts, lost work, and restarts after moves."""
    result = simulate(jobs, MIXED, f"hived:{options}")
    lost = sum(outcome.gpus * outcome.lost for outcome in result.outcomes)
    held = sum(outcome.service for outcome in result.outcomes)
    work = sum(outcome.gpus * job.work for outcome in result.outcomes for job in jobs if outcome.id == job.id)
    assert {outcome.ending for outcome in result.outcomes} == {Ending.PASSED}
    assert result.counters["moved_hours"] == pytest.approx(lost / 3_600_000, abs=2e-6)
    assert result.counters["moved_idle_hours"] == pytest.approx((held - work - lost) / 3_600_000, abs=2e-6)
    return result


@pytest.mark.parametrize("options", OPTIONS)
@settings(max_examples=10)
@given(jobs=traces())
def test_what_moves_are_said_to_cost_is_what_is_lost(options: str, jobs: list[Job]) -> None:
    agreed(jobs, options)


def drawn(seed: int) -> list[Job]:
    """Eighteen jobs of all sizes within 40 s."""
    dice = random.Random(seed)  # noqa: S311 the same jobs every time
    return [
        Job(
            str(number),
            Millis(1000 * dice.randrange(41)),
            dice.choice([1, 1, 1, 2, 2, 3, 4, 4, 8]),
            Millis(1000 * dice.randrange(1, 61)),
            vc=dice.choice("ab"),
            priority=dice.randrange(3),
            share=dice.choice(list(Share)),
        )
        for number in range(18)
    ]


def test_a_gang_that_moves_again_before_it_has_started_loses_no_work_twice() -> None:
    """Until it has restarted it has no work to lose, and the rest of its restart does not count for the first move."""
    result = agreed(drawn(6), "defragment=1s,migrate=5s")
    assert max(outcome.migrations for outcome in result.outcomes) == 2


@settings(max_examples=10)
@given(jobs=traces(), factor=st.sampled_from([2, 3, 10]))
def test_time_has_no_unit(jobs: list[Job], factor: int) -> None:
    """If all times are `factor` times as long, so are all waits, and the same gangs move."""
    jobs = [replace(job, priority=0) for job in jobs]  # other priorities round the weight of a move
    slow = [replace(job, submit=Millis(factor * job.submit), work=Millis(factor * job.work)) for job in jobs]
    base = simulate(jobs, MIXED, "hived:defragment=2s,migrate=3s,checkpoint=8s")
    other = simulate(slow, MIXED, f"hived:defragment={2 * factor}s,migrate={3 * factor}s,checkpoint={8 * factor}s")
    assert [(row.id, factor * (row.end or 0), row.migrations, factor * row.lost) for row in base.outcomes] == [
        (row.id, row.end, row.migrations, row.lost) for row in other.outcomes
    ]


@settings(max_examples=10)
@given(jobs=traces(), shuffled=st.randoms(use_true_random=False))
def test_neither_names_nor_the_order_of_rows_matter(jobs: list[Job], shuffled: random.Random) -> None:
    """Unless two jobs arrive at the same instant, when the order of rows decides."""
    apart = [replace(job, submit=Millis(job.submit + 10 * number)) for number, job in enumerate(jobs)]
    names = [f"job-{number}" for number in range(len(jobs))]
    shuffled.shuffle(names)
    named = dict(zip([job.id for job in apart], names, strict=True))
    others = [replace(job, id=named[job.id], user="eve", vc=f"vc-{job.vc}") for job in apart]
    shuffled.shuffle(others)
    options = "hived:defragment=2s,migrate=3s,checkpoint=8s"
    original = simulate(apart, MIXED, options)
    other = simulate(
        others, replace(MIXED, quotas={f"vc-{vc}": number for vc, number in MIXED.quotas.items()}), options
    )
    assert {named[row.id]: (row.first_start, row.end, row.migrations, row.lost) for row in original.outcomes} == {
        row.id: (row.first_start, row.end, row.migrations, row.lost) for row in other.outcomes
    }
    assert {key: value for key, value in original.counters.items() if key.startswith("moved")} == {
        key: value for key, value in other.counters.items() if key.startswith("moved")
    }


def test_a_search_that_found_nothing_is_not_repeated_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three gangs of three devices have nowhere to go on four nodes, for ten hours."""
    searches = 0

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal searches
        searches += 1
        return find_room(*args, **named)

    monkeypatch.setattr(simulated_defragmentation, "find_room", counted)
    jobs = [job(f"wide{number}", 3, 0, 600) for number in range(4)]
    result = simulate([*jobs, job("large", 4, 20, 100)], shape(), "hived:defragment=1m,on-sigterm=1")
    assert result.counters["moved"] == 0
    assert searches == 1
