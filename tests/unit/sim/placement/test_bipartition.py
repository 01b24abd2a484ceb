"""Sockets of machines: all splits, their utility, and books that stay consistent."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import Cluster, ClusterShape, Node
from paictl.sim.job import Job
from paictl.sim.knowledge import Knowledge
from paictl.sim.placement.bipartition import Bipartition
from paictl.sim.placement.utility import FLOOR, JobKind, Resident, Shape, communication, judge, mappings, splits
from paictl.sim.state import JobProgress
from paictl.sim.view import JobView, view_for
from paictl.units import Millis

VIEW = view_for(frozenset({Knowledge.MODEL, Knowledge.LOCALITY, Knowledge.COLOCATION}))
CALM = JobKind("calm", 1, None, (), ())
HURT = JobKind("hurt", 1, None, (("loud", 0.64),), ())
LOUD = JobKind("loud", 1, None, (), ())
PAIR = JobKind("pair", 2, None, (("loud*1", 0.5), ("loud", 0.9)), (("node", 0.8),))
KINDS = [CALM, HURT, LOUD, PAIR]


def machine(*free: int, residents: tuple[Resident, ...] = ()) -> Shape:
    return Shape("gpu", (2,) * len(free), free, residents)


def view(number: int, gpus: int, **more: object) -> JobView:
    return VIEW(JobProgress(Job(str(number), Millis(0), gpus, Millis(1000), **more), number))  # type: ignore[arg-type]


def book(*nodes: int, sockets: int = 2, types: str = "") -> Bipartition:
    specs = tuple(
        Node(f"n{i}", size, types[i] if types else "gpu", (("socket", max(1, size // sockets)),))
        for i, size in enumerate(nodes)
    )
    return Bipartition(Cluster(ClusterShape("", specs)), "socket")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5), st.integers(0, 12))
def test_splits_are_all_that_there_are(free: list[int], number: int) -> None:
    expected = [row for row in product(*(range(count + 1) for count in free)) if sum(row) == number]
    if expected:
        assert sorted(splits(free, number)) == expected


@pytest.mark.parametrize(
    ("counts", "cost"), [((1, 0), FLOOR), ((2, 0), FLOOR), ((1, 1), 19 / 40), ((2, 1), FLOOR), ((2, 2), FLOOR)]
)
def test_communication_is_that_of_the_artifact(counts: tuple[int, ...], cost: float) -> None:
    """Two devices apart (20 - 1) / 40; three must be on two sockets of two, so that costs nothing more."""
    assert communication(counts, (2, 2)) == pytest.approx(cost)


def test_communication_never_costs_more_than_everything() -> None:
    assert communication((1,) * 8, (8,) * 8) == 1.0


def test_an_idle_machine_is_worth_all() -> None:
    assert judge(3, (2, 0), machine(2, 2), KINDS).job == 1.0
    assert judge(0, (1, 0), machine(2, 2), KINDS).job == 1.0


def test_devices_apart_are_worth_a_quarter() -> None:
    assert judge(3, (1, 1), machine(2, 2), KINDS).job == pytest.approx(0.2 / (0.1 + 0.475**0.5))


def test_interference_is_time_alone_by_time_beside() -> None:
    near = machine(1, 2, residents=(Resident(2, (0,)),))
    assert judge(1, (1, 0), near, KINDS).job == pytest.approx(0.2 / (0.1 + 0.8))
    assert judge(1, (0, 1), near, KINDS).job == 1.0, "it is felt on the same socket only"
    assert judge(0, (1, 0), near, KINDS).job == 1.0, "who is not slowed down feels nothing"


def test_who_is_apart_already_feels_less_of_a_neighbour() -> None:
    """0.9 beside it was measured against the near place; apart it goes at 0.8 anyway."""
    near = machine(1, 2, residents=(Resident(2, (0,)),))
    apart = judge(3, (1, 1), near, KINDS)
    assert apart.job == pytest.approx(0.2 / (0.475**0.5 + (0.5 / 0.8) ** 0.5)), "`loud*1` goes before `loud`"
    mild = [*KINDS[:3], JobKind("pair", 2, None, (("loud", 0.9),), (("node", 0.8),))]
    assert judge(3, (1, 1), near, mild).job == pytest.approx(0.2 / (0.1 + 0.475**0.5))


def test_the_system_sees_the_harm_to_others_and_what_stays_free() -> None:
    victim = machine(1, 2, residents=(Resident(1, (0,)),))
    near_victim, apart = judge(2, (1, 0), victim, KINDS), judge(2, (0, 1), victim, KINDS)
    assert near_victim.job == apart.job == 1.0
    root = FLOOR ** (1 / 3)
    harm, fragments = ((FLOOR + 0.64) / 2) ** (1 / 3), 0.5 ** (1 / 3)
    assert near_victim.system == pytest.approx(3 * root / (root + harm + fragments))
    assert apart.system == pytest.approx(3 * root / (root + root + fragments))
    assert judge(0, (0, 2), machine(0, 2), KINDS).system == pytest.approx(1.0), "a full machine has no fragments"


def test_mappings_go_from_the_best_of_the_system_to_the_best_of_the_job() -> None:
    near = machine(2, 2, residents=(Resident(2, (0,)), Resident(2, (1,))))
    ordered = mappings(3, 2, near, KINDS)
    every = [judge(3, counts, near, KINDS) for counts in splits(near.free, 2)]
    assert ordered[0].system == max(candidate.system for candidate in every)
    assert ordered[-1].job == max(candidate.job for candidate in every)
    assert all(a.system >= b.system and a.job < b.job for a, b in pairwise(ordered))


@given(
    free=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    number=st.integers(1, 4),
    kind=st.integers(0, 3),
    beside=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([(0,), (1,), (0, 1)])), max_size=3),
    least=st.floats(0, 1),
)
def test_the_choice_is_the_best_of_all_that_reach_the_minimum(
    free: tuple[int, int], number: int, kind: int, beside: list[tuple[int, tuple[int, ...]]], least: float
) -> None:
    shape = machine(*free, residents=tuple(Resident(*neighbour) for neighbour in beside))
    every = [judge(kind, counts, shape, KINDS) for counts in splits(free, number)] if sum(free) >= number else []
    enough = [candidate for candidate in every if candidate.job >= least]
    chosen = (
        next((mapping for mapping in mappings(kind, number, shape, KINDS) if mapping.job >= least), None)
        if every
        else None
    )
    assert (chosen is None) == (not enough)
    assert chosen is None or chosen.system == max(candidate.system for candidate in enough)


def test_the_first_of_equal_machines_is_taken_and_the_one_with_less_left_goes_first() -> None:
    placer = book(4, 4, 4)
    assert placer.take(view(0, 2), 2) == (0, 1)
    assert placer.take(view(1, 2), 2) == (2, 3), "it fills the machine"
    assert placer.take(view(2, 3), 3) == (4, 5, 6)


def test_a_job_of_one_type_goes_to_that_type() -> None:
    placer = book(4, 4, types="ab")
    assert placer.take(view(0, 2, gpu_type="b"), 2) == (4, 5)
    assert placer.take(view(1, 3, gpu_type="b"), 3) is None
    assert placer.free == 6


def test_what_fits_on_no_machine_gets_whole_ones_and_a_part() -> None:
    placer = book(4, 4, 4)
    placer.take(view(0, 1), 1)
    assert placer.take(view(1, 6), 6) == (2, 3, 4, 5, 6, 7), "the rest beside the other job, on a socket of its own"
    before = placer.free
    assert placer.take(view(2, 8), 8) is None
    assert placer.free == before == 5, "what was found for it is free again"


STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 9)), max_size=25)


@settings(max_examples=60)
@given(STEPS, st.sampled_from([(4, 4), (8, 2, 3), (1, 1), (6, 4, 4)]))
def test_the_book_is_what_a_count_from_the_beginning_gives(
    steps: list[tuple[bool, int, int]], nodes: tuple[int, ...]
) -> None:
    placer = book(*nodes)
    held: dict[int, tuple[int, ...]] = {}
    for number, (takes, gpus, which) in enumerate(steps):
        if takes and gpus <= sum(nodes):
            placed = placer.take(view(number, gpus, model=f"m{gpus % 2}"), gpus)
            if placed is not None:
                assert len(set(placed)) == gpus
                assert not set(placed) & {device for devices in held.values() for device in devices}
                held[number] = placed
            elif not held:
                raise AssertionError(f"an idle cluster has no place for {gpus} devices")
        elif held:
            placer.give(held.pop(sorted(held)[which % len(held)]))
        assert placer.free == sum(nodes) - sum(map(len, held.values()))
    for number in sorted(held):
        placer.give(held[number])
    assert placer._open == book(*nodes)._open
    assert placer._free == book(*nodes)._free
    assert not placer._owner
