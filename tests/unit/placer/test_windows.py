"""Maintenance windows behind the placer."""

from __future__ import annotations

import pytest

from paictl.cluster.maintenance import KEY, windows_text
from paictl.units import Millis
from paictl.workload.windows import Window, Windows
from tests.unit.extender.harness import gang
from tests.unit.placer.test_placing import Placer


@pytest.fixture
def placer() -> Placer:
    return Placer()


def plan(placer: Placer, *nodes: str, after: float, lasts: float = 3600) -> None:
    start = placer.now + after
    window = Window("disks", nodes, Millis(int(1000 * start)), Millis(int(1000 * (start + lasts))))
    placer.core.windows_changed({"data": {KEY: windows_text(Windows((window,)))}})


def test_gangs_are_pinned_beside_the_window_and_there_once_it_is_over(placer: Placer) -> None:
    plan(placer, "n0", "n1", after=600)
    placer.create(gang("g", 2, 4))
    placer.create(gang("h", 1, 4))
    placer.round()
    assert {placer.node("g-0"), placer.node("g-1")} == {"n2", "n3"}
    assert placer.node("h-0") == ""
    assert any("maintenance windows close n0, n1 to it" in event.message for event in placer.recorded)
    placer.now += 600 + 3600
    placer.round()
    assert placer.node("h-0") in ("n0", "n1")


def test_one_pod_with_a_short_limit_brings_no_gang_beneath_a_window(placer: Placer) -> None:
    plan(placer, "n0", "n1", after=600)
    made = gang("g", 2, 4)
    made[0]["spec"]["activeDeadlineSeconds"] = 300
    placer.create(gang("other", 1, 4))
    placer.round()
    placer.create(made)
    placer.round()
    assert [placer.node("g-0"), placer.node("g-1")] == ["", ""]
    made[1]["spec"]["activeDeadlineSeconds"] = 300
    placer.create(made)
    placer.round()
    assert all((placer.node("g-0"), placer.node("g-1")))


def test_a_pinned_gang_leaves_when_the_window_begins(placer: Placer) -> None:
    placer.create(gang("g", 2, 4))
    placer.round()
    plan(placer, placer.node("g-1"), after=600)
    placer.reconciler.reconcile()
    assert not [call for call in placer.server.calls if "eviction" in call]
    placer.now += 600
    placer.reconciler.reconcile()
    assert [call for call in placer.server.calls if call.startswith("POST eviction")] == [
        "POST eviction g-0",
        "POST eviction g-1",
    ]
