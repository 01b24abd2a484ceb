"""Defragmentation on simulated time: scattered gangs move so that a larger one that waits can start."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from paictl.scheduler.invariants import validate
from paictl.sim.cluster import ClusterShape, homogeneous
from paictl.sim.engine import Simulation
from paictl.sim.failures import FailureModel
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job, Share
from paictl.sim.policies.hived import Hived
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.run import Ending, RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis

MINUTE = 60_000


def job(name: str, gpus: int, at: int, minutes: int, share: Share = Share.GUARANTEED) -> Job:
    return Job(name, Millis(at * MINUTE), gpus, Millis(minutes * MINUTE), vc="a", user="ann", share=share)


def scattered(share: Share) -> list[Job]:
    """On four nodes half of three is free from minute 10 on, and a gang of a whole one comes."""
    small = [job(f"small{number}", 2, 0, 10 if number in (1, 3, 5) else 600, share) for number in range(8)]
    return [*small, job("large", 4, 20, 100, share)]


def shape() -> ClusterShape:
    return replace(homogeneous(4, 4), quotas={"a": 16})


def events(result: RunResult, what: str) -> list[tuple[float, str]]:
    return [(one.time / MINUTE, one.job) for one in result.log if one.what == what]


@pytest.mark.parametrize("share", list(Share))
def test_a_gang_moves_so_that_a_larger_one_starts(share: Share) -> None:
    without = simulate(scattered(share), shape(), "hived", log=True)
    assert (600, "large") in events(without, "start")
    assert "moved" not in without.counters
    result = simulate(scattered(share), shape(), "hived:defragment=1h,checkpoint=50m", log=True, check=Invariants())
    ((at, mover),) = events(result, "migrate")
    assert events(result, "start")[-1] == (at, "large")
    assert at == 60
    moved = next(one for one in result.outcomes if one.id == mover)
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
    moved = next(one for one in result.outcomes if one.id == mover)
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
            str(number), Millis(dice.randrange(600_000)), gpus, Millis(dice.randrange(1, 200_000)),
            vc=dice.choice("ab"), priority=dice.randrange(2), share=dice.choice(list(Share)),
        )
        for number in range(80) for gpus in [dice.choice([1, 1, 2, 2, 4, 8])]
    ]  # fmt: skip
    quotas = {"a": 16, "b": 8}
    invariants = Invariants(quotas=quotas)

    def check(engine: Simulation) -> None:
        invariants(engine)
        policy = engine.policy
        assert isinstance(policy, Hived)
        state = policy.cells.engine.state
        validate(state)
        assert {str(one.number) for one in engine.live.values() if one.devices} == set(state.groups.by_name)
        for one in engine.live.values():
            assert policy.held(engine._views[one.number]) == one.devices

    failures = FailureModel("drawn", node=Millis(300_000), repair=Millis(15_000), checkpoint=Millis(5_000))
    result = simulate(
        jobs, replace(homogeneous(6, 4), quotas=quotas), f"hived:defragment=10s,migrate=2s{options}",
        check=check, failures=failures if failing else None,
    )  # fmt: skip
    assert {one.ending for one in result.outcomes} == {Ending.PASSED}
    assert result.counters["moved"] == sum(one.migrations for one in result.outcomes)
