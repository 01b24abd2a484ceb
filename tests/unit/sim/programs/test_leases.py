"""Chronus' selector against brute force, the round-up table, and the proposition that lets it count devices."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.programs.leases import Request, choose, fits, greedy, room_for, rounded_up, worth


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
    found = choose(asked, 4, busy=True, nodes=10_000)
    assert found is not None
    assert found.proven
    assert fits(found.plan, asked, 4)
    assert sum(worth(found.plan, i, one) or 0 for i, one in enumerate(asked)) == _best(asked, 4)


def _best(asked: list[Request], capacity: int) -> float:
    ways = []
    for one in asked:
        some: list[frozenset[int]] = [frozenset()]
        some += [frozenset(leases) for leases in combinations(range(4), one.need)]
        ways.append(some)
    best = 0.0
    for choice in product(*ways):
        plan = dict(enumerate(choice))
        if fits(plan, asked, capacity):
            best = max(best, sum(worth(plan, i, one) or 0 for i, one in enumerate(asked)))
    return best


def test_a_promise_goes_before_a_better_job() -> None:
    promised = Request(4, 1, ((1, 1.0),), promised=True)
    better = Request(4, 1, ((1, 10.0),), promised=False)
    for found in (choose([better, promised], 4, busy=True, nodes=10_000), greedy([better, promised], 4)):
        assert found is not None
        assert dict(found.plan) == {1: frozenset({0})}


def test_promises_that_cannot_all_be_kept() -> None:
    asked = [Request(4, 1, ((1, 1.0),), promised=True)] * 2
    assert choose(asked, 4, busy=True, nodes=10_000) is None
    assert greedy(asked, 4) is None


def test_lease_0_is_used_or_left_to_others_as_wished() -> None:
    asked = [Request(2, 1, ((3, 10.0),), promised=True)]
    now = choose(asked, 4, busy=True, nodes=10_000)
    later = choose(asked, 4, busy=False, nodes=10_000)
    assert now is not None
    assert later is not None
    assert 0 in now.plan[0]
    assert 0 not in later.plan[0]


def test_the_best_deadline_that_there_is_room_for() -> None:
    there = [Request(4, 2, ((2, 10.0),), promised=True)]
    plan = {0: frozenset({0, 1})}
    late = Request(1, 1, ((2, 10.0), (4, 5.0)), promised=False)
    assert room_for(late, plan, [*there, late], 4) == frozenset({2})
    assert room_for(Request(1, 1, ((2, 10.0),), promised=False), plan, there, 4) is None


def test_a_known_plan_is_the_answer_when_there_is_no_time() -> None:
    asked = [Request(1, 2, ((4, 10.0),), promised=True)]
    known = {0: frozenset({2, 3})}
    found = choose(asked, 4, busy=True, nodes=0, known=known)
    assert found is not None
    assert fits(found.plan, asked, 4)
