"""Gandiva: the five cases of its reactive mode, and its introspection by trial and error."""

from __future__ import annotations

import pytest

from paictl.sim.cluster import Cluster, ClusterShape, homogeneous, mixed
from paictl.sim.job import Job
from paictl.sim.knowledge import NOTHING
from paictl.sim.placement.homes import Case, Homes
from paictl.sim.run import RunResult
from paictl.sim.simulate import simulate
from paictl.sim.state import JobProgress
from paictl.sim.view import JobView, view_for
from paictl.units import Millis


def job(name: str, at: int, gpus: int, seconds: int, **more: object) -> Job:
    return Job(name, Millis(at * 1000), gpus, Millis(seconds * 1000), **more)  # type: ignore[arg-type] # any field


def view(number: int, gpus: int) -> JobView:
    return view_for(NOTHING)(JobProgress(job(str(number), 0, gpus, 1), number))


def test_the_five_cases_of_the_reactive_mode() -> None:
    homes = Homes(Cluster(homogeneous(2, 4)))
    cases, jobs = [], [view(number, gpus) for number, gpus in enumerate((2, 4, 2, 4, 2, 1, 8))]
    for job in jobs:
        case, home = homes.find(job)
        cases.append((job.gpus, case))
        if home is not None:
            homes.settle(job, home)
    assert cases == [
        (2, Case.IDLE),  # the first server becomes one for jobs of 2
        (4, Case.IDLE),
        (2, Case.AFFINE),  # there is room on the server of that size
        (4, Case.OVERSUBSCRIBED),  # in turns with the other one
        (2, Case.OVERSUBSCRIBED),
        (1, Case.QUEUED),  # no server of that size, no idle one, no room
        (8, Case.QUEUED),
    ]
    homes.leave(jobs[0])
    homes.leave(jobs[4])
    assert homes.find(view(9, 1))[0] is Case.RELAXED, "room on a server of another size"


def entries(result: RunResult, name: str) -> list[tuple[str, int]]:
    return [(entry.what, entry.time // 1000) for entry in result.log if entry.job == name]


def test_jobs_of_one_server_take_turns_of_a_minute() -> None:
    jobs = [job("a", 0, 4, 150), job("b", 0, 4, 150)]
    result = simulate(jobs, homogeneous(1, 4), "gandiva:packing=false", log=True)
    assert entries(result, "a") == [
        ("submit", 0),
        ("start", 0),
        ("preempt", 60),
        ("start", 120),
        ("preempt", 180),
        ("start", 240),
        ("passed", 270),
    ]
    assert entries(result, "b")[-1] == ("passed", 300)


def test_high_priority_is_never_suspended_for_low() -> None:
    jobs = [job("low", 0, 4, 100), job("high", 0, 4, 150, priority=1)]
    result = simulate(jobs, homogeneous(1, 4), "gandiva:packing=false", log=True)
    assert [action for action, _ in entries(result, "high")].count("preempt") == 0
    assert entries(result, "high")[-1][1] <= 60 + 150


PAIR = [job("a", 0, 1, 600, model="m", gpu_util=0.3), job("b", 0, 1, 600, model="n", gpu_util=0.4)]


def test_packing_stays_where_both_together_are_faster() -> None:
    result = simulate(PAIR, homogeneous(1, 1), "gandiva", log=True)
    assert (result.counters["packed"], result.counters["unpacked"]) == (1, 0)
    ends = [outcome.end for outcome in result.outcomes]
    assert max(end or 0 for end in ends) < 700_000, "1,200 s of work on one device"
    again = simulate(PAIR, homogeneous(1, 1), "gandiva:packing=false")
    assert max(outcome.end or 0 for outcome in again.outcomes) == 1_200_000


def test_packing_is_undone_where_the_sum_falls() -> None:
    slow = [job(member.id, 0, 1, 600, model=member.model, coloc={"m": 0.4, "n": 0.4}) for member in PAIR]
    result = simulate(slow, homogeneous(1, 1), "gandiva", log=True)
    assert (result.counters["packed"], result.counters["unpacked"]) == (1, 1), "tried once, never again"
    packed = next(entry for entry in result.log if entry.what == "colocate")
    undone = next(entry for entry in result.log if entry.what == "preempt" and entry.time > packed.time)
    assert undone.time - packed.time == 60_000
    assert undone.job == packed.job


def test_packing_needs_memory_for_both() -> None:
    big = [job(member.id, 0, 1, 300, gpu_util=0.3, gpu_mem=0.6) for member in PAIR]
    assert simulate(big, homogeneous(1, 1), "gandiva").counters["packed"] == 0


def test_defragmentation_leaves_no_server_mostly_free() -> None:
    """Six jobs of one device on two servers; four of them end early and leave one each."""
    spec: ClusterShape = homogeneous(2, 4)
    jobs = [job(f"s{number}", 0, 1, 30) for number in range(3)] + [job("l1", 0, 1, 1000)]
    jobs += [job(f"t{number}", 1, 1, 30) for number in range(3)] + [job("l2", 1, 1, 1000)]
    result = simulate(jobs, spec, "gandiva", log=True)
    cluster = Cluster(spec)
    moved = [entry for entry in result.log if entry.what == "migrate"]
    assert len(moved) == 1
    assert moved[0].time == 60_000
    where = {entry.job: cluster.node_of[entry.devices[0]] for entry in result.log if entry.what in ("start", "migrate")}
    assert where["l1"] == where["l2"]
    still = simulate(jobs, spec, "gandiva:migration=false")
    assert sum(outcome.migrations for outcome in still.outcomes) == 0


def test_a_suspended_job_moves_into_what_others_left() -> None:
    jobs = [job("a", 0, 4, 600), job("b", 0, 4, 30), job("c", 1, 4, 600)]
    result = simulate(jobs, homogeneous(2, 4), "gandiva:packing=false", log=True)
    assert result.counters["moved_while_suspended"] == 1
    assert entries(result, "c")[-1][1] <= 30 + 600 + 1


def test_elastic_jobs_grow_when_idle_and_shrink_at_once_on_arrival() -> None:
    jobs = [job("e", 0, 1, 1000, elastic=(1, 4)), job("new", 100, 2, 10)]
    result = simulate(jobs, homogeneous(1, 4), "gandiva", log=True)
    resized = [(entry.time // 1000, len(entry.devices)) for entry in result.log if entry.what == "resize"]
    assert resized[:2] == [(60, 4), (100, 1)]
    assert entries(result, "new")[1] == ("start", 100)
    assert resized[2] == (120, 4), "again when there is room"


def test_only_those_who_said_so_grow() -> None:
    result = simulate([job("e", 0, 1, 1000)], homogeneous(1, 4), "gandiva", log=True)
    assert result.outcomes[0].resizes == 0


@pytest.mark.parametrize("seconds", [1, 5])
def test_suspending_costs_what_the_preset_says(seconds: int) -> None:
    jobs = [job("a", 0, 4, 150), job("b", 0, 4, 150)]
    free = simulate(jobs, homogeneous(1, 4), "gandiva:packing=false")
    paid = simulate(jobs, homogeneous(1, 4), f"gandiva:packing=false,resume={seconds}")
    turns = sum(outcome.preemptions for outcome in paid.outcomes)
    assert (paid.outcomes[1].end or 0) - (free.outcomes[1].end or 0) == turns * seconds * 1000


TYPES = mixed([("slow", 1, 1), ("fast", 1, 1)])


def types_of(result: RunResult, name: str) -> list[str]:
    """The types that a job ran on, in turn."""
    cluster = Cluster(TYPES)
    rows = [entry for entry in result.log if entry.job == name and entry.what in ("start", "migrate", "colocate")]
    return [cluster.type_of[entry.devices[0]] for entry in rows]


@pytest.mark.parametrize(
    ("rates", "types"),
    [
        ({"slow": 0.2, "fast": 1.0}, ["slow", "fast"]),  # stays where it is faster
        ({"slow": 1.0, "fast": 0.5}, ["slow", "fast", "slow"]),  # tried, and undone
        ({"slow": 1.0, "fast": 1.0}, ["slow", "fast"]),  # as good: no further move
        ({"fast": 1.0}, ["slow", "fast"]),  # makes no progress at all where it began
    ],
)
def test_a_free_type_is_tried_once_and_kept_only_where_it_is_faster(rates: dict[str, float], types: list[str]) -> None:
    result = simulate([job("a", 0, 1, 1200, throughput=rates)], TYPES, "gandiva", log=True)
    assert types_of(result, "a") == types
    assert result.outcomes[0].end is not None


def test_a_move_that_costs_more_than_it_brings_is_not_made() -> None:
    """A trial may cost a twentieth of a job's run time: ten minutes after 200, but the job needs only 100."""
    jobs = [job("a", 0, 1, 3000, throughput={"slow": 0.5, "fast": 1.0})]
    assert types_of(simulate(jobs, TYPES, "gandiva:migrate=600", log=True), "a") == ["slow"]
    assert types_of(simulate(jobs, TYPES, "gandiva:migrate=30", log=True), "a") == ["slow", "fast"]
    assert types_of(simulate(jobs, TYPES, "gandiva:migration=false", log=True), "a") == ["slow"]


def test_packed_jobs_separate_where_there_is_room() -> None:
    """Packing is for overload: when another device falls free, the guest moves there."""
    third = job("c", 0, 1, 3000, gpu_util=0.3)
    result = simulate([*PAIR, third], homogeneous(2, 1), "gandiva", log=True)
    packed = next(entry for entry in result.log if entry.what == "colocate")
    alone = next(entry for entry in result.log if entry.what == "start" and entry.time > packed.time)
    assert (alone.job, alone.devices != packed.devices) == (packed.job, True)
