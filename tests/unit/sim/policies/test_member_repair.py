"""Repair in place, in simulated time: a lost member is replaced, the others keep their devices."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from paictl.scheduler.invariants import validate
from paictl.sim.cluster import ClusterShape, homogeneous
from paictl.sim.engine import Simulation
from paictl.sim.failures import FailureModel, LoggedOutage
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job, Share
from paictl.sim.policies.hived import Hived
from paictl.sim.report import jobs_csv
from paictl.sim.run import Ending, RunResult
from paictl.sim.simulate import PausedError, simulate
from paictl.units import Millis
from paictl.workload.job import Restart

MINUTE = 60_000


def shape(sharing: str | None = None) -> ClusterShape:
    """Six nodes of two devices: four are promised to a, one to b, one to nobody."""
    return replace(homogeneous(6, 2), quotas={"a": 8, "b": 2}, sharing=sharing)


def gang(name: str = "gang", gpus: int = 6, restart: Restart = Restart.MEMBER, at: int = 0, vc: str = "a") -> Job:
    return Job(
        name, Millis(at * MINUTE), gpus, Millis(100 * MINUTE), vc=vc, pod=min(2, gpus), restart=restart, user="ann"
    )


def failing(*rows: tuple[str, int, int]) -> FailureModel:
    """Nodes that fail from one minute to another; jobs save their work every ten minutes."""
    log = tuple(LoggedOutage(0, node, None, Millis(start * MINUTE), Millis(end * MINUTE)) for node, start, end in rows)
    return FailureModel("log", log=log, checkpoint=Millis(10 * MINUTE))


def placed(result: RunResult) -> list[tuple[float, str, tuple[int, ...]]]:
    """Minutes, jobs and devices of all starts."""
    return [(entry.time / MINUTE, entry.job, entry.devices) for entry in result.log if entry.what == "start"]


def test_the_others_keep_their_devices_and_lose_the_work_since_the_checkpoint() -> None:
    result = simulate([gang()], shape(), "hived", log=True, failures=failing(("gpu-2", 35, 500)))
    assert placed(result) == [(0, "gang", (0, 1, 2, 3, 4, 5)), (35, "gang", (0, 1, 4, 5, 6, 7))]
    (done,) = result.outcomes
    assert (done.end, done.interruptions, done.wasted) == (105 * MINUTE, 1, 6 * 5 * MINUTE)
    assert done.notes == {"repairs": 1, "repair_wait": 0}


def test_without_room_the_gang_stands_still_and_nobody_takes_its_devices() -> None:
    jobs = [gang(), gang("fill", 2, at=1), gang("next", 6, at=2)]
    failures = failing(("gpu-2", 35, 60), ("gpu-5", 0, 500), ("gpu-6", 0, 500))
    result = simulate(jobs, shape(), "hived", log=True, failures=failures)
    assert placed(result)[2:] == [(60, "gang", (0, 1, 2, 3, 4, 5)), (130, "next", (0, 1, 2, 3, 4, 5))]
    assert result.outcomes[0].notes == {"repairs": 1, "repair_wait": 25 * 60}
    assert (result.counters["repaired"], result.counters["repair_wait"]) == (1, 1500)
    assert result.counters["repair_idle_hours"] == 2.5
    other = simulate(jobs, shape(), "hived:repair=gang", log=True, failures=failures)
    assert "repaired" not in other.counters


@pytest.mark.parametrize("policy", ["hived", "hived:order=created"])
def test_an_opportunistic_job_makes_way_for_a_member(policy: str) -> None:
    lent = [replace(gang(f"lent{number}", 2, Restart.GANG, 1, "b"), share=Share.OPPORTUNISTIC) for number in range(3)]
    result = simulate([gang(), *lent], shape(), policy, log=True, failures=failing(("gpu-2", 35, 500)))
    at, name, devices = placed(result)[4]
    assert (at, name, len(devices)) == (35, "gang", 6)
    assert sum(outcome.preemptions for outcome in result.outcomes) == 1


def test_a_gang_of_which_nothing_is_left_starts_again_as_a_whole() -> None:
    others = [(f"gpu-{number}", 1, 900) for number in (3, 4, 5, 6)]
    result = simulate(
        [gang(gpus=4)], shape(), "hived", log=True, failures=failing(*others, ("gpu-1", 10, 50), ("gpu-2", 20, 60))
    )
    assert placed(result) == [(0, "gang", (0, 1, 2, 3)), (60, "gang", (0, 1, 2, 3))]
    (done,) = result.outcomes
    assert (done.ending, done.notes) == (Ending.PASSED, {})
    assert (result.counters["repaired"], result.counters["repair_wait"]) == (0, 0)
    assert result.counters["repair_idle_hours"] == round(4 * 10 / 60, 6), "it stood still from 10 to 20"


@pytest.mark.parametrize("restart", list(Restart))
def test_what_a_gang_used_before_a_failure_counts_when_tenants_take_turns(restart: Restart) -> None:
    tenants = replace(homogeneous(4, 2), quotas={"a": 2})
    jobs = [
        gang("much", 4, restart, 0, "x"),
        replace(gang("little", 2, restart, 0, "y"), work=Millis(130 * MINUTE)),
        gang("first", 6, restart, 50, "x"),
        gang("second", 6, restart, 60, "y"),
    ]
    policy = "hived:opportunistic-order=decayed-use"
    result = simulate(jobs, tenants, policy, log=True, failures=failing(("gpu-1", 99, 600)))
    assert [job for _, job, _ in placed(result)][-2:] == ["second", "first"]


def test_a_repair_does_not_move_the_planned_end(tmp_path: Path) -> None:
    path = tmp_path / "reservations.yaml"
    path.write_text("- {vc: b, cells: 1xgpu-NODE-2, from: 20h, for: 1h}\n", encoding="utf-8")
    ends: set[Millis | None] = set()

    def check(engine: Simulation) -> None:
        assert isinstance(engine.policy, Hived)
        ends.update(map(engine.policy._end_of, engine.policy.cells.engine.state.groups.by_name))

    job = replace(gang(), limit=Millis(120 * MINUTE))
    failures = failing(("gpu-2", 35, 900))
    simulate([job], shape(), f"hived:reservations={path}", check=check, failures=failures)
    assert ends == {120 * MINUTE}, "as on a cluster, where the limit counts from the start of the job"


def test_spare_devices_are_for_repairs() -> None:
    spares = '{"spares": [{"vc": "a", "devices": 2}]}'
    jobs = [gang(), gang("late", 2, at=1)]
    failures = failing(("gpu-2", 35, 500), ("gpu-5", 0, 900), ("gpu-6", 0, 900))
    waits = {
        section: simulate(jobs, shape(sharing=section), "hived", failures=failures).outcomes[0].notes["repair_wait"]
        for section in ("{}", spares)
    }
    assert waits == {"{}": 66 * 60, spares: 0}, "without spares it waits for the end of the other job"


def test_a_run_with_a_gang_that_is_not_whole_can_be_paused() -> None:
    failures = failing(("gpu-2", 35, 60), ("gpu-5", 0, 500), ("gpu-6", 0, 500), ("gpu-4", 0, 500))
    instants = count()
    with pytest.raises(PausedError) as paused:
        simulate([gang()], shape(), "hived", failures=failures, stop=lambda: next(instants) == 1)
    course = pickle.loads(paused.value.snapshot)  # noqa: S301 - our own
    assert course.policy.counted().get("repaired") is None, "it waits for its member"
    resumed = simulate([gang()], shape(), "hived", failures=failures, snapshot=paused.value.snapshot)
    whole = simulate([gang()], shape(), "hived", failures=failures)
    assert resumed.outcomes == whole.outcomes
    assert resumed.counters == whole.counters


def test_the_table_of_jobs_says_how_often_and_how_long() -> None:
    result = simulate([gang(), gang("alone", 2)], shape(), "hived", failures=failing(("gpu-2", 35, 500)))
    head, first, second = (line.split(",") for line in jobs_csv([result]).splitlines())
    assert head[-3:] == ["interruptions", "repair_wait", "repairs"]
    assert [first[-3:], second[-3:]] == [["1", "0", "1"], ["0", "", ""]]


@pytest.mark.parametrize("options", ["", ":order=created,backfill=easy", ":victims=least-loss,min-run-time=30s"])
@pytest.mark.parametrize("seed", range(5))
def test_whatever_fails_the_books_agree(seed: int, options: str) -> None:
    dice = random.Random(seed)  # noqa: S311 the same jobs every time
    jobs = [
        Job(
            str(number),
            Millis(dice.randrange(300_000)),
            gpus,
            Millis(dice.randrange(1, 60_000)),
            dice.choice("xyz"),
            dice.choice("ab"),
            pod=dice.choice([1, min(2, gpus)]),
            priority=dice.randrange(2),
            share=dice.choice([Share.GUARANTEED, Share.GUARANTEED, Share.OPPORTUNISTIC]),
            restart=dice.choice(list(Restart)),
        )
        for number in range(100)
        for gpus in [dice.choice([1, 2, 4, 6])]
    ]
    sharing = '{"user-limits": [{"vc": "a", "devices": 6}], "spares": [{"vc": "a", "devices": 1}]}'
    invariants = Invariants()

    def check(engine: Simulation) -> None:
        invariants(engine)
        policy = engine.policy
        assert isinstance(policy, Hived)
        state = policy.cells.engine.state
        validate(state)
        running = {str(state.number) for state in engine.live.values() if state.devices}
        numbers = {str(policy.cells.number_of(name)) for name in state.groups.by_name}
        assert running <= numbers
        waiting = numbers - running
        assert all(engine.live[int(name)].job.restart is Restart.MEMBER for name in waiting)
        for progress in engine.live.values():
            if progress.devices:
                assert policy.held(engine._views[progress.number]) == progress.devices

    failures = FailureModel(
        "drawn", node=Millis(60_000), device=Millis(300_000), repair=Millis(15_000), checkpoint=Millis(5_000)
    )
    result = simulate(jobs, shape(sharing=sharing), f"hived{options}", seed=seed, check=check, failures=failures)
    assert {outcome.ending for outcome in result.outcomes} == {Ending.PASSED}
    assert result.counters["repaired"] > 3
