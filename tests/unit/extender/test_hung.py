"""Pods that do not end although their time is over: nobody with a right to other devices waits for theirs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from paictl.doors.core import DoorOptions
from paictl.doors.housekeeping import HUNG
from paictl.remote.kube.client import Json
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang

GRACE = 30


@pytest.fixture
def harness() -> Harness:
    made = Harness(spec(), DoorOptions(bad_device_deadline=60))
    made.now = datetime(2026, 11, 27, tzinfo=UTC).timestamp()
    made.open(NODES)
    return made


def preempting(harness: Harness) -> Json:
    """A pod of B, which is promised a node, while opportunistic pods have all of them; one is asked to go."""
    for number in range(4):
        harness.run(gang(f"borrower{number}", 1, 4, "A", -1)[0])
    (mine,) = gang("mine", 1, 4, "B")
    assert not harness.ask(mine).names
    harness.reconciler.reconcile()
    assert evicted(harness) == ["borrower0-0"]
    return mine


def evicted(harness: Harness) -> list[str]:
    return list(dict.fromkeys(call.split()[-1] for call in harness.evictions()))


def terminate(harness: Harness, name: str) -> None:
    pod = harness.server.pods[f"default/{name}"]
    pod["metadata"]["deletionTimestamp"] = datetime.fromtimestamp(harness.now + GRACE, UTC).isoformat()
    harness.core.pod_changed(pod)


def later(harness: Harness, seconds: float, mine: Json) -> tuple[str, ...]:
    """Time passes; the nodes that filter answers."""
    harness.now += seconds
    harness.reconciler.reconcile()
    answer = harness.ask(mine).names
    harness.reconciler.reconcile()
    return answer


def test_a_promise_is_kept_elsewhere_if_a_victim_does_not_end(harness: Harness) -> None:
    mine = preempting(harness)
    terminate(harness, "borrower0-0")
    assert later(harness, GRACE + HUNG - 5, mine) == ()
    assert evicted(harness) == ["borrower0-0"], "it may end yet"
    assert later(harness, 10, mine) == ()
    assert evicted(harness) == ["borrower0-0", "borrower1-0"]
    harness.delete("borrower1-0")
    assert later(harness, 5, mine) == ("n1",)
    assert "DeviceBad" in harness.reasons_of("borrower0-0")


def test_its_devices_are_used_again_once_it_has_ended(harness: Harness) -> None:
    mine = preempting(harness)
    terminate(harness, "borrower0-0")
    later(harness, GRACE + HUNG + 5, mine)
    assert set(harness.core.health.bad_devices) == {"n0"}
    assert not harness.ask(gang("early", 1, 4, "A", -1)[0]).names
    harness.delete("borrower0-0")
    later(harness, 1, mine)
    assert harness.core.health.bad_devices == {}
    assert harness.ask(gang("next", 1, 4, "A", -1)[0]).names == ("n0",)


def test_a_pod_that_hangs_is_no_reason_to_evict_the_rest_of_its_gang(harness: Harness) -> None:
    first, second = gang("pair", 2, 4, "A")
    harness.run(first)
    harness.run(second)
    terminate(harness, "pair-0")
    for _ in range(10):
        harness.now += 60
        harness.reconciler.reconcile()
    assert harness.core.health.bad_devices
    assert evicted(harness) == []


def test_a_clock_that_jumps_ahead_and_back_leaves_no_bad_device(harness: Harness) -> None:
    mine = preempting(harness)
    terminate(harness, "borrower0-0")
    later(harness, 86_400, mine)
    assert harness.core.health.bad_devices
    later(harness, -86_400, mine)
    assert harness.core.health.bad_devices == {}
