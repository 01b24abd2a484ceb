"""Interleaving: the period of a group, whether grouping pays, and which jobs are grouped."""

from __future__ import annotations

from itertools import combinations, permutations
from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.sim.programs import interleave
from paictl.sim.programs.interleave import (
    SLOWER,
    Grouping,
    JobsOfSize,
    Kind,
    Pairing,
    StageKinds,
    Stages,
    efficiency,
    grouped,
    kind,
    pairs,
    period,
    worth_it,
)
from paictl.sim.programs.linear import Program, ProgramError

LOAD, COMPUTE = Stages(100.0, 10.0, 0.0, 110.0), Stages(10.0, 100.0, 0.0, 110.0)
EVEN = Stages(30.0, 30.0, 30.0, 90.0)


def test_one_alone_takes_its_step() -> None:
    assert period((LOAD,)) == 110


def test_two_take_turns() -> None:
    assert period(kind((LOAD,), (COMPUTE,))) == pytest.approx(110, abs=11), "one loads while the other computes"
    assert period(kind((COMPUTE,), (COMPUTE,))) >= 200, "both compute"
    assert period(kind((LOAD,), (LOAD,))) == 120, "one reads while the other prepares"
    assert period(kind((EVEN,), (EVEN,))) <= 120


def test_a_pair_that_uses_the_same_resource_is_not_worth_it() -> None:
    assert worth_it(kind((LOAD,), (COMPUTE,)))
    assert not worth_it(kind((COMPUTE,), (COMPUTE,)))
    assert worth_it((LOAD,))


def test_the_period_of_a_group_does_not_depend_on_how_it_is_written() -> None:
    assert kind((LOAD,), (COMPUTE,)) == kind((COMPUTE,), (LOAD,))


STAGES = st.builds(
    lambda load, compute, network: Stages(load, compute, network, load + compute + network),
    *(st.floats(1, 100) for _ in range(3)),
)


@given(st.lists(STAGES, min_size=1, max_size=4))
def test_no_resource_is_busy_for_longer_than_a_period(jobs: list[Stages]) -> None:
    group = kind(*((job,) for job in jobs))
    assert period(group) >= max(sum(getattr(job, name) for job in jobs) for name in ("compute", "network")) - 1e-6
    assert period(group) <= sum(job.step for job in jobs) + 1e-6 or len(jobs) > 1
    assert efficiency(group) <= 1


def heaviest(nodes: list[Kind]) -> float:
    """The best matching of a few, by trying all."""
    if len(nodes) < 2:
        return 0.0
    first, rest = nodes[0], nodes[1:]
    best = heaviest(rest)
    for place, other in enumerate(rest):
        best = max(best, efficiency(kind(first, other)) + heaviest(rest[:place] + rest[place + 1 :]))
    return best


@given(st.lists(st.tuples(STAGES, st.integers(1, 3)), min_size=1, max_size=3, unique_by=lambda row: row[0]))
def test_pairs_are_a_heaviest_matching_but_for_what_half_pairs_cost(rows: list[tuple[Stages, int]]) -> None:
    counts = tuple(sorted(((stages,), number) for stages, number in rows))
    nodes: list[Kind] = [stages for stages, number in counts for _ in range(number)]
    matched = pairs(counts)
    used = [member for first, second, number in matched for member in (first, second) for _ in range(number)]
    assert all(used.count(stages) <= number for stages, number in counts)
    weight = sum(number * efficiency(kind(first, second)) for first, second, number in matched)
    best = heaviest(nodes)
    longest = max((efficiency(kind(a, b)) for a, b in combinations(nodes, 2)), default=0.0)
    assert best - 1.5 * longest - 1e-6 <= weight <= best + 1e-6


def test_nobody_is_grouped_where_all_fit() -> None:
    kinds = [[(LOAD,), (COMPUTE,)]]
    assert grouped(kinds, [1], 2) == [[[0], [1]]]
    assert grouped(kinds, [1], 1) == [[[0, 1]]]


def test_merging_ends_when_the_rest_fits_and_at_four() -> None:
    kinds = [[(LOAD,), (COMPUTE,)] * 4]
    assert sorted(len(group) for group in grouped(kinds, [1], 6)[0]) == [1, 1, 1, 1, 2, 2]
    assert [len(group) for group in grouped(kinds, [1], 1)[0]] == [4, 4]
    assert sorted(place for group in grouped(kinds, [1], 3)[0] for place in group) == list(range(8))


def test_a_step_takes_longer_together_than_planned() -> None:
    assert len(SLOWER) == 4
    assert efficiency(kind((EVEN,), (EVEN,))) == pytest.approx(180 / (period((EVEN, EVEN)) * 1.33 * 4))


def slots(order: tuple[Stages, ...]) -> float:
    """The period of jobs in one order, slot by slot, as `period` describes it."""
    ends = [0.0]
    for slot in range(8):
        latest = 0.0
        for place, job in enumerate(order):
            turn = (place - slot) % 4
            if turn == 1:
                latest = max(latest, ends[slot] + job.network)
            elif turn == 2:
                latest = max(latest, ends[slot] + job.compute)
            elif turn == 3 and slot:
                latest = max(latest, ends[slot - 1] + job.load)
        ends.append(latest)
        if slot >= 4 and isclose(ends[-1] - ends[-5], ends[-2] - ends[-6], rel_tol=1e-3):
            break
    return ends[-1] - ends[-5]


@given(st.lists(STAGES, min_size=3, max_size=4))
def test_a_period_is_that_of_the_best_order_slot_by_slot(jobs: list[Stages]) -> None:
    assert period(kind(*((job,) for job in jobs))) == min(slots(order) for order in permutations(jobs))


def test_a_pair_is_judged_once_however_the_numbers_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each event of a simulation asks for other numbers of the same kinds."""
    judged: list[Kind] = []

    def judge(group: Kind) -> float:
        judged.append(group)
        return efficiency(group)

    monkeypatch.setattr(interleave, "efficiency", judge)
    kinds: list[Kind] = [(Stages(70.0 + place, 3.0, 2.0, 80.0),) for place in range(5)]
    for number in range(2, 6):
        pairs(tuple((stages, number) for stages in kinds))
    assert sorted(judged) == sorted(
        {kind(*two) for two in combinations(kinds, 2)} | {kind(stages, stages) for stages in kinds}
    )


def test_weights_that_are_forgotten_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = interleave._Weights()
    monkeypatch.setattr(interleave._Weights, "_MOST", 2)
    for kinds in ([(LOAD,), (COMPUTE,)], [(EVEN,), (COMPUTE,)], [(LOAD,), kind((EVEN,), (EVEN,), (LOAD,), (LOAD,))]):
        assert weights.rows(kinds) == [
            [efficiency(kind(stages, two)) if len(stages + two) <= 4 else 0.0 for two in kinds[first:]]
            for first, stages in enumerate(kinds)
        ]


@given(
    st.lists(STAGES, min_size=2, max_size=5, unique=True),
    st.lists(st.lists(st.integers(0, 6), min_size=5, max_size=5), min_size=1, max_size=6),
)
def test_a_matching_does_not_depend_on_what_was_asked_before(stages: list[Stages], asked: list[list[int]]) -> None:
    kinds = StageKinds()
    numbers = [kinds.number((job,)) for job in stages]
    pairing = Pairing(kinds)
    for row in asked:
        counts = {number: count for number, count in zip(numbers, row, strict=False) if count}
        assert pairing.pairs(counts) == Pairing(kinds).pairs(counts)


def test_of_equally_good_matchings_it_is_always_the_same_one() -> None:
    """All pairs have the same weight: which ones the solver takes depends on its last vertex."""
    kinds = StageKinds()
    equal = [kinds.number((Stages(40.0, 20.0, 20.0, 80.0 + place * 1e-12),)) for place in range(6)]
    pairing = Pairing(kinds)
    for left_out in range(6):
        counts = {number: 3 for place, number in enumerate(equal) if place != left_out}
        assert pairing.pairs(counts) == Pairing(kinds).pairs(counts)


def test_of_equally_good_matchings_one_is_the_heaviest_by_more_than_the_solver_overlooks() -> None:
    """Six kinds, one group of each: of the fifteen ways to pair all of them, no two weigh the same."""
    kinds = StageKinds()
    equal = [kinds.number((Stages(40.0, 20.0, 20.0, 80.0 + place * 1e-12),)) for place in range(6)]
    pairing = Pairing(kinds)
    chosen = {(first, second) for first, second, _ in pairing.pairs(dict.fromkeys(equal, 1))}
    weights = {frozenset(two): -weight for weight, *two in pairing._columns}

    def matchings(remaining: list[int]) -> list[list[frozenset[int]]]:
        return [
            [frozenset((remaining[0], other)), *rest]
            for other in remaining[1:]
            for rest in matchings([number for number in remaining[1:] if number != other])
        ] or [[]]

    ranked = sorted(matchings(equal), key=lambda way: -sum(weights[pair] for pair in way))
    heaviest, second = (sum(weights[pair] for pair in way) for way in ranked[:2])
    assert heaviest - second > 1e-6, "HiGHS takes what differs by less than 1e-7 for the same"
    assert {frozenset(pair) for pair in chosen} == set(ranked[0])


def test_a_walk_that_loses_its_way_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = StageKinds()
    load, compute = kinds.number((LOAD,)), kinds.number((COMPUTE,))
    pairing = Pairing(kinds)
    assert pairing.pairs({load: 1, compute: 1}) == [(compute, load, 1)]
    solve, lost = Program.solve, [True]

    def once(program: Program) -> object:
        if lost.pop() if lost else False:
            raise ProgramError("the solver ended with: Unknown")
        return solve(program)

    monkeypatch.setattr(Program, "solve", once)
    assert pairing.pairs({load: 2, compute: 2}) == [(compute, load, 2)]


def test_kinds_that_are_gone_make_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pairing, "_KEPT", 2)
    kinds = StageKinds()
    pairing = Pairing(kinds)
    for place in range(6):
        other = kinds.number((Stages(90.0, 5.0 + place, 0.0, 95.0 + place),))
        compute = kinds.number((COMPUTE,))
        assert sum(number for *_, number in pairing.pairs({other: 2, compute: 2})) == 2


def test_who_was_together_stays_together_where_that_is_as_good() -> None:
    grouping = Grouping()
    load, compute = grouping.kinds.number((LOAD,)), grouping.kinds.number((COMPUTE,))
    jobs = [(0, load), (1, compute), (2, load), (3, compute)]
    assert {unit for unit, _ in grouping.groups([JobsOfSize("", 1, jobs)], 2)[0]} == {(0, 1), (2, 3)}
    jobs = [(2, load), (1, compute), (0, load), (3, compute)]  # others are more urgent now
    assert {unit for unit, _ in grouping.groups([JobsOfSize("", 1, jobs)], 2)[0]} == {(0, 1), (2, 3)}
    jobs = [(4, load), (2, load), (1, compute), (3, compute)]  # 0 has ended, another one came
    assert {unit for unit, _ in grouping.groups([JobsOfSize("", 1, jobs)], 2)[0]} == {(1, 4), (2, 3)}


def test_a_group_of_four_stays_together() -> None:
    grouping = Grouping()
    even = grouping.kinds.number((EVEN,))
    jobs = [(job, even) for job in range(8)]
    before = {unit for unit, _ in grouping.groups([JobsOfSize("", 1, jobs)], 2)[0]}
    after = {unit for unit, _ in grouping.groups([JobsOfSize("", 1, jobs[::-1])], 2)[0]}
    assert after == before
    assert sorted(map(len, before)) == [4, 4]
