"""Who is alone in its line: found by a few pods, and told from who has company."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from paictl.doors.table import PodEntry, PodRef
from paictl.scheduler.request import PodRequest
from paictl.units import Millis
from paictl.workload.backfill import LineGang
from tests.unit.extender.test_starts import harness_with, pods, run, wait


def test_who_is_alone_in_its_line_starts_and_who_comes_next_sees_the_promises() -> None:
    harness = harness_with("easy")
    starts = harness.core.starts
    run(harness, pods("first", 1, 4, 10))
    assert not starts._backfill.heads, "nobody was asked about: no other gang waits"
    wait(harness, pods("big", 3, 4, 5))
    assert not starts._backfill.heads
    (late,) = pods("late", 1, 4, None)
    assert "it would delay default/big" in wait(harness, [late])
    for number in range(3):
        harness.delete(f"big-{number}")
    harness.reconciler.reconcile()
    assert harness.ask(late).names, "it is alone now, and the promise of another that is gone is none"


def test_a_decision_settles_no_line_but_its_own_and_the_door_all_of_them_by_itself() -> None:
    harness = harness_with("easy", "B")
    run(harness, [*pods("a", 3, 4, 10), *pods("b", 1, 4, 10, vc="B")])
    backfill = harness.core.starts._backfill
    for vc, size in (("A", 3), ("B", 1)):
        wait(harness, pods(f"{vc}-first", size, 4, 5, vc=vc))
    wait(harness, pods("B-next", 1, 4, 5, vc="B"))
    assert backfill.heads == {"B": "default/B-first"}
    harness.reconciler.reconcile()
    assert backfill.heads == {"A": "default/A-first", "B": "default/B-first"}


class Counted:
    """An entry of a pod that counts how often it is looked at."""

    looks = 0

    def __init__(self, uid: str, group: str) -> None:
        self.ref = SimpleNamespace(uid=uid)
        self.reading = SimpleNamespace(request=SimpleNamespace(vc="A", group=group))
        self.is_bound = False

    @property
    def runs(self) -> bool:
        Counted.looks += 1
        return self.is_bound


def test_who_is_alone_is_told_by_a_few_pods() -> None:
    """A decision asks for it, so it may not walk the pods that wait: of its own gang, or of those that start."""
    harness = harness_with("easy")
    known, rows = harness.core.starts.lines, [Counted(f"{group}-{i}", group) for group in "own" for i in range(200)]
    for row in rows:
        known.heard(row, there=True)  # type: ignore[arg-type]
    placed: Any = known._engine.state.groups.by_name
    known._engine = SimpleNamespace(state=SimpleNamespace(groups=SimpleNamespace(by_name={**placed, "w": 1, "n": 1})))  # type: ignore[assignment]
    Counted.looks = 0
    assert known.is_alone(SimpleNamespace(vc="A", group="o"))  # type: ignore[arg-type]
    assert Counted.looks <= 10
    for row in rows[200:400]:
        row.is_bound = True
    for _ in range(2):  # each that runs is looked at once
        assert known.is_alone(SimpleNamespace(vc="A", group="o"))  # type: ignore[arg-type]
    assert Counted.looks <= 220
    assert {entry.reading.request.group for entry in known.entries() if entry.reading} == {"o", "n"}
    assert not known.is_alone(SimpleNamespace(vc="A", group="n"))  # type: ignore[arg-type]
    for row in rows[:200]:
        row.is_bound = True
    assert known.is_alone(SimpleNamespace(vc="A", group="n"))  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(40))
def test_a_line_has_the_gangs_that_are_complete_by_priority_and_age(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a property test
    known = harness_with("easy").core.starts.lines
    known.in_line = lambda entry: not entry.gated
    entries = list[Any]()
    for number in range(rng.randrange(1, 12)):
        size, shape = rng.randrange(1, 4), {"priority": rng.randrange(3), "vc": rng.choice("AB")}
        for pod in range(size if rng.randrange(4) else size - 1):
            request = PodRequest(
                f"u{number}-{pod}",
                f"p{pod}",
                group=f"g{number}",
                leaf_number=1,
                members=((1, size),),
                **shape,  # type: ignore[arg-type]
            )
            entry = PodEntry(PodRef("default", request.name, request.uid), reading=SimpleNamespace(request=request))  # type: ignore[arg-type]
            entry.created, entry.limit = f"2026-12-0{rng.randrange(1, 4)}", rng.choice((None, Millis(5), Millis(7)))
            for flaw in ("deleting", "gated", "runs"):
                setattr(entry, flaw, rng.randrange(12) == 0)
            entry.reservation = rng.choice(("", "") * 5 + ("demo",))
            entries.append(entry)
    rng.shuffle(entries)
    known.start(entries)
    gangs, rows = dict[str, list[Any]](), list[tuple[int, str, str, LineGang]]()
    for entry in entries:
        stands = not (entry.deleting or entry.gated or entry.runs or entry.reservation)
        if stands and entry.reading.request.vc == "A":  # backfill is for A only
            gangs.setdefault(entry.reading.request.group, []).append(entry)
    for group, members in gangs.items():
        limits = [one.limit for one in members]
        request = min((one.reading.request for one in members), key=lambda request: request.name)
        if len(members) == request.members[0][1]:
            gang = LineGang(request, None if None in limits else max(limits))
            rows.append((-request.priority, min(one.created for one in members), group, gang))
    line = [gang for *_, gang in sorted(rows, key=lambda row: row[:3])]
    assert known.all(Millis(0)) == ({"A": line} if line else {})
