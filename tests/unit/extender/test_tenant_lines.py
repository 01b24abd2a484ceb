"""Gangs of two tenants under one name, in lines with promised starts and in the order of opportunistic gangs."""

from __future__ import annotations

import pytest

from paictl.cluster.maintenance import UNIX
from paictl.cluster.pods.times import START_PROMISED
from paictl.remote.kube.client import Json
from paictl.scheduler.wire import GRANTED, SCHEDULING_SPEC
from paictl.units import Millis, instant, rfc3339
from paictl.workload.sharing import read_sharing
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness
from tests.unit.extender.test_tenants import member, two_tenants

HOUR = 3_600_000


def waiting_tenants(mode: str = "easy") -> Harness:
    """All of VC A, which both tenants may use, runs for an hour."""
    harness = two_tenants(sharing=read_sharing({"backfill": [{"mode": mode}]}))
    share_a(harness)
    for number in range(3):
        made = member("team-a", f"r{number}", "A", f"team-a/r{number}", 1)
        made["spec"]["activeDeadlineSeconds"] = 3600
        harness.run(made)
        harness.core.pod_changed(made)
    return harness


def share_a(harness: Harness) -> None:
    harness.core.namespace_changed({"metadata": {"name": "team-b", "annotations": {GRANTED: "A,B"}}})


def both_wait(harness: Harness) -> None:
    """team-b's gang `train` came first; each needs all that VC A has."""
    for tenant in ("team-b", "team-a"):
        for number in range(3):
            made = member(tenant, f"{tenant}-{number}", "A", "train", 3)
            made["spec"]["activeDeadlineSeconds"] = 3600
            made["metadata"]["creationTimestamp"] = rfc3339(instant(UNIX, Millis(0 if tenant == "team-b" else 1000)))
            harness.ask(made)


def promised(harness: Harness) -> dict[str, Millis | None]:
    """By the first pod of each gang with a promise: its start, in milliseconds since 1970."""
    return {
        promise.gang.request.name: promise.at
        for starts in harness.core.starts.starts().values()
        for promise in starts.promises
    }


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_pod_that_names_a_waiting_gang_of_another_namespace_takes_no_promised_start_from_it(mode: str) -> None:
    """Its 98 missing pods would be missed in that gang, which would leave the line."""
    harness = waiting_tenants(mode)
    harness.ask(member("team-b", "squatter", "A", "train", 100))
    for number in range(2):
        harness.ask(member("team-a", f"t{number}", "A", "train", 2))
    assert list(promised(harness)) == ["team-a/t0"]
    assert [(one.pod.name, one.reason) for one in harness.core.starts.news()] == [("t0", "StartPromised")]


def test_two_gangs_of_one_name_have_promised_starts_of_their_own() -> None:
    harness = waiting_tenants("conservative")
    both_wait(harness)
    now = int(1000 * harness.now)
    starts = {"team-b/team-b-0": Millis(now + HOUR), "team-a/team-a-0": Millis(now + 2 * HOUR)}
    assert promised(harness) == starts
    events = harness.core.starts.news()
    assert [(one.pod.name, one.reason) for one in events] == [
        ("team-b-0", "StartPromised"),
        ("team-a-0", "StartPromised"),
    ]
    for name, at in starts.items():
        entry = harness.core.table.find(*name.split("/"))
        assert entry is not None
        assert entry.reading is not None
        latest = harness.core.starts.latest(entry.reading.request)
        assert latest is not None
        assert latest.at == rfc3339(instant(UNIX, at))
        assert "//" not in repr(latest)


def test_promised_starts_of_one_name_are_told_apart_after_a_restart() -> None:
    """The later one must not take the earlier one's place in the line, nor be given its instant."""
    harness = waiting_tenants("conservative")
    both_wait(harness)
    before = promised(harness)
    assert len(before) == 2
    harness.core.starts.news()
    for ref, at in harness.core.starts.unnoted():
        assert at is not None
        harness.server.pods[ref.key]["status"] = {
            "conditions": [{"type": START_PROMISED, "status": "True", "message": rfc3339(instant(UNIX, at))}]
        }
    for key, made in harness.server.pods.items():  # only the promise puts team-b first now
        if key.startswith("team-b/team-b"):
            made["metadata"]["creationTimestamp"] = rfc3339(instant(UNIX, Millis(2000)))
    harness.begin(spec())
    share_a(harness)
    harness.core.namespace_changed({"metadata": {"name": "team-a", "annotations": {GRANTED: "A"}}})
    harness.open(NODES)
    assert promised(harness) == before
    assert harness.core.starts.unnoted() == []


def test_a_gang_of_another_namespace_that_starts_under_the_name_is_no_late_start() -> None:
    harness = waiting_tenants("easy")
    for number in range(2):
        harness.ask(member("team-a", f"t{number}", "A", "train", 2))
    harness.core.starts.news()
    harness.now += 3 * 3600
    for number in range(2):
        harness.delete(f"t{number}", "team-a")
    harness.run(member("team-b", "other", "B", "train", 1))
    harness.core.starts.news()
    assert harness.core.starts.counted["B", "late"] == 0


def opportunistic(made: Json) -> Json:
    noted = made["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = noted[SCHEDULING_SPEC].replace('"priority": 0', '"priority": -1')
    return made


def test_a_pod_that_names_an_opportunistic_gang_of_another_namespace_takes_no_turn_from_it() -> None:
    harness = two_tenants(sharing=read_sharing({"opportunistic-order": {"by": "decayed-use", "half-life": "1h"}}))
    harness.run(opportunistic(member("team-b", "user", "B", "team-b/user", 1)))
    harness.now += 3600  # team-b has used devices without a guarantee since, team-a has not
    harness.create(opportunistic(member("team-b", "squatter", "B", "train", 100)))
    for number in range(2):
        harness.create(opportunistic(member("team-a", f"t{number}", "A", "train", 2)))
    entry = harness.core.table.meet(harness.create(opportunistic(member("team-b", "next", "B", "team-b/next", 1))))
    assert entry.reading is not None
    ahead = harness.core.starts.turns.ahead(entry.reading.request, harness.core.starts.changes)
    assert ahead is not None
    assert ahead.gangs == 1
    assert "another gang goes first" in harness.core.starts.obstacle(entry.reading.request)


def test_a_gang_gives_way_to_the_promised_start_of_a_gang_of_the_same_name() -> None:
    """A virtual cluster in which only a namesake waits is not empty."""
    harness = waiting_tenants()
    harness.delete("r2", "team-a")
    for number in range(3):
        harness.ask(member("team-b", f"b{number}", "A", "train", 3))
    answer = harness.ask(member("team-a", "t0", "A", "train", 1))
    assert answer.names == ()
    said = next(iter(answer.failed.values()))
    assert "it would delay train, which starts at 1970-01-01T01:16:40" in said
