"""HiveD's guarantee, in simulated time."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from paictl.sim.cluster import Cluster, ClusterShape, homogeneous, mixed
from paictl.sim.engine import Simulation
from paictl.sim.failures import FailureModel
from paictl.sim.job import Job, Share
from paictl.sim.knowledge import NOTHING
from paictl.sim.placement.base import Placer
from paictl.sim.placement.cells import Cells, from_text
from paictl.sim.placement.consolidate import Consolidate
from paictl.sim.policies.hived_parameters import shares
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.run import RunResult
from paictl.sim.simulate import PausedError, simulate
from paictl.sim.state import JobProgress
from paictl.sim.view import JobView, view_for
from paictl.units import Millis
from tests.unit.sim.policies.test_run_limits import CASES
from tests.unit.sim.policies.test_run_limits import starts as seconds

CELLS = """
physicalCluster:
  cellTypes:
    PCIE: {childCellType: gpu, childCellNumber: 2}
    SOCKET: {childCellType: PCIE, childCellNumber: 2}
    NODE: {childCellType: SOCKET, childCellNumber: 2, isNodeLevel: true}
virtualClusters:
  nodes: {virtualCells: [{cellType: NODE, cellNumber: 3}]}
  sockets: {virtualCells: [{cellType: NODE.SOCKET, cellNumber: 4}]}
  switches: {virtualCells: [{cellType: NODE.SOCKET.PCIE, cellNumber: 8}]}
  single: {virtualCells: [{cellType: NODE.SOCKET.PCIE.gpu, cellNumber: 8}]}
"""
NODES = [f"  - {{cellType: NODE, cellAddress: gpu-{number}}}" for number in range(1, 9)]
CONFIG = CELLS.replace("virtualClusters:", "\n".join(["  physicalCells:", *NODES, "virtualClusters:"]))
PROMISED = {"nodes": (8, 3), "sockets": (4, 4), "switches": (2, 8), "single": (1, 8)}
"""By VC: devices of a cell, and how many cells."""


def cluster() -> ClusterShape:
    return replace(homogeneous(8, 8), hived=CONFIG)


def view(number: int, vc: str, gpus: int, share: Share = Share.GUARANTEED) -> JobView:
    return view_for(NOTHING)(JobProgress(Job(str(number), Millis(0), gpus, Millis(1), vc=vc, share=share), number))


def denied(book: Placer, operations: int, seed: int) -> int:
    """Random requests of tenants within their quotas, and releases: the number of requests that find no place."""
    dice, refused = random.Random(seed), 0  # noqa: S311 the same operations every time
    held: dict[str, list[tuple[int, ...]]] = {vc: [] for vc in PROMISED}
    for number in range(operations):
        vc = dice.choice(list(PROMISED))
        size, cells = PROMISED[vc]
        if held[vc] and (len(held[vc]) == cells or dice.random() < 0.45):
            book.give(held[vc].pop(dice.randrange(len(held[vc]))))
        elif (devices := book.take(view(number, vc, size), size)) is not None:
            held[vc].append(devices)
        else:
            refused += 1
    return refused


@pytest.mark.slow
def test_no_request_within_its_quota_is_ever_denied() -> None:
    spec = cluster()
    assert denied(Cells(Cluster(spec), from_text(CONFIG)), 100_000, 13) == 0


def test_nor_in_a_short_run() -> None:
    spec = cluster()
    assert denied(Cells(Cluster(spec), from_text(CONFIG)), 4_000, 1) == 0


def test_a_scheduler_that_counts_denies_them() -> None:
    assert denied(Consolidate(Cluster(cluster())), 20_000, 13) > 10


def jobs(vc: str, rows: list[tuple[int, int, int]], share: Share = Share.GUARANTEED, first: int = 0) -> list[Job]:
    return [
        Job(f"{vc}{first + number}", Millis(at * 1000), gpus, Millis(1000 * time), vc=vc, share=share)
        for number, (at, gpus, time) in enumerate(rows)
    ]


def starts(result: RunResult) -> dict[str, int | None]:
    return {outcome.id: outcome.first_start for outcome in result.outcomes}


def test_an_opportunistic_job_makes_way_and_keeps_its_work() -> None:
    spec = replace(homogeneous(2, 4), quotas={"a": 4, "b": 4})
    trace = [*jobs("b", [(0, 8, 100)], Share.OPPORTUNISTIC), *jobs("a", [(10, 4, 20)])]
    result = simulate(trace, spec, "hived")
    assert starts(result) == {"b0": 0, "a0": 10_000}
    low = result.outcomes[0]
    assert (low.preemptions, low.end, low.lost) == (1, 120_000, 0)
    assert result.counters["preempted_devices"] == 8


def test_a_guaranteed_job_never_leaves_its_quota() -> None:
    spec = replace(homogeneous(2, 4), quotas={"a": 4, "b": 4})
    result = simulate(jobs("a", [(0, 4, 50), (1, 4, 50)]), spec, "hived")
    assert starts(result) == {"a0": 0, "a1": 50_000}, "although b's node is idle"


def test_no_tenant_waits_longer_than_in_a_cluster_of_its_own() -> None:
    dice = random.Random(5)  # noqa: S311 the same jobs every time
    shared = replace(homogeneous(6, 8), quotas={"a": 16, "b": 16, "c": 16})
    trace = [
        job
        for vc in "abc"
        for job in jobs(vc, [(dice.randrange(300), 1 << dice.randrange(5), dice.randrange(5, 90)) for _ in range(60)])
    ]
    together = starts(simulate(trace, shared, "hived"))
    for vc in "abc":
        alone = starts(
            simulate([job for job in trace if job.vc == vc], replace(homogeneous(2, 8), quotas={vc: 16}), "hived")
        )
        assert {name: at for name, at in together.items() if name.startswith(vc)} == alone


def test_higher_priority_preempts_within_the_tenant() -> None:
    spec = replace(homogeneous(1, 4), quotas={"a": 4})
    low, high = jobs("a", [(0, 4, 100)]), [replace(job, priority=10) for job in jobs("a", [(5, 4, 10)], first=1)]
    result = simulate([*low, *high], spec, "hived")
    assert starts(result) == {"a0": 0, "a1": 5000}
    assert result.outcomes[0].end == 110_000


def test_what_is_left_goes_to_the_tenant_that_uses_least_by_its_quota() -> None:
    spec = replace(homogeneous(4, 1), quotas={"a": 3, "b": 1})
    trace = jobs("a", [(0, 1, 10)] * 8, Share.OPPORTUNISTIC) + jobs("b", [(0, 1, 10)] * 8, Share.OPPORTUNISTIC)
    first = [name[0] for name, at in starts(simulate(trace, spec, "hived")).items() if at == 0]
    assert sorted(first) == ["a", "a", "a", "b"]


@pytest.mark.parametrize(("order", "next_one"), [("share", "ben"), ("created", "ann")])
def test_by_creation_the_first_goes_first_whoever_uses_less(order: str, next_one: str) -> None:
    """Both borrow from a third tenant: when the first job ends, ann still runs one, and waits longer than ben."""
    spec = replace(homogeneous(1, 4), quotas={"own": 4})
    lent = [
        Job(f"{vc}{at}", Millis(at), gpus, Millis(100), vc=vc, share=Share.OPPORTUNISTIC)
        for at, vc, gpus in ((0, "ann", 2), (1, "ann", 2), (2, "ann", 2), (3, "ben", 2))
    ]
    begun = starts(simulate(lent, spec, f"hived:order={order}"))
    assert begun["ann0"] == 0
    assert begun["ann1"] == 1
    assert [name for name, at in begun.items() if at == 100] == [f"{next_one}{2 if next_one == 'ann' else 3}"]


@pytest.mark.parametrize(("order", "first"), [("share", "low"), ("created", "late")])
def test_a_preempted_job_keeps_its_turn_or_is_created_again(order: str, first: str) -> None:
    spec = replace(homogeneous(1, 4), quotas={"a": 4})
    rows = [
        Job("low", Millis(0), 4, Millis(100), vc="a"),
        Job("late", Millis(5), 4, Millis(100), vc="a"),
        Job("high", Millis(10), 4, Millis(100), vc="a", priority=1),
    ]
    begun = {
        entry.job
        for entry in simulate(rows, spec, f"hived:order={order}", log=True).log
        if entry.what == "start" and entry.time == 110
    }
    assert begun == {first}


def test_quotas_made_from_a_trace() -> None:
    assert shares({"big": 900, "small": 50, "none": 0}, [8] * 10, equal=False) == {"big": 64, "none": 8, "small": 8}
    assert shares({"x": 1, "y": 900}, [4] * 4, equal=True) == {"x": 8, "y": 8}


def test_a_trace_that_says_nothing_of_tenants_is_played() -> None:
    """A tenant without a name has all of the cluster; with other tenants it has its own share."""
    for tenants in (("",), ("", "a")):
        rows = [job for vc in tenants for job in jobs(vc, [(0, 2, 10), (0, 2, 10)], first=len(vc) * 10)]
        result = simulate(rows, homogeneous(4, 2), "hived")
        assert set(starts(result).values()) == {0}


def test_a_job_of_a_type_that_its_tenant_was_not_promised_runs_on_what_is_left() -> None:
    cluster = replace(mixed([("new", 2, 2), ("old", 2, 2)], "mixed"), quotas={"a": 4, "b": 4})
    rows = [
        Job("old", Millis(0), 2, Millis(10_000), vc="a", gpu_type="old"),
        Job("both", Millis(0), 6, Millis(10_000), vc="a"),
        Job("b", Millis(1000), 4, Millis(10_000), vc="b", gpu_type="old"),
    ]
    result = simulate(rows, cluster, "hived")
    assert starts(result) == {"old": 0, "both": None, "b": 1000}
    assert [outcome.preemptions for outcome in result.outcomes] == [1, 0, 0], "b's guarantee comes before a's old one"


@pytest.mark.parametrize(("jobs", "mode", "expected"), CASES)
def test_with_backfill_one_tenant_gets_the_starts_of_that_policy(
    jobs: list[Job], mode: str, expected: dict[str, float]
) -> None:
    result = simulate(jobs, homogeneous(1, 4), f"hived:backfill={mode}")
    assert seconds(result) == expected
    assert result.counters["promises_broken"] == 0


def test_a_large_gang_is_overtaken_again_and_again_without_backfill_only() -> None:
    small = [Job(f"s{n}", Millis(n * 40_000), 4, Millis(100_000), vc="a") for n in range(60)]
    jobs = [*small[:3], Job("big", Millis(90_000), 16, Millis(50_000), vc="a"), *small[3:]]
    late, soon = (
        seconds(simulate(jobs, homogeneous(2, 8), policy))["big"] for policy in ("hived", "hived:backfill=easy")
    )
    assert soon <= 200
    assert late > 1000


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_with_loose_limits_no_promise_is_broken(mode: str) -> None:
    rng = random.Random(3)  # noqa: S311 - a property test
    jobs = [
        Job(
            f"j{n}",
            Millis(n * 30_000),
            rng.choice((1, 2, 4, 8, 16)),
            Millis(rng.randrange(20, 900) * 1000),
            vc=rng.choice("ab"),
        )
        for n in range(150 if mode == "easy" else 75)
    ]
    counters = simulate(jobs, homogeneous(4, 8), f"hived:backfill={mode},factor=2").counters
    assert counters["promises"] > (5 if mode == "easy" else 50)
    assert counters["backfilled"] > 5
    assert counters["promises_broken"] == 0


def test_a_job_that_would_delay_the_one_before_it_starts_behind_it() -> None:
    """`late` must not start when `first` ends, since `third` needs its devices."""
    jobs = [
        Job("first", Millis(0), 2, Millis(10_000), vc="a"),
        Job("second", Millis(0), 2, Millis(30_000), vc="a"),
        Job("third", Millis(1000), 4, Millis(10_000), vc="a"),
        Job("late", Millis(2000), 2, Millis(25_000), vc="a"),
    ]
    result = simulate(jobs, homogeneous(1, 4), "hived:backfill=conservative")
    assert seconds(result) == {"first": 0, "second": 0, "third": 30, "late": 40}


def lent(spec: ClusterShape, policy: str) -> RunResult:
    """Two nodes of the first tenant are lent for 200 s, the second one 50 s later; then it needs one of them."""
    trace = jobs("b", [(0, 4, 200), (50, 4, 200)], Share.OPPORTUNISTIC)
    return simulate([*trace, *jobs("a", [(60, 4, 20)])], spec, policy)


def test_a_job_is_asked_again_at_its_promised_start_though_no_job_ends_then() -> None:
    trace = [
        Job("long", Millis(0), 2, Millis(100_000), vc="a", limit=Millis(50_000)),
        Job("big", Millis(1000), 4, Millis(10_000), vc="a"),
        Job("short", Millis(35_000), 2, Millis(20_000), vc="a"),
    ]
    result = simulate(trace, homogeneous(1, 4), "hived:backfill=conservative")
    assert seconds(result) == {"long": 0, "big": 100, "short": 60}


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_job_that_started_in_time_and_is_preempted_later_breaks_no_promise(mode: str) -> None:
    trace = [
        Job("first", Millis(0), 4, Millis(10_000), vc="a"),
        Job("weak", Millis(1000), 4, Millis(20_000), vc="a"),
        Job("other", Millis(2000), 2, Millis(100_000), vc="a"),
        Job("strong", Millis(15_000), 4, Millis(10_000), vc="a", priority=1),
    ]
    result = simulate(trace, homogeneous(1, 4), f"hived:backfill={mode}")
    assert [outcome.preemptions for outcome in result.outcomes] == [0, 1, 0, 0]
    assert result.counters["promises"] >= 2, "the first at 10 s, and another one at 25 s"
    assert result.counters["promises_broken"] == 0


def test_the_job_is_preempted_that_loses_least() -> None:
    spec = replace(homogeneous(2, 4), quotas={"a": 8})
    first, youngest = lent(spec, "hived"), lent(spec, "hived:victims=least-loss")
    saved = lent(spec, "hived:victims=least-loss,checkpoint=59")
    assert [outcome.preemptions for outcome in first.outcomes] == [1, 0, 0]
    assert [outcome.preemptions for outcome in youngest.outcomes] == [0, 1, 0]
    assert [outcome.preemptions for outcome in saved.outcomes] == [1, 0, 0], "saved a second ago"
    least_loss = lent(spec, "hived:victims=least-loss,on-sigterm=1")
    assert [outcome.preemptions for outcome in least_loss.outcomes] == [1, 0, 0], (
        "neither loses anything: HiveD's order decides"
    )
    hours = [result.counters["preempted_hours"] * 3600 for result in (first, youngest, saved, least_loss)]
    assert hours == pytest.approx([240, 40, 4, 0], abs=0.01)


def test_a_job_runs_for_its_minimum_run_time_before_stronger_ones_of_its_tenant() -> None:
    spec = replace(homogeneous(1, 4), quotas={"a": 4})
    low, high = jobs("a", [(0, 4, 100)]), [replace(job, priority=10) for job in jobs("a", [(5, 4, 10)], first=1)]
    result = simulate([*low, *high], spec, "hived:min-run-time=30")
    assert starts(result) == {"a0": 0, "a1": 30_000}
    assert result.outcomes[0].end == 110_000


# --- the order of opportunistic jobs


def test_opportunistic_jobs_start_by_what_their_tenants_and_users_used_lately() -> None:
    """A's job used all devices for an hour; then both tenants wait, and A submitted first."""

    def opportunistic(name: str, submit: int, vc: str, user: str) -> Job:
        hour = Millis(3_600_000)
        return Job(name, Millis(submit), 16, hour, vc=vc, user=user, share=Share.OPPORTUNISTIC)

    rows = ("a0", "a", "ann"), ("a1", "a", "ann"), ("a2", "a", "bob"), ("b0", "b", "bob"), ("b1", "b", "cid")
    jobs = [opportunistic(name, 1000 * number, vc, user) for number, (name, vc, user) in enumerate(rows)]
    shape = replace(homogeneous(2, 8), quotas={"a": 8, "b": 8})
    assert order_of(jobs, shape, "hived:order=created") == ["a0", "a1", "a2", "b0", "b1"]
    policy = "hived:opportunistic-order=decayed-use,half-life=24h"
    assert order_of(jobs, shape, policy) == ["a0", "b0", "a2", "b1", "a1"]


def order_of(jobs: list[Job], shape: ClusterShape, policy: str) -> list[str]:
    outcomes = simulate(jobs, shape, policy).outcomes
    return [outcome.id for outcome in sorted(outcomes, key=lambda outcome: outcome.first_start or 0)]


# --- the section `sharing` beside the configuration


def borrowed(sharing: str, trace: list[Job], policy: str = "hived:order=created") -> dict[str, int | None]:
    """Starts on four nodes of two devices: a is promised three of them, b one, c nothing."""
    shape = replace(homogeneous(4, 2), quotas={"a": 6, "b": 2, "c": 0}, sharing=sharing)
    return {name: None if at is None else at // 1000 for name, at in starts(simulate(trace, shape, policy)).items()}


OPPORTUNISTIC = Share.OPPORTUNISTIC


def test_a_lend_limit_keeps_devices_of_its_owner_free() -> None:
    limited = '{"lend-limits": [{"vc": "a", "devices": 3}]}'
    trace = [*jobs("b", [(0, 2, 50)] * 4, OPPORTUNISTIC), *jobs("a", [(10, 2, 10)])]
    assert borrowed("{}", trace) == {"b0": 0, "b1": 0, "b2": 0, "b3": 0, "a0": 10}
    assert borrowed(limited, trace) == {"b0": 0, "b1": 0, "b2": 50, "b3": 50, "a0": 10}, "its own two and one node of a"
    own = jobs("a", [(0, 2, 50)] * 4, OPPORTUNISTIC)
    assert set(borrowed(limited, own).values()) == {0}, "a's own jobs do not count"
    assert borrowed(limited, trace, "hived:order=created,sharing=ignore") == borrowed("{}", trace)


def test_a_job_that_a_limit_holds_back_keeps_no_other_waiting() -> None:
    limited = '{"borrow-limits": [{"vc": "b", "devices": 2}], "lend-limits": [{"vc": "b", "devices": 0}]}'
    trace = [*jobs("b", [(0, 2, 50)] * 2, OPPORTUNISTIC), *jobs("c", [(0, 2, 50)] * 4, OPPORTUNISTIC)]
    assert borrowed(limited, trace) == {"b0": 0, "b1": 50, "c0": 0, "c1": 0, "c2": 0, "c3": 50}


def test_a_sister_goes_first_and_gives_way_last() -> None:
    team = '{"departments": [{"name": "team", "vcs": ["a", "c"]}]}'
    full = jobs("b", [(0, 2, 20 + number) for number in range(4)], OPPORTUNISTIC)
    late = [*jobs("b", [(1, 2, 50)], OPPORTUNISTIC, 4), *jobs("c", [(1, 2, 50)], OPPORTUNISTIC)]
    assert [borrowed(section, [*full, *late])[name] for section in ("{}", team) for name in ("b4", "c0")] == [
        20,
        21,
        21,
        20,
    ]
    mixed_up = [*jobs("c", [(0, 2, 50)], OPPORTUNISTIC), *jobs("b", [(0, 2, 50)] * 3, OPPORTUNISTIC)]
    shape = replace(homogeneous(4, 2), quotas={"a": 6, "b": 2, "c": 0}, sharing=team)
    result = simulate([*mixed_up, *jobs("a", [(10, 2, 5)])], shape, "hived:order=created")
    assert [outcome.id for outcome in result.outcomes if outcome.preemptions] == ["b0"]


def test_a_run_with_the_section_can_be_paused() -> None:
    section = """{"lend-limits": [{"vc": "a", "devices": 3}], "departments": [{"name": "team", "vcs": ["a", "c"]}],
        "budgets": [{"vc": "a", "device-hours": 1}], "user-limits": [{"vc": "a", "devices": 2}],
        "spares": [{"vc": "a", "devices": 2}], "borrow-limits": [{"vc": "b", "devices": 6}]}"""
    shape = replace(homogeneous(4, 2), quotas={"a": 6, "b": 2, "c": 0}, sharing=section)
    trace = [*jobs("b", [(0, 2, 50)] * 4, OPPORTUNISTIC), *jobs("a", [(10, 2, 10)])]
    with pytest.raises(PausedError) as paused:
        simulate(trace, shape, "hived", stop=lambda: True)
    resumed = simulate(trace, shape, "hived", snapshot=paused.value.snapshot)
    assert starts(resumed) == starts(simulate(trace, shape, "hived"))


@pytest.mark.parametrize("start", ["soon", "1969-12-31", "2026-13-01", "0001-01-01"])
def test_a_start_that_is_not_a_date_is_refused(start: str) -> None:
    with pytest.raises(ParameterError, match="is not a date in 1970 or later"):
        simulate(jobs("a", [(0, 1, 1)]), homogeneous(1, 2), f"hived:start={start}")


@pytest.mark.parametrize(("start", "at"), [("9999-12-15", 0), ("1970-01-01", 9000 * 366 * 24 * 3_600_000)])
def test_budgets_end_with_the_calendar(start: str, at: int) -> None:
    shape = replace(homogeneous(4, 2), quotas={"a": 6}, sharing='{"budgets": [{"vc": "a", "device-hours": 4}]}')
    jobs = [Job("late", Millis(at), 2, Millis(1000), vc="a", pod=2)]
    with pytest.raises(ParameterError, match="runs past the year 9998"):
        simulate(jobs, shape, f"hived:start={start}")
    assert simulate(jobs, shape, f"hived:sharing=ignore,start={start}").outcomes[0].end == at + 1000
    limits = replace(shape, sharing='{"user-limits": [{"vc": "a", "devices": 4}]}')
    assert simulate(jobs, limits, f"hived:start={start}").outcomes[0].end == at + 1000


def test_a_month_begins_where_the_start_says() -> None:
    spent = [*jobs("a", [(0, 4, 3600), (3601, 1, 1)])]
    shape = replace(homogeneous(4, 2), quotas={"a": 6}, sharing='{"budgets": [{"vc": "a", "device-hours": 4}]}')
    day = 86_400
    assert {
        start: starts(simulate(spent, shape, f"hived:start={start}"))["a1"]
        for start in ("", "2027-02-20", "2026-12-31T22:30Z", "2026-12-31T20:00-02:00")
    } == {
        "": 31 * day * 1000,
        "2027-02-20": 9 * day * 1000,
        "2026-12-31T22:30Z": 5400 * 1000,
        "2026-12-31T20:00-02:00": 7200 * 1000,
    }


@pytest.mark.parametrize("seed", range(4))
def test_no_limit_is_ever_exceeded_whatever_fails(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 the same jobs every time
    section = """{"user-limits": [{"vc": "a", "devices": 4}, {"vc": "b", "user": "x", "devices": 2}],
        "spares": [{"vc": "a", "devices": 2}], "borrow-limits": [{"vc": "c", "devices": 3}]}"""
    shape = replace(homogeneous(8, 2), quotas={"a": 10, "b": 4, "c": 0}, sharing=section)
    trace = [
        Job(
            str(number),
            Millis(dice.randrange(100_000)),
            dice.choice([1, 2, 4]),
            Millis(dice.randrange(1, 40_000)),
            dice.choice("xyz"),
            dice.choice("abc"),
            priority=dice.randrange(2),
            share=dice.choice([Share.GUARANTEED, Share.GUARANTEED, Share.OPPORTUNISTIC]),
        )
        for number in range(120)
    ]
    most: Counter[str] = Counter()

    def check(engine: Simulation) -> None:
        held: Counter[tuple[str, str]] = Counter()
        for state in engine.live.values():
            job = state.job
            if state.placed:
                # a job of c, which is promised nothing, borrows whatever it asks for
                guaranteed = job.share is Share.GUARANTEED and job.vc != "c"
                held[job.vc, job.user if guaranteed else "-"] += job.gpus
        of_a = sum(held["a", user] for user in "xyz")
        assert max(held["a", user] for user in "xyz") <= 4
        assert held["b", "x"] <= 2
        assert of_a <= 8
        assert held["c", "-"] <= 3
        most.update({"a": max(0, of_a - most["a"]), "c": max(0, held["c", "-"] - most["c"])})

    failures = FailureModel("", node=Millis(60_000), device=Millis(200_000), repair=Millis(5_000))
    simulate(trace, shape, "hived", seed=seed, check=check, failures=failures)
    assert most == {"a": 8, "c": 3}, "the limits are reached"
