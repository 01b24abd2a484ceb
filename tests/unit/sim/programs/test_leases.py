"""Chronus' selector against brute force, the round-up table, and the proposition that lets it count devices."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.programs.leases import Calendar, Request, choose, fits, rounded_up, worth


@pytest.mark.parametrize(
    ("asked", "counted"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (7, 8), (8, 8), (9, 16), (16, 16), (17, 24)]
)
def test_sizes_are_rounded_up(asked: int, counted: int) -> None:
    assert rounded_up(asked) == counted


def test_whatever_fits_by_count_fits_on_nodes() -> None:
    """All multisets of sizes 1, 2, 4, 8, 16 whose sum is at most three nodes of eight, largest first, first fit."""
    tried = 0
    for number in range(1, 25):
        for sizes in combinations_with_replacement([1, 2, 4, 8, 16], number):
            if sum(sizes) > 24:
                continue
            tried += 1
            free = [8, 8, 8]
            for size in sorted(sizes, reverse=True):
                for _ in range(max(1, size // 8)):
                    part = min(size, 8)
                    node = next(node for node in range(3) if free[node] >= part)
                    free[node] -= part
    assert tried > 600


requests = st.builds(
    lambda devices, need, dues, values, promised: Request(
        devices, need, tuple(zip(sorted(dues), sorted(values, reverse=True), strict=False)), promised
    ),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 3),
    st.sets(st.integers(1, 4), min_size=1, max_size=2),
    st.just([10.0, 6.0]),
    st.just(False),
)


@settings(max_examples=40, deadline=None)
@given(asked=st.lists(requests, min_size=1, max_size=3))
def test_no_plan_keeps_more_worth(asked: list[Request]) -> None:
    chosen = choose(asked, 4, busy=True, nodes=10_000)
    assert chosen is not None
    assert chosen.proven
    assert fits(chosen.plan, asked, 4)
    assert sum(worth(chosen.plan, i, request) or 0 for i, request in enumerate(asked)) == _best(asked, 4)


def _best(requests: list[Request], capacity: int) -> float:
    ways = []
    for request in requests:
        some: list[frozenset[int]] = [frozenset()]
        some += [frozenset(leases) for leases in combinations(range(4), request.need)]
        ways.append(some)
    best = 0.0
    for choice in product(*ways):
        plan = dict(enumerate(choice))
        if fits(plan, requests, capacity):
            best = max(best, sum(worth(plan, i, request) or 0 for i, request in enumerate(requests)))
    return best


def test_a_promise_goes_before_a_better_job() -> None:
    promised = Request(4, 1, ((1, 1.0),), promised=True)
    better = Request(4, 1, ((1, 10.0),), promised=False)
    chosen = choose([better, promised], 4, busy=True, nodes=10_000)
    assert chosen is not None
    assert dict(chosen.plan) == {1: frozenset({0})}


def test_promises_that_cannot_all_be_kept() -> None:
    requests = [Request(4, 1, ((1, 1.0),), promised=True)] * 2
    assert choose(requests, 4, busy=True, nodes=10_000) is None


def test_lease_0_is_used_or_left_to_others_as_wished() -> None:
    requests = [Request(2, 1, ((3, 10.0),), promised=True)]
    now = choose(requests, 4, busy=True, nodes=10_000)
    later = choose(requests, 4, busy=False, nodes=10_000)
    assert now is not None
    assert later is not None
    assert 0 in now.plan[0]
    assert 0 not in later.plan[0]


def test_a_calendar_gives_the_last_leases_with_room() -> None:
    calendar = Calendar(4)
    calendar.put(7, [2, 3], 3)
    assert calendar.latest(1, 2, 0, 4) == [2, 3]
    assert calendar.latest(2, 2, 0, 4) == [0, 1]
    assert calendar.latest(2, 3, 0, 4) is None
    assert calendar.latest(2, 1, 2, 4) is None
    assert calendar.jobs(3) == {7}


def test_a_calendar_takes_back_the_earliest_leases() -> None:
    calendar = Calendar(4)
    calendar.put(7, [1, 2, 5], 4)
    calendar.trim(7, 2, 1)
    assert calendar.leases(7) == ([5], 4)
    assert calendar.latest(4, 3, 2, 6) == [2, 3, 4]
    calendar.drop(7)
    assert calendar.latest(4, 4, 2, 6) == [2, 3, 4, 5]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 8), st.booleans()), min_size=1, max_size=12
    )
)
def test_a_calendar_never_gives_out_more_than_there_is(rows: list[tuple[int, int, int, bool]]) -> None:
    calendar, held = Calendar(4), dict[int, tuple[list[int], int]]()
    for number, (devices, need, due, drops) in enumerate(rows):
        latest = calendar.latest(devices, need, 0, due)
        if latest is not None:
            assert len(latest) == need
            assert max(latest) < due
            calendar.put(number, latest, devices)
            held[number] = latest, devices
        if drops and held:
            calendar.drop(number_of := min(held))
            del held[number_of]
        for lease in range(8):
            assert sum(size for leases, size in held.values() if lease in leases) <= 4
            assert calendar.jobs(lease) == {job for job, (leases, _) in held.items() if lease in leases}


def test_a_known_plan_is_the_answer_when_there_is_no_time() -> None:
    requests = [Request(1, 2, ((4, 10.0),), promised=True)]
    plan = {0: frozenset({2, 3})}
    chosen = choose(requests, 4, busy=True, nodes=0, known=plan)
    assert chosen is not None
    assert fits(chosen.plan, requests, 4)
