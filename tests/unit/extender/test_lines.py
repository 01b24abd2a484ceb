"""Who is alone in its line: found by a few pods, and told from who has company."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

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
