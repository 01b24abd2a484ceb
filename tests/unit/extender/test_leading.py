"""Who does not lead (for long enough), or is ending, changes nothing in the cluster, whatever is due."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from paictl.doors.binder import MARGIN
from paictl.doors.gangs import AFTER
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


DUE: dict[str, Callable[[Harness], None]] = {
    "preemption": preemption, "unfinished gang": unfinished_gang, "window": window, "lost member": lost_member,
}  # fmt: skip


def deeds(harness: Harness) -> list[str]:
    return [call for call in harness.server.calls if call.startswith(("POST eviction", "DELETE"))]


@pytest.mark.parametrize("due", DUE)
@pytest.mark.parametrize(("remaining", "ending"), [(MARGIN, False), (0.0, False), (-math.inf, False), (60.0, True)])
def test_no_pod_goes_while_this_process_does_not_lead(
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
    """Not everything in a round asks again whether it leads: to have a pod asked about again, for one, does not."""
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
