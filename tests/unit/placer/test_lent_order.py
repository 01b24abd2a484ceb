"""The order of opportunistic gangs behind both doors: who gets devices first, who waits for whom, and for how long."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from paictl.cluster.pods.labels import Rules
from paictl.doors.core import DoorOptions
from paictl.doors.housekeeping import to_requeue
from paictl.doors.metrics import DoorMetrics
from paictl.doors.term import take_recent
from paictl.doors.turns import PATIENCE
from paictl.doors.views import explain_pod
from paictl.remote.kube.client import Json
from paictl.workload.sharing import read_sharing
from paictl.workload.usagereport import HOUR
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang
from tests.unit.placer.test_placing import Placer

ORDER = read_sharing({"opportunistic-order": {"by": "decayed-use", "half-life": "24h"}})
USED = {("A", "default"): 12 * HOUR, ("B", "default"): 2 * HOUR}
"""An hour for each device that A is promised, half an hour for each of B."""


def lent(name: str, pods: int, vc: str, second: int) -> list[Json]:
    """An opportunistic gang on whole nodes."""
    made = gang(name, pods, 4, vc, -1)
    for pod in made:
        pod["metadata"]["creationTimestamp"] = f"2026-11-25T00:00:{second:02}Z"
    return made


class Sharer(Placer):
    """A placer with the order."""

    sharing = ORDER


def test_the_placer_tries_the_gang_first_whose_tenant_used_less() -> None:
    placer = Sharer()
    take_recent(placer.core, USED)
    placer.create([*lent("a", 3, "A", 1), *lent("b", 3, "B", 2)])
    placer.round()
    assert placer.node("b-0")
    assert not placer.node("a-0")


def test_without_the_order_the_placer_tries_the_older_gang_first() -> None:
    placer = Placer()
    placer.create([*lent("a", 3, "A", 1), *lent("b", 3, "B", 2)])
    placer.round()
    assert placer.node("a-0")
    assert not placer.node("b-0")


def test_the_placer_shares_out_what_is_free_at_one_instant() -> None:
    placer = Sharer()
    gangs = [lent(f"{vc}{number}", 1, vc.upper(), number) for vc in "ba" for number in range(4)]
    placer.create([pod for made in gangs for pod in made])
    placer.round()
    placed = [made[0]["metadata"]["name"] for made in gangs if placer.node(made[0]["metadata"]["name"])]
    assert placed == ["b0-0", "a0-0", "a1-0", "a2-0"], "A is promised three times as much"


# --- the extender


@pytest.fixture
def harness() -> Harness:
    made = Harness(spec(), DoorOptions(rules=Rules(skus=spec().sku_types), sharing=ORDER))
    made.now = datetime(2026, 11, 25, tzinfo=UTC).timestamp()
    made.open(NODES)
    take_recent(made.core, USED)
    return made


def crowd(harness: Harness) -> tuple[list[Json], list[Json]]:
    """All nodes are lent to A; then a gang of A waits, and one of B."""
    for number in range(4):
        harness.run(lent(f"full{number}", 1, "A", 0)[0])
    waiting = lent("a", 3, "A", 1), lent("b", 3, "B", 2)
    for made in waiting:
        for pod in made:
            harness.create(pod)
        for pod in made:
            assert not harness.ask(pod).names
    return waiting


def free(harness: Harness) -> None:
    for number in range(4):
        harness.delete(f"full{number}-0")


def test_behind_the_extender_a_gang_waits_for_one_whose_tenant_used_less(harness: Harness) -> None:
    a, b = crowd(harness)
    said = explain_pod(harness.core, "default", "a-0")
    assert (said["ahead"]["gangs"], said["ahead"]["vc"], said["ahead"]["than"]) == (1, "B", "A")
    assert "1 opportunistic gang is tried before it: virtual cluster B used less lately" in said["text"][-1]
    free(harness)
    answer = harness.ask(a[0])
    assert not answer.names
    why = "another gang goes first: its owner recently used less without a guarantee"
    assert why in str(answer.failed), "nobody's name: the pod's owner reads it"
    said = explain_pod(harness.core, "default", "a-0")
    assert (said["situation"], said["text"]) == (
        "order",
        [f"Pod default/a-0 waits: {why}."],
    )
    harness.now += 5
    assert {ref.name for ref in to_requeue(harness.core)} == {f"b-{number}" for number in range(3)}
    for pod in b:
        assert harness.ask(pod).names
    assert not harness.ask(a[0]).names, "one node is left"


def test_behind_the_extender_nobody_waits_for_long_for_a_gang_that_does_not_start(harness: Harness) -> None:
    a, _ = crowd(harness)
    free(harness)
    assert not harness.ask(a[0]).names
    harness.now += PATIENCE / 1000 - 1
    harness.core.starts.turn()
    assert not harness.ask(a[0]).names
    harness.now += 1
    harness.core.starts.turn()
    assert harness.ask(a[0]).names


def test_behind_the_extender_a_clock_that_is_set_back_makes_nobody_wait_for_longer(harness: Harness) -> None:
    a, _ = crowd(harness)
    free(harness)
    assert not harness.ask(a[0]).names
    harness.now -= 3600
    harness.core.starts.turn()
    harness.now += PATIENCE / 1000
    harness.core.starts.turn()
    assert harness.ask(a[0]).names


def test_behind_the_extender_gangs_that_do_not_start_are_waited_for_at_once_not_in_turn(harness: Harness) -> None:
    a, _ = crowd(harness)
    for second, name in enumerate(("c", "d"), 4):
        for pod in lent(name, 3, "B", second):
            harness.create(pod)
    free(harness)
    assert not harness.ask(a[0]).names
    harness.now += PATIENCE / 1000
    harness.core.starts.turn()
    assert harness.ask(a[0]).names, "three gangs of B, and a minute for all of them"


def test_behind_the_extender_nobody_waits_for_a_gang_that_has_no_place(harness: Harness) -> None:
    crowd(harness)
    harness.delete("full0-0")
    small = lent("small", 1, "A", 3)[0]
    harness.create(small)
    assert harness.ask(small).names, "three nodes are not free"


def test_the_decayed_use_is_measured(harness: Harness) -> None:
    text = DoorMetrics(lambda: harness.core).text().decode()
    assert 'paictl_extender_recent_opportunistic_hours{vc="A"} 12.0' in text
    assert 'paictl_extender_recent_opportunistic_hours{vc="B"} 2.0' in text
    assert "recent" not in DoorMetrics(lambda: Harness(spec()).core).text().decode()
