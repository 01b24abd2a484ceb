"""Reservations that nobody came for, and pods to be queued again."""

from __future__ import annotations

from paictl.cluster.devices.claims import read_claim
from paictl.cluster.devices.pod_claims import ClaimOptions, PodClaims
from paictl.cluster.pods.nodes import NodeStatus
from paictl.doors import claims as door
from paictl.doors import housekeeping
from paictl.extender.verbs import filter_nodes
from paictl.extender.wire import FilterArgs
from paictl.remote.kube.client import Json
from tests.unit.cluster.devices.played import CLASS, PlayedServer
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Harness, gang, pod


def test_devices_that_nobody_comes_for_are_given_back(harness: Harness) -> None:
    stuck = gang("stuck", 3, 4)
    for made in stuck:
        harness.ask(made)
    harness.now += 59
    assert housekeeping.overdue(harness.core) == []
    harness.now += 2
    harness.reconciler.reconcile()
    assert harness.reasons_of("stuck-0") == ["ReservationReleased"]
    assert "has to pass filter first" in harness.bind(stuck[0], "n0")
    for made in gang("other", 3, 4):
        harness.run(made)


def test_a_pod_that_would_fit_now_is_queued_again(harness: Harness) -> None:
    for made in gang("full", 3, 4):
        harness.run(made)
    harness.ask(gang("late", 1, 4)[0])
    harness.now += 10
    assert housekeeping.to_requeue(harness.core) == []
    harness.delete("full-0")
    assert [ref.name for ref in housekeeping.to_requeue(harness.core)] == [], (
        "the rest of its gang still holds the node"
    )
    harness.delete("full-1")
    harness.delete("full-2")
    assert [ref.name for ref in housekeeping.to_requeue(harness.core)] == ["late-0"]
    assert housekeeping.to_requeue(harness.core) == [], "kube-scheduler has time to ask"
    harness.now += 3
    assert housekeeping.to_requeue(harness.core) == [], "and ever more time"
    harness.now += 3
    assert [ref.name for ref in housekeeping.to_requeue(harness.core)] == ["late-0"]


def test_a_gang_is_queued_again_when_the_claims_of_its_place_are_freed(harness: Harness) -> None:
    """Until then no pod of it is bound: the others of its gang could not be."""
    server, names = PlayedServer(), [f"full-{at}" for at in range(3)]
    claims = PodClaims(
        server,  # type: ignore[arg-type]
        ClaimOptions((CLASS,), (CLASS,)),
        door.promised_indexes(harness.core.book.engine.state),
        lambda: harness.now,
    )
    nodes = {made["metadata"]["name"]: harness.run(made) for made in gang("full", 3, 4)}
    for name in names:
        claim = server.add(name, f"uid-{name}", 4)
        results = [{"request": "r0", "driver": CLASS, "pool": nodes[name], "device": f"gpu-{at}"} for at in range(4)]
        claim["status"]["allocation"] = {"devices": {"results": results}}
        claims.ledger.change(read_claim(claim))
    for node in NODES:
        devices = [{"name": f"gpu-{at}"} for at in range(4)]
        spec = {"driver": CLASS, "nodeName": node, "pool": {"name": node}, "devices": devices}
        claims.directory.slice_changed({"metadata": {"name": node}, "spec": spec})
    harness.core.claims = claims
    late = gang("late", 2, 4)
    for made in late:
        harness.ask(made)
    for name in names:
        harness.delete(name)
    claims.ledger.remove("default/full-0")
    harness.now += 10
    assert housekeeping.to_requeue(harness.core) == []
    assert "whose pod is gone" in harness.ask(late[0]).failed[nodes["full-0"]]
    for name in names[1:]:
        claims.ledger.remove(f"default/{name}")
    harness.core.claims_changed()
    harness.now += 0.3
    assert {ref.name for ref in housekeeping.to_requeue(harness.core)} == {"late-0", "late-1"}
    assert {harness.run(made) for made in late} <= set(nodes.values())


def test_who_waits_for_victims_is_queued_again_only_when_they_are_gone(harness: Harness) -> None:
    for made in gang("low", 3, 4):
        harness.run(made)
    harness.ask(gang("high", 1, 4, priority=5)[0])
    harness.now += 10
    harness.core.node_changed(NodeStatus("n3", ready=False, schedulable=True))  # something changes
    assert housekeeping.to_requeue(harness.core) == []
    for i in range(3):
        harness.delete(f"low-{i}")
    assert [ref.name for ref in housekeeping.to_requeue(harness.core)] == ["high-0"]


def test_gated_and_foreign_pods_are_left_alone(harness: Harness) -> None:
    made = gang("gated", 1, 4)[0]
    made["spec"]["schedulingGates"] = [{"name": "wait"}]
    harness.core.pod_changed(made)
    harness.core.pod_changed(pod("foreign", None))
    harness.now += 100
    assert housekeeping.to_requeue(harness.core) == []
    assert harness.core.table.find("default", "foreign") is None


def test_pods_that_were_only_fetched_are_forgotten_once_they_are_gone(harness: Harness) -> None:
    """They were gone before their first news came; nobody would ever say that they are."""
    for made in gang("full", 3, 4):
        harness.run(made)
        harness.core.pod_changed(made)
    for i in range(50):
        _fetched(harness, gang(f"stranger{i}", 1, 4)[0])
    _fetched(harness, pod("broken", "{"))
    waiting = harness.create(gang("waiting", 1, 4)[0])
    harness.core.pod_changed(waiting)
    harness.now += 30
    harness.reconciler.reconcile()
    assert len(harness.core.table.by_uid) == 3 + 51 + 1
    harness.now += 31
    harness.reconciler.reconcile()
    assert {entry.ref.name for entry in harness.core.table} == {"full-0", "full-1", "full-2", "waiting-0"}
    assert len(harness.core.book.pods) == 3, "and nothing is kept about them elsewhere"
    assert "GET pod waiting-0" not in harness.server.calls, "the API server has spoken of it, and will when it goes"


def _fetched(harness: Harness, made: Json) -> None:
    """Asked about before its first news came, and so looked up by name."""
    harness.core.table.meet(made, harness.now)
    filter_nodes(harness.core, FilterArgs(made, NODES))


def test_a_pod_that_is_gone_when_it_is_to_be_queued_again_is_forgotten(harness: Harness) -> None:
    for made in gang("full", 3, 4):
        harness.run(made)
    late = gang("late", 1, 4)[0]
    harness.ask(late)
    harness.core.pod_changed(late)
    for i in range(3):
        harness.delete(f"full-{i}")
    del harness.server.pods["default/late-0"]  # its deletion was missed
    harness.now += 10
    harness.reconciler.reconcile()
    assert harness.core.table.find("default", "late-0") is None


def test_new_pods_in_a_long_queue_are_not_queued_again(harness: Harness) -> None:
    """kube-scheduler is at work on it: each of them would be a patch, and a storm for all who watch."""
    waiting = [pod(f"new-{i}", {"virtualCluster": "A", "priority": 0, "leafCellNumber": 1}) for i in range(5)]
    for made in waiting:
        harness.core.pod_changed(made)
    harness.now += 10
    harness.run(waiting[0])
    assert housekeeping.to_requeue(harness.core) == []
    harness.now += 2  # it has stopped asking: perhaps it asked a process before this one
    assert len(housekeeping.to_requeue(harness.core)) == 4
