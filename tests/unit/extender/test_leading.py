"""Who does not lead (for long enough), or is ending, changes nothing in the cluster, whatever is due."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from paictl.doors import housekeeping
from paictl.doors.binder import MARGIN
from paictl.doors.core import DoorCore
from paictl.doors.gangs import AFTER
from paictl.scheduler.book import Preemption
from tests.unit.extender.harness import Harness, gang
from tests.unit.extender.test_gangs import come, pass_time
from tests.unit.extender.test_repair import away, begun
from tests.unit.extender.test_windows import plan


def preemption(harness: Harness) -> None:
    for made in gang("low", 3, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])


def unfinished_gang(harness: Harness) -> None:
    harness.core.options = replace(harness.core.options, gang_deadline=120)
    come(harness, *gang("g", 3, 4)[:2])
    pass_time(harness, 110)
    harness.now += 30


def window(harness: Harness) -> None:
    node = harness.run(gang("g", 1, 4)[0])
    plan(harness, node, after=0)


def lost_member(harness: Harness) -> None:
    places = begun(harness)
    away(harness, places["g-1"])
    harness.now += AFTER


def asked_again(harness: Harness) -> None:
    for made in gang("full", 1, 4), gang("rest", 2, 4):
        for one in made:
            harness.run(one)
    harness.ask(gang("late", 1, 4)[0])
    harness.delete("full-0")
    harness.now += 10


DUE: dict[str, Callable[[Harness], None]] = {
    "preemption": preemption,
    "unfinished gang": unfinished_gang,
    "window": window,
    "lost member": lost_member,
    "asked again": asked_again,
}


def deeds(harness: Harness) -> list[str]:
    """What was written; pods are bound before."""
    calls = harness.server.calls
    return [call for call in calls if not call.startswith(("GET", "ASK")) and call.split()[1] != "binding"]


@pytest.mark.parametrize("due", DUE)
@pytest.mark.parametrize(("remaining", "ending"), [(MARGIN, False), (0.0, False), (-math.inf, False), (60.0, True)])
def test_nothing_is_written_while_this_process_does_not_lead(
    harness: Harness, due: str, remaining: float, ending: bool
) -> None:
    DUE[due](harness)
    harness.reconciler.remaining = lambda: remaining
    if ending:
        harness.reconciler.stop()
    harness.reconciler.reconcile()
    assert deeds(harness) == []


@pytest.mark.parametrize("due", DUE)
def test_the_same_goes_while_it_leads(harness: Harness, due: str) -> None:
    DUE[due](harness)
    harness.reconciler.reconcile()
    assert deeds(harness)


@pytest.mark.parametrize("due", DUE)
def test_the_loop_does_not_even_look_while_it_does_not_lead(harness: Harness, due: str) -> None:
    DUE[due](harness)
    before, rounds = list(harness.server.calls), [0.0, MARGIN, -math.inf]

    def remaining() -> float:
        harness.core.work.set()  # the next round need not wait
        if len(rounds) == 1:
            harness.reconciler.stop()
        return rounds.pop()

    harness.reconciler.remaining = remaining
    harness.reconciler._run()
    assert rounds == []
    assert harness.server.calls == before


def test_a_fault_in_a_round_does_not_end_the_loop(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its thread nothing would be evicted, repaired or released any more, and nobody would learn of it."""
    preemption(harness)
    faults = [KeyError("metadata")]

    def preemptions(core: DoorCore, _: object) -> list[Preemption]:
        harness.core.work.set()  # the next round need not wait
        if faults:
            raise faults.pop()
        harness.reconciler.stop()
        return core.book.preemptions()

    monkeypatch.setattr(housekeeping, "preemptions", preemptions)
    monkeypatch.setattr(harness.reconciler._stop, "wait", lambda _: False)
    harness.reconciler._run()
    assert faults == []


def test_the_rest_of_a_gang_is_left_to_who_leads_by_then(harness: Harness) -> None:
    """A gang may have hundreds of pods, and each takes a request."""
    places = [harness.run(made) for made in gang("g", 3, 4)]
    plan(harness, *places, after=0)
    harness.reconciler.remaining = lambda: 0.0 if harness.evictions() else 60.0
    harness.reconciler.reconcile()
    assert len(harness.evictions()) == 1
    harness.reconciler.remaining = lambda: math.inf
    harness.delete(harness.evictions()[0].split()[-1])
    harness.now += 40
    harness.reconciler.reconcile()
    assert len(harness.evictions()) == 3
