"""Optimus: greedy equals brute force where gains fall, and jobs are split evenly over few nodes."""

from __future__ import annotations

from itertools import product
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous, mixed
from paictl.sim.job import Job
from paictl.sim.policies.optimus import MarginalGains, Optimus, Pace, TaskCounts, sizes, split
from paictl.sim.policies.optimus_estimates import exact_pace
from paictl.sim.run import Ending
from paictl.sim.simulate import simulate
from paictl.sim.state import JobProgress
from paictl.sim.view import JobView, view_for
from paictl.units import Millis


def view(number: int, gpus: int, scaling: dict[int, float], least: int = 1) -> JobView:
    job = Job(str(number), Millis(0), gpus, Millis(1000), elastic=(least, max(scaling)), scaling=scaling)
    return view_for(Optimus.knows)(JobProgress(job, number))


def allocate(
    jobs: list[JobView], remaining: dict[int, float], devices: int, types: dict[str, int] | None = None
) -> dict[int, int]:
    """Devices by job; in one dimension each worker has a server of its own."""
    line = sorted(jobs, key=lambda job: (sizes(job)[0], job.number))
    allocation = MarginalGains(lambda job: remaining[job.number], devices, types).of(line)
    assert all(share.servers == share.workers for share in allocation.values())
    return {number: share.workers for number, share in allocation.items()}


def curve(alpha: float, most: int = 6) -> dict[int, float]:
    """A concave curve of rates, 1.0 on one device."""
    return {n: n / (1 + alpha * (n - 1)) for n in range(1, most + 1)}


@settings(max_examples=60, deadline=None)
@given(
    alphas=st.lists(st.floats(0.05, 0.9), min_size=3, max_size=3),
    work=st.lists(st.integers(1, 1000), min_size=3, max_size=3),
    devices=st.integers(3, 9),
)
def test_greedy_is_best_where_gains_fall(alphas: list[float], work: list[int], devices: int) -> None:
    jobs = [view(number, 1, curve(alpha)) for number, alpha in enumerate(alphas)]
    remaining = dict(enumerate(map(float, work)))

    def total(counts: tuple[int, ...]) -> float:
        return sum(remaining[i] / jobs[i].scaling[count] for i, count in enumerate(counts))

    allocation = allocate(jobs, remaining, devices)
    best = min(total(counts) for counts in product(range(1, 7), repeat=3) if sum(counts) <= devices)
    assert total(tuple(allocation[i] for i in range(3))) <= best * (1 + 1e-9)


def test_nobody_gets_more_than_helps() -> None:
    slower = view(0, 1, {1: 1.0, 2: 0.8, 4: 0.7})
    assert allocate([slower], {0: 100.0}, 8) == {0: 1}


def test_a_dent_in_the_curve_is_no_wall() -> None:
    dented = view(0, 1, {1: 1.0, 2: 0.9, 4: 2.0})
    assert allocate([dented], {0: 100.0}, 4) == {0: 4}


def test_whoever_finds_not_even_its_fewest_waits() -> None:
    big = view(0, 8, {4: 0.5, 8: 1.0}, least=4)
    small = view(1, 1, {1: 1.0})
    assert allocate([big, small], {0: 9.0, 1: 9.0}, 3) == {1: 1}


def test_even_splits_over_the_fewest_nodes() -> None:
    assert split([(0, 4), (1, 4), (2, 2)], 4) == [(0, 4)]
    assert split([(0, 4), (1, 4), (2, 2)], 8) == [(0, 4), (1, 4)]
    assert split([(0, 3), (1, 3), (2, 2)], 4) == [(0, 2), (1, 2)]
    assert split([(0, 3), (1, 2)], 5) is None


def test_jobs_grow_into_what_is_free_and_give_it_back() -> None:
    rates = {1: 0.5, 2: 1.0, 4: 1.8}
    jobs = [
        Job("first", Millis(0), 2, Millis(3_600_000), elastic=(1, 4), scaling=rates),
        Job("second", Millis(600_000), 2, Millis(600_000), elastic=(1, 4), scaling=rates),
    ]
    log = simulate(jobs, homogeneous(1, 4), "optimus", log=True).log
    sizes = [(entry.time, len(entry.devices)) for entry in log if entry.job == "first" and entry.what == "start"]
    assert sizes[0] == (0, 4)
    assert sizes[1] == (600_000, 2)
    assert sizes[2][1] == 4


def test_the_modest_get_their_fewest_first() -> None:
    big = view(0, 8, {4: 0.5, 8: 1.0}, least=4)
    small = view(1, 1, {1: 1.0})
    assert allocate([big, small], {0: 9.0, 1: 9.0}, 4) == {1: 1}


def test_a_step_that_is_too_large_leaves_the_rest_to_others() -> None:
    leap, walk = view(0, 1, {1: 1.0, 8: 8.0}), view(1, 1, {1: 1.0, 2: 1.9})
    assert allocate([leap, walk], {0: 1000.0, 1: 10.0}, 4) == {0: 1, 1: 2}


def placed(jobs: list[Job], nodes: int, devices: int) -> dict[str, tuple[int, ...]]:
    """Devices per task job at its first start."""
    log = simulate(jobs, homogeneous(nodes, devices), "optimus", log=True).log
    return {entry.job: entry.devices for entry in reversed(log) if entry.what == "start"}


def test_whoever_needs_less_is_placed_first() -> None:
    jobs = [Job("a", Millis(0), 4, Millis(1000)), Job("b", Millis(0), 1, Millis(1000))]
    assert placed(jobs, 2, 4) == {"b": (0,), "a": (4, 5, 6, 7)}


def test_what_cannot_be_split_evenly_fills_the_emptiest_nodes() -> None:
    assert placed([Job("a", Millis(0), 7, Millis(1000))], 3, 3) == {"a": (0, 1, 2, 3, 4, 5, 6)}


def test_between_two_intervals_nothing_starts() -> None:
    [outcome] = simulate([Job("a", Millis(1000), 1, Millis(5000))], homogeneous(1, 4), "optimus").outcomes
    assert (outcome.first_start, outcome.end) == (600_000, 605_000)


def test_it_matters_over_how_many_nodes_a_job_is_spread() -> None:
    job = Job("a", Millis(0), 8, Millis(600_000), spread={2: 0.5})
    assert simulate([job], homogeneous(2, 4), "optimus").outcomes[0].jct == 1_200_000


def test_jobs_of_one_type_get_no_more_than_there_is_of_it_and_nobody_stands_in_their_way() -> None:
    """An elastic job holds all twelve devices when jobs of one type arrive: it has to free devices of that type."""
    anywhere = Job("any", Millis(0), 4, Millis(3_000_000), elastic=(1, 12))
    typed = [Job(f"new{n}", Millis(1000), 2, Millis(900_000), gpu_type="new") for n in range(3)]
    result = simulate([anywhere, *typed], mixed([("old", 2, 4), ("new", 1, 4)], "mixed"), "optimus", log=True)
    assert {outcome.ending for outcome in result.outcomes} == {Ending.PASSED}
    first = {outcome.id: outcome.first_start for outcome in result.outcomes}
    assert [first[f"new{n}"] for n in range(3)] == [600_000, 600_000, 1_800_000]


def test_whoever_keeps_its_size_goes_away_from_a_type_that_others_need() -> None:
    """Both get their requests: the job of any type cannot stay where the job of one type must run."""
    jobs = [
        Job("any", Millis(0), 4, Millis(3_000_000)),
        Job("new", Millis(1000), 4, Millis(60_000), gpu_type="new"),
    ]
    result = simulate(jobs, mixed([("new", 1, 4), ("old", 1, 4)], "mixed"), "optimus")
    assert [(outcome.first_start, outcome.preemptions) for outcome in result.outcomes] == [(0, 1), (600_000, 0)]


def best_pair(jobs: list[JobView], remaining: dict[int, float], devices: int, servers: int, pace: Pace) -> float:
    """By brute force: the least sum of completion times."""
    shares = [TaskCounts(p, w) for w in range(1, 5) for p in range(1, w + 1)]
    return min(
        sum(remaining[i] / pace(jobs[i], *share) for i, share in enumerate(row))
        for row in product(shares, repeat=len(jobs))
        if sum(counts.servers for counts in row) <= servers and sum(counts.workers for counts in row) <= devices
    )


@settings(max_examples=30)
@given(
    alphas=st.lists(st.floats(0.05, 0.9), min_size=2, max_size=2),
    work=st.lists(st.integers(1, 1000), min_size=2, max_size=2),
    devices=st.integers(2, 6),
    servers=st.integers(2, 6),
)
def test_both_dimensions_are_never_over(alphas: list[float], work: list[int], devices: int, servers: int) -> None:
    shares, _ = pair_by_gains(alphas, work, devices, servers)
    assert sum(share.servers for share in shares) <= servers
    assert sum(share.workers for share in shares) <= devices
    assert all(share.servers <= share.workers for share in shares)


def test_both_dimensions_are_near_the_best_on_average() -> None:
    """Marginal gains have no bound for a single pair (some take half as long again), so many pairs are tested."""
    dice = Random(1)  # noqa: S311 — cases, not secrets
    ratios = []
    for _ in range(200):
        alphas, work = [dice.uniform(0.05, 0.9) for _ in range(2)], [dice.randint(1, 1000) for _ in range(2)]
        ratios.append(pair_by_gains(alphas, work, dice.randint(2, 6), dice.randint(2, 6))[1])
    assert fmean(ratios) <= 1.06
    assert max(ratios) <= 1.5


def pair_by_gains(alphas: list[float], work: list[int], devices: int, servers: int) -> tuple[list[TaskCounts], float]:
    """The counts of two jobs, and their sum of completion times as a multiple of the best one."""
    jobs = [view(number, 1, curve(alpha, 4)) for number, alpha in enumerate(alphas)]
    remaining = dict(enumerate(map(float, work)))
    shares = MarginalGains(lambda job: remaining[job.number], devices, pace=exact_pace, servers=servers).of(jobs)
    total = sum(remaining[i] / exact_pace(jobs[i], *shares[i]) for i in range(2))
    return list(shares.values()), total / best_pair(jobs, remaining, devices, servers, exact_pace)


def test_a_job_without_a_server_waits_and_few_servers_slow_it() -> None:
    jobs = [Job(str(number), Millis(0), 4, Millis(100_000), elastic=(4, 4)) for number in range(2)]
    ends = {
        outcome.id: outcome.end or 0
        for outcome in simulate(jobs, homogeneous(1, 8), "optimus:interval=1,servers=1").outcomes
    }
    by_hand = 100_000 / exact_pace(view(0, 4, {4: 1.0}), 1, 4)
    assert ends["0"] == pytest.approx(by_hand, abs=1100)
    assert ends["1"] == pytest.approx(2 * by_hand, abs=2200)
    enough = simulate(jobs, homogeneous(1, 8), "optimus:interval=1,servers=8").outcomes
    assert {outcome.end for outcome in enough} == {100_000}


FEW = [
    Job(str(number), Millis(number * 50_000), 2, Millis(2_000_000), elastic=(1, 4), scaling=curve(0.3, 4) | {2: 1.0})
    for number in range(8)
]


def test_predictions_get_better_as_a_job_goes_on_and_worse_with_noise() -> None:
    runs = {
        noise: simulate(FEW, homogeneous(2, 4), f"optimus:interval=30,estimate=fitted,noise={noise}").counters
        for noise in (0, 0.05, 0.3)
    }
    assert runs[0]["epoch_error_early"] < 0.01
    for noise in (0.05, 0.3):
        assert runs[noise]["epoch_error_late"] < runs[noise]["epoch_error_early"]
    assert runs[0]["epoch_error_late"] < runs[0.05]["epoch_error_late"] < runs[0.3]["epoch_error_late"]


def test_measurements_depend_on_the_seed_alone() -> None:
    policy = "optimus:interval=30,estimate=fitted,noise=0.2"
    first, same, other = (simulate(FEW, homogeneous(2, 4), policy, seed=seed).outcomes for seed in (1, 1, 2))
    assert [job.end for job in first] == [job.end for job in same]
    assert [job.end for job in first] != [job.end for job in other]
