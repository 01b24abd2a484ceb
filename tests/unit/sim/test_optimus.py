"""Optimus: greedy equals brute force where gains fall, and jobs are split evenly over few nodes."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous, mixed
from paictl.sim.job import Job
from paictl.sim.policies.optimus import Optimus, allocate, split
from paictl.sim.run import Ending
from paictl.sim.simulate import simulate
from paictl.sim.state import JobProgress
from paictl.sim.view import JobView, view_for
from paictl.units import Millis


def view(number: int, gpus: int, scaling: dict[int, float], least: int = 1) -> JobView:
    job = Job(str(number), Millis(0), gpus, Millis(1000), elastic=(least, max(scaling)), scaling=scaling)
    return view_for(Optimus.knows)(JobProgress(job, number))


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
    left = dict(enumerate(map(float, work)))

    def total(counts: tuple[int, ...]) -> float:
        return sum(left[i] / jobs[i].scaling[count] for i, count in enumerate(counts))

    given_ = allocate(jobs, left, devices)
    best = min(total(counts) for counts in product(range(1, 7), repeat=3) if sum(counts) <= devices)
    assert total(tuple(given_[i] for i in range(3))) <= best * (1 + 1e-9)


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
    """Devices of each job at its first start."""
    log = simulate(jobs, homogeneous(nodes, devices), "optimus", log=True).log
    return {entry.job: entry.devices for entry in reversed(log) if entry.what == "start"}


def test_whoever_needs_less_is_placed_first() -> None:
    jobs = [Job("a", Millis(0), 4, Millis(1000)), Job("b", Millis(0), 1, Millis(1000))]
    assert placed(jobs, 2, 4) == {"b": (0,), "a": (4, 5, 6, 7)}


def test_what_cannot_be_split_evenly_fills_the_emptiest_nodes() -> None:
    assert placed([Job("a", Millis(0), 7, Millis(1000))], 3, 3) == {"a": (0, 1, 2, 3, 4, 5, 6)}


def test_between_two_intervals_nothing_starts() -> None:
    [one] = simulate([Job("a", Millis(1000), 1, Millis(5000))], homogeneous(1, 4), "optimus").outcomes
    assert (one.first_start, one.end) == (600_000, 605_000)


def test_it_matters_over_how_many_nodes_a_job_is_spread() -> None:
    job = Job("a", Millis(0), 8, Millis(600_000), spread={2: 0.5})
    assert simulate([job], homogeneous(2, 4), "optimus").outcomes[0].jct == 1_200_000


def test_jobs_of_one_type_get_no_more_than_there_is_of_it_and_nobody_stands_in_their_way() -> None:
    """The elastic job has all twelve devices when those of one type come: it has to make room where they must be."""
    anywhere = Job("any", Millis(0), 4, Millis(3_000_000), elastic=(1, 12))
    typed = [Job(f"new{n}", Millis(1000), 2, Millis(900_000), gpu_type="new") for n in range(3)]
    result = simulate([anywhere, *typed], mixed([("old", 2, 4), ("new", 1, 4)], "mixed"), "optimus", log=True)
    assert {one.ending for one in result.outcomes} == {Ending.PASSED}
    first = {one.id: one.first_start for one in result.outcomes}
    assert [first[f"new{n}"] for n in range(3)] == [600_000, 600_000, 1_800_000]


def test_whoever_keeps_its_size_goes_away_from_a_type_that_others_need() -> None:
    """Both get what they ask for: the one that runs anywhere cannot stay where the other must run."""
    jobs = [
        Job("any", Millis(0), 4, Millis(3_000_000)),
        Job("new", Millis(1000), 4, Millis(60_000), gpu_type="new"),
    ]
    result = simulate(jobs, mixed([("new", 1, 4), ("old", 1, 4)], "mixed"), "optimus")
    assert [(one.first_start, one.preemptions) for one in result.outcomes] == [(0, 1), (600_000, 0)]
