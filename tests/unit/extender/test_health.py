"""Nodes and devices that come and go: used again only after they have been good for long enough."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors.core import DoorOptions
from paictl.doors.health import DoorHealth
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness

GOOD = NodeStatus("n0", ready=True, schedulable=True)
BAD = replace(GOOD, ready=False)
LONG = 60.0


def test_nothing_flaps_in_a_thousand_random_sequences() -> None:
    """Whatever comes and goes: who is used again has been good for so long, and who stays good is used again."""
    dice = random.Random(3)  # noqa: S311
    for _ in range(1000):
        now = [0.0]
        health = DoorHealth({"n0": 4}, lambda now=now: now[0], LONG)  # type: ignore[misc]
        health.nodes["n0"] = GOOD
        node_bad, devices_bad = False, set[int]()
        good_since = dict.fromkeys((-1, 0, 1), 0.0)
        broken: set[int] = set()
        for _ in range(30):
            now[0] += dice.choice((0.5, 5, 20, 59, 61))
            which = dice.choice((-1, 0, 1))
            if which in broken:
                broken.remove(which)
                good_since[which] = now[0]
            else:
                broken.add(which)
            health.nodes["n0"] = BAD if -1 in broken else GOOD
            reason = health.judge("n0", was_bad=node_bad)
            if node_bad and not reason:
                assert now[0] - good_since[-1] >= LONG
            assert reason or -1 not in broken
            node_bad = bool(reason)
            health.judge_devices("n0", {index: "xid" for index in broken if index >= 0})
            bad = set(health.bad_devices.get("n0", ()))
            for index in devices_bad - bad:
                assert now[0] - good_since[index] >= LONG
            assert broken - {-1} <= bad
            assert {index for _, index in health.bad_since} == broken - {-1}, "who recovers is not to be left"
            devices_bad = bad
        now[0] += LONG
        nodes, with_devices = health.healed()
        assert nodes == ({"n0"} if node_bad and -1 not in broken else set())
        assert with_devices == ({"n0"} if devices_bad - broken else set())


def used(harness: Harness) -> bool:
    return harness.core.book.health["n0"]


@pytest.mark.parametrize("long", [0.0, LONG])
def test_a_node_that_is_ready_again_is_used_after_so_many_seconds(long: float) -> None:
    harness = Harness(spec(), DoorOptions(heal_after=long))
    harness.open(NODES)
    assert used(harness)
    harness.core.node_changed(BAD)
    assert not used(harness)
    harness.core.node_changed(GOOD)
    assert used(harness) is (long == 0)
    harness.now += LONG - 1
    harness.reconciler.reconcile()
    assert used(harness) is (long == 0)
    assert long == 0 or "is good again, but not for 60 s yet" in harness.core.health.bad["n0"]
    harness.now += 1
    harness.reconciler.reconcile()
    assert used(harness)
    assert not harness.core.health.bad


def test_a_node_is_used_at_once_where_it_was_never_bad() -> None:
    harness = Harness(spec(), DoorOptions(heal_after=LONG))
    harness.open(NODES)
    assert all(harness.core.book.health[name] for name in NODES)
