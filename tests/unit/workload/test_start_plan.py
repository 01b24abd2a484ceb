"""Promised starts for all gangs in line hold whatever places are chosen: here by dice, not by the core."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.backfill import LineGang
from paictl.workload.startplan import NEVER, LeafTimes, LinePlan, PlannedStart, places_taken

NODES = ((4, 4, 8), (4, 2))
"""Leaves of the nodes in each view."""
MEMBERS = (
    ((1, 1),),
    ((1, 3),),
    ((2, 1),),
    ((2, 2),),
    ((4, 1),),
    ((4, 2),),
    ((8, 1),),
    ((3, 1),),
    ((3, 2),),
    ((1, 2), (4, 1)),
    ((2, 1), (3, 1)),
)
Place = Counter[tuple[int, int]]


@dataclass
class Nodes:
    """Stands for `LeafTimes`: groups with their ends and leaves by view and node."""

    groups: dict[str, tuple[Millis, Place]] = field(default_factory=dict)

    def views(self, request: PodRequest) -> tuple[int, ...]:
        return {"": (0, 1), "X": (0,), "Y": (1,)}[request.leaf_type]

    def leaves_of(self, placed: Place) -> Place:
        return placed

    def free(self, view: int, slot: int, at: int) -> int:
        return NODES[view][slot] - sum(place[view, slot] for end, place in self.groups.values() if end > at)

    def room(self, view: int, size: int, at: int) -> int:
        return sum(self.free(view, slot, at) // size for slot in range(len(NODES[view])))

    def rooms(self, view: int, size: int) -> tuple[list[Millis], list[int]]:
        times = [Millis(-1), *sorted({end for end, _ in self.groups.values() if end < NEVER})]
        return times, [self.room(view, size, at) for at in times]


@dataclass
class History:
    """Gangs come, start wherever the dice put them, and end early or at their limits."""

    dice: random.Random
    now: int = 0
    nodes: Nodes = field(default_factory=Nodes)
    line: list[LineGang] = field(default_factory=list)
    known: dict[str, Millis] = field(default_factory=dict)
    number: int = 0
    kept: int = 0

    def plan(self) -> LinePlan:
        """The plan as things are, in which no promise may be later than before."""
        for gang in self.line:
            assert gang.request.group not in self.nodes.groups
        line = sorted(self.line, key=lambda gang: gang.request.group not in self.known)
        plan = LinePlan.of(cast(LeafTimes, self.nodes), Millis(self.now), line, self.known)
        for group, at in self.known.items():
            assert plan.starts[group].at <= max(at, self.now), group
        self.known = {group: start.at for group, start in plan.starts.items()}
        return plan

    def arrive(self) -> None:
        self.number += 1
        name, limit = f"g{self.number}", self.dice.choice((None, 1, 2, 3, 5, 8, 8))
        request = PodRequest(
            name, name, "A", 0, 1, name, self.dice.choice(MEMBERS), leaf_type=self.dice.choice(("", "X", "X", "Y"))
        )
        self.line.append(LineGang(request, None if limit is None else Millis(limit)))

    def place(self, gang: LineGang) -> Place | None:
        """A place somewhere; None if there is none, for which the nodes of each pod are tried in any order."""
        pods = [leaves for leaves, number in gang.request.members for _ in range(number)]
        views = list(self.nodes.views(gang.request))
        self.dice.shuffle(views)
        for view in views:
            found: Place = Counter()
            for leaves in pods:
                slots = [
                    slot
                    for slot in range(len(NODES[view]))
                    if self.nodes.free(view, slot, self.now) - found[view, slot] >= leaves
                ]
                if not slots:
                    break
                found[view, self.dice.choice(slots)] += leaves
            else:
                return found
        return None

    def start(self, gang: LineGang, place: Place) -> None:
        end = NEVER if gang.limit is None else Millis(self.now + gang.limit)
        self.nodes.groups[gang.request.group] = end, place
        self.line.remove(gang)
        self.known.pop(gang.request.group, None)

    def due(self) -> None:
        """All start whose time has come, in any order, and wherever they are put."""
        while due := [gang for gang in self.line if self.known.get(gang.request.group, NEVER) <= self.now]:
            gang = self.dice.choice(due)
            place = self.place(gang)
            assert place is not None, f"there is no place for {gang.request.group} at its promised start"
            self.start(gang, place)
            self.plan()
            self.kept += 1

    def overtake(self) -> None:
        """One that nobody has promised a start now takes a place that breaks no promise."""
        if not self.line:
            return
        gang, plan = self.dice.choice(self.line), self.plan()
        place = self.place(gang)
        end = NEVER if gang.limit is None else Millis(self.now + gang.limit)
        if place is not None and plan.broken_by(gang, cast(Any, place), end) is None:
            self.start(gang, place)

    def step(self) -> None:
        match self.dice.randrange(8):
            case 0 | 1 | 2:
                self.arrive()
            case 3 | 4:
                self.overtake()
            case 5 if self.nodes.groups:  # it ends early
                del self.nodes.groups[self.dice.choice(sorted(self.nodes.groups))]
            case 6 if self.line:  # it is stopped
                gang = self.line.pop(self.dice.randrange(len(self.line)))
                self.known.pop(gang.request.group, None)
            case _:
                self.wait()
        self.plan()
        self.due()

    def wait(self) -> None:
        self.now += 1
        self.nodes.groups = {name: row for name, row in self.nodes.groups.items() if row[0] > self.now}


@settings(max_examples=60)
@given(st.integers(0, 1 << 32))
def test_no_promised_start_is_late_wherever_gangs_are_put(seed: int) -> None:
    history = History(random.Random(seed))  # noqa: S311 - a property test
    for _ in range(60):
        history.step()


def test_the_histories_have_promises() -> None:
    history = History(random.Random(1))  # noqa: S311 - a property test
    for _ in range(600):
        history.step()
    assert history.kept > 100


@pytest.mark.parametrize(("leaves", "size"), [(1, 1), (1, 4), (3, 2), (4, 3), (8, 4), (5, 8)])
def test_a_pod_takes_at_most_so_many_places_of_any_node(leaves: int, size: int) -> None:
    request = PodRequest("u", "u", "A", 0, leaves, "g", ((leaves, 1),))
    lost = [free // size - (free - leaves) // size for free in range(leaves, 30)]
    assert max(lost) == places_taken(request, size)


def gang(name: str, members: tuple[tuple[int, int], ...], limit: int | None, leaf_type: str = "Y") -> LineGang:
    request = PodRequest(name, name, "A", 0, members[-1][0], name, members, leaf_type=leaf_type)
    return LineGang(request, None if limit is None else Millis(limit))


def plan_of(line: list[LineGang], groups: dict[str, tuple[int, Place]], known: dict[str, Millis] | None = None) -> Any:
    nodes = Nodes({name: (Millis(end), place) for name, (end, place) in groups.items()})
    plan = LinePlan.of(cast(LeafTimes, nodes), Millis(0), line, known or {})
    return {group: start.at for group, start in plan.starts.items()}


RUNNING: dict[str, tuple[int, Place]] = {"r": (10, Counter({(1, 0): 4})), "s": (4, Counter({(1, 1): 2}))}


def test_gangs_start_one_after_another_in_the_order_of_the_line() -> None:
    line = [gang("a", ((4, 1),), 5), gang("b", ((4, 1),), 5), gang("c", ((2, 1),), 3), gang("d", ((2, 1),), 9)]
    assert plan_of(line, RUNNING) == {"a": 10, "b": 15, "c": 4, "d": 20}


def test_who_has_a_promise_keeps_it_and_others_come_behind() -> None:
    old, new = gang("old", ((4, 1),), 5), gang("new", ((4, 1),), 50)
    assert plan_of([old, new], RUNNING, {"old": Millis(12)}) == {"old": 10, "new": 15}
    assert plan_of([new, old], RUNNING, {"old": Millis(12)}) == {"new": 10, "old": 60}, "of a higher priority"


def test_nothing_is_promised_behind_what_may_run_for_ever() -> None:
    line = [gang("a", ((4, 1),), None), gang("b", ((4, 1),), 5), gang("c", ((2, 1),), 5)]
    assert plan_of(line, RUNNING) == {"a": 10, "c": 4}
    assert plan_of(line, {"r": (NEVER, RUNNING["r"][1])}) == {"c": 0}


def test_small_pods_count_as_places_of_the_large_ones_that_start_meanwhile() -> None:
    """Nobody knows on which node the pod of one device will be: it may be in the way of four on any."""
    line = [gang("small", ((1, 1),), 20, "X"), gang("large", ((4, 4),), 5, "X"), gang("next", ((4, 3),), 5, "X")]
    assert plan_of(line, {}) == {"small": 0, "large": 20, "next": 0}


@dataclass
class ManyEnds:
    """Stands for `LeafTimes`: in one view a leaf becomes free every millisecond from instant 1000 on."""

    ends: int

    def views(self, request: PodRequest) -> tuple[int, ...]:  # noqa: ARG002
        return (0,)

    def rooms(self, view: int, size: int) -> tuple[list[Millis], list[int]]:  # noqa: ARG002
        return [Millis(-1), *(Millis(1000 + end) for end in range(self.ends))], [
            free // size for free in range(self.ends + 1)
        ]

    def room(self, view: int, size: int, at: int) -> int:  # noqa: ARG002
        return min(self.ends, max(0, at - 999)) // size


def test_instants_at_which_a_gang_would_still_be_in_the_way_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work per gang must not grow with the number of planned ends, of which there may be thousands."""
    asked: list[int] = []

    def counting(request: PodRequest, size: int) -> int:
        asked.append(size)
        return places_taken(request, size)

    monkeypatch.setattr("paictl.workload.startplan.places_taken", counting)
    line = [gang("large", ((8, 125),), 10**6)] + [gang(f"g{number}", ((1, 1),), 10**6) for number in range(10)]
    plan = LinePlan.of(cast(LeafTimes, ManyEnds(1000)), Millis(0), line, {})
    assert {start.at for start in plan.starts.values()} == {1999, 1999 + 10**6}
    assert len(asked) < 1000


@settings(max_examples=30)
@given(st.integers(0, 1 << 32))
def test_the_first_start_is_the_same_as_when_each_instant_is_tried(seed: int) -> None:
    history = History(random.Random(seed))  # noqa: S311 - a property test
    for _ in range(40):
        history.step()
        plan = history.plan()
        history.arrive()
        new = history.line.pop()
        assert plan._earliest(new) == each_tried(plan, history.nodes, new)


def each_tried(plan: LinePlan, nodes: Nodes, new: LineGang) -> PlannedStart | None:
    """What `LinePlan._earliest` finds, without passing over any instant."""
    size = max(leaves for leaves, _ in new.request.members)
    made = list[PlannedStart]()
    for view in nodes.views(new.request):
        instants = {plan.now, *nodes.rooms(view, size)[0]}
        instants |= {start.end for start in plan.starts.values() if view in start.views}
        for at in sorted(at for at in instants if plan.now <= at < NEVER):
            start = plan._at(new, Millis(at))
            if start is not None and plan._left_at(start)[view] >= 0:
                made.append(start)
                break
    return min(made, key=lambda start: start.at, default=None)


def test_the_instants_are_those_of_the_leaves() -> None:
    times, rooms = Nodes({name: (Millis(end), place) for name, (end, place) in RUNNING.items()}).rooms(1, 2)
    assert (times, rooms) == ([-1, 4, 10], [0, 1, 3])
    assert rooms[bisect_right(times, 7) - 1] == 1
