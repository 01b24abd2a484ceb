"""Promised starts behind the placer: gangs wait whole, and what they are told."""

from __future__ import annotations

from paictl.workload.sharing import read_sharing
from tests.unit.extender.test_starts import pods
from tests.unit.placer.test_placing import Placer


class Backfiller(Placer):
    """A placer with backfill."""

    sharing = read_sharing({"backfill": [{"mode": "easy"}]})


def placed(placer: Placer, name: str, number: int = 1) -> bool:
    return all(placer.node(f"{name}-{i}") for i in range(number))


def test_who_would_delay_the_first_in_line_keeps_its_gate_and_starts_when_that_is_gone() -> None:
    placer = Backfiller()
    placer.create(pods("first", 1, 4, 10))
    placer.round()
    placer.create(pods("big", 3, 4, 5))
    placer.round()
    placer.create(pods("late", 1, 4, 11))
    placer.create(pods("short", 1, 4, 9))
    placer.round()
    assert [placed(placer, name, size) for name, size in (("first", 1), ("big", 3), ("late", 1), ("short", 1))] == [
        True,
        False,
        False,
        True,
    ]
    said = next(one.message for one in placer.recorded if one.pod.name == "late-0")
    assert "it would delay default/big, which starts at" in said
    for name in ("big-0", "big-1", "big-2"):
        placer.delete(name)
    placer.round()
    placer.round()
    assert placed(placer, "late")


def test_gangs_of_a_namespace_that_is_gone_leave_the_line_at_once() -> None:
    placer = Backfiller()
    placer.create(pods("first", 1, 4, 10))
    placer.round()
    placer.create(pods("big", 3, 4, 5))
    placer.round()
    assert placer.core.starts.numbers() == {"A": 1}
    placer.core.namespace_gone("default")
    assert placer.core.starts.numbers() == {}


def test_a_gang_runs_for_as_long_as_any_of_its_pods_whichever_is_asked_about_first() -> None:
    """One pod with a short limit would let the others in, which delay the first in line for ever."""
    placer = Backfiller()
    placer.create(pods("first", 1, 4, 10))
    placer.round()
    placer.create(pods("big", 3, 4, 5))
    placer.round()
    mixed = pods("mixed", 2, 2, 9)
    del mixed[1]["spec"]["activeDeadlineSeconds"]
    placer.create(mixed)
    placer.round()
    assert not placed(placer, "mixed", 2)
    placer.delete("mixed-1")
    mixed[1]["metadata"]["uid"] = "uid-mixed-1-again"
    mixed[1]["spec"] = {**mixed[0]["spec"]}
    placer.create([mixed[1]])
    placer.round()
    assert placed(placer, "mixed", 2)
