"""Members of gangs on a lost node, behind a door: who is given up, when, and where the next pod goes."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.nodes import GIVEN_UP, NodeStatus, node_status
from paictl.doors.core import DoorOptions
from paictl.doors.gangs import AFTER
from paictl.doors.metrics import DoorMetrics
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.workload.devicelimits import Spares
from paictl.workload.sharing import Sharing
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang


def away(harness: Harness, node: str, *, gone: bool = False) -> None:
    if gone:
        harness.core.node_gone(node)
    else:
        harness.core.node_changed(NodeStatus(node, ready=False, schedulable=True))


def begun(harness: Harness, *, repair: bool = True, priority: int = 0) -> dict[str, str]:
    """A gang of two nodes; node by pod."""
    more: dict[str, Any] = {"memberRepairEnable": True} if repair else {}
    return {made["metadata"]["name"]: harness.run(made) for made in gang("g", 2, 4, priority=priority, **more)}


def next_pod(number: int, **more: Any) -> Json:
    (made, _) = gang("g", 2, 4, memberRepairEnable=True, **more)
    about = {**made["metadata"], "name": f"g-{number}", "uid": f"uid-g-{number}"}
    return {**made, "metadata": about}


def lost(harness: Harness) -> list[str]:
    return [call for call in harness.server.calls if call.startswith(("PATCH status", "DELETE"))]


@pytest.mark.parametrize("gone", [False, True])
def test_the_member_on_a_lost_node_is_given_up_and_its_gang_gets_another(harness: Harness, gone: bool) -> None:
    places = begun(harness)
    away(harness, places["g-1"], gone=gone)
    harness.now += AFTER - 0.1
    harness.reconciler.reconcile()
    assert lost(harness) == [], "it may be back in a moment"
    harness.now += 0.1
    harness.reconciler.reconcile()
    assert lost(harness) == ["PATCH status g-1", "DELETE pod g-1"]
    (status,) = harness.server.sent("PATCH status g-1")
    assert status["metadata"] == {"uid": "uid-g-1"}
    assert status["status"]["phase"] == "Failed"
    (condition,) = status["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("DisruptionTarget", "True", "MemberLost")
    assert places["g-1"] in condition["message"]
    assert harness.server.sent("DELETE pod g-1") == [{"preconditions": {"uid": "uid-g-1"}, "gracePeriodSeconds": 0}]
    assert harness.reasons_of("g-1")[-1] == "MemberLost"
    harness.delete("g-1")
    node = harness.run(next_pod(7))
    assert node not in places.values()
    assert harness.reasons_of("g-7") == ["Repaired"]
    assert harness.server.pods["default/g-0"]["spec"]["nodeName"] == places["g-0"]
    text = DoorMetrics(lambda: harness.core).text().decode()
    assert "paictl_extender_members_lost_total 1.0" in text
    assert "paictl_extender_members_repaired_total 1.0" in text
    assert "paictl_extender_joint_repairs_total 0.0" in text


def cut_off(harness: Harness, grace: int | None = None) -> None:
    """A gang whose member on n1 is given up, and n1 the only node left for another."""
    for made in gang("g", 2, 4, memberRepairEnable=True):
        if grace is not None:
            made["spec"]["terminationGracePeriodSeconds"] = grace
        harness.run(made)
    away(harness, "n1")
    harness.now += AFTER
    harness.reconciler.reconcile()
    assert lost(harness) == ["PATCH status g-1", "DELETE pod g-1"]
    harness.delete("g-1")
    for node in ("n2", "n3"):
        away(harness, node)


def read_node(harness: Harness, *, ready: bool = True) -> NodeStatus:
    """n1 as the API server has it now."""
    conditions = [{"type": "Ready", "status": str(ready)}]
    noted = harness.server.noted_nodes.get("n1", {})
    return node_status({"metadata": {"name": "n1", "annotations": noted}, "status": {"conditions": conditions}})


@pytest.mark.parametrize(("grace", "seconds"), [(None, 30), (90, 90), (300, 300)])
@pytest.mark.parametrize("anew", ["", "while it is away", "when it is back", "in its wait"])
def test_a_node_that_is_back_gets_no_pod_before_those_given_up_can_have_ended(
    harness: Harness, grace: int | None, seconds: int, anew: str
) -> None:
    """It was only cut off, and its kubelet ends their containers now: another pod would share their devices. A new
    leader learns of them by the node's annotation."""
    cut_off(harness, grace)
    assert harness.server.noted_nodes == {"n1": {GIVEN_UP: str(seconds)}}
    if anew == "while it is away":
        harness.begin(harness.core.spec)
        harness.core.node_changed(read_node(harness, ready=False))
        harness.open(["n0"])
    harness.core.node_changed(read_node(harness))
    if anew == "in its wait":
        harness.now += 10
    if anew in ("when it is back", "in its wait"):
        harness.begin(harness.core.spec)
        harness.core.node_changed(read_node(harness))
        harness.open(["n0"])
    harness.nodes = ["n0", "n1"]
    harness.now += seconds - 1
    harness.reconciler.reconcile()
    assert not harness.ask(next_pod(7)).names
    harness.now += 1
    harness.reconciler.reconcile()
    assert harness.ask(next_pod(8)).names == ("n1",)
    assert harness.server.noted_nodes == {"n1": {}}, "the next leader has no need to wait"
    harness.server.calls.clear()
    harness.core.node_changed(read_node(harness))
    harness.reconciler.reconcile()
    assert "PATCH node n1" not in harness.server.calls
    assert harness.core.book.health["n1"]


@pytest.mark.parametrize(("grace", "seconds"), [(None, 30), (90, 90), (10**9, 300)])
def test_a_node_waits_for_pods_that_others_removed_while_it_was_away(
    harness: Harness, grace: int | None, seconds: int
) -> None:
    """An administrator deletes them by force: no kubelet has ended them."""
    (made,) = gang("g", 1, 4, "B")
    if grace is not None:
        made["spec"]["terminationGracePeriodSeconds"] = grace
    node = harness.run(made)
    harness.core.pod_changed(made)
    away(harness, node)
    harness.delete("g-0")
    harness.reconciler.reconcile()
    assert harness.server.noted_nodes == {node: {GIVEN_UP: str(seconds)}}
    for other in {*NODES} - {node}:
        away(harness, other)
    harness.core.node_changed(NodeStatus(node, ready=True, schedulable=True))
    harness.now += seconds - 1
    harness.reconciler.reconcile()
    assert not harness.ask(gang("h", 1, 4, "B")[0]).names
    harness.now += 1
    harness.reconciler.reconcile()
    assert harness.ask(gang("h", 1, 4, "B")[0]).names == (node,)


@pytest.mark.parametrize("removed", [False, True])
def test_a_node_does_not_wait_for_pods_that_have_ended(harness: Harness, removed: bool) -> None:
    """On it, or with a node that was removed: the kubelet that registers another one has just started."""
    (made,) = gang("g", 1, 4, "B")
    node = harness.run(made)
    harness.core.pod_changed(made)
    if removed:
        away(harness, node, gone=True)
    harness.delete("g-0")
    away(harness, node)
    harness.core.node_changed(NodeStatus(node, ready=True, schedulable=True))
    assert harness.core.book.health[node]


@pytest.mark.parametrize("status", [403, 404, 422])
def test_a_member_is_given_up_although_nothing_can_be_noted_on_its_node(harness: Harness, status: int) -> None:
    harness.server.refuse["nodes"] = KubeError("no", status=status)
    cut_off(harness)
    tried = harness.server.asked_nodes
    harness.core.node_changed(NodeStatus("n1", ready=True, schedulable=True))
    for _ in range(29):
        harness.now += 1
        harness.reconciler.reconcile()
    assert not harness.ask(next_pod(7)).names, "this process knows"
    assert (tried, harness.server.asked_nodes) == (1, 1), "it does not try again and again"


def test_an_annotation_that_others_wrote_keeps_no_node_for_years(harness: Harness) -> None:
    """A kubelet may change the annotations of its node; `--longest-grace` limits what the scheduler itself writes."""
    harness.server.noted_nodes["n1"] = {GIVEN_UP: "99999999"}
    harness.core.node_changed(read_node(harness))
    assert harness.core.book.health.get("n1") is False
    for _ in range(2):
        harness.now += 300
        harness.reconciler.reconcile()
    assert harness.core.book.health.get("n1")
    assert harness.server.noted_nodes == {"n1": {}}


def test_a_member_is_not_given_up_before_its_node_says_so(harness: Harness) -> None:
    """If this process ended in between, nobody would know that its containers may run."""
    begun(harness)
    away(harness, "n1")
    harness.now += AFTER
    harness.server.refuse["nodes"] = NoAnswerError("the API server is away")
    with pytest.raises(NoAnswerError):
        harness.reconciler.reconcile()
    assert lost(harness) == []
    del harness.server.refuse["nodes"]
    harness.reconciler.reconcile()
    assert lost(harness) == ["PATCH status g-1", "DELETE pod g-1"]


def test_a_member_whose_grace_period_is_beyond_the_limit_is_not_given_up(harness: Harness) -> None:
    """Its containers may run for so long once the node is back, and a node must not wait for years."""
    for made in gang("g", 2, 4, memberRepairEnable=True):
        made["spec"]["terminationGracePeriodSeconds"] = 301
        harness.run(made)
    away(harness, "n1")
    harness.now += 100
    harness.reconciler.reconcile()
    assert lost(harness) == []
    harness.core.node_changed(NodeStatus("n1", ready=True, schedulable=True))
    assert harness.core.book.health["n1"], "it is used again at once, but for the devices of the member"


def test_a_gang_that_did_not_ask_for_it_is_left_alone(harness: Harness) -> None:
    places = begun(harness, repair=False)
    away(harness, places["g-1"])
    harness.now += 100
    harness.reconciler.reconcile()
    assert lost(harness) == []


def test_a_node_that_is_back_in_time_keeps_its_member(harness: Harness) -> None:
    places = begun(harness)
    away(harness, places["g-1"])
    harness.now += AFTER - 1
    harness.core.node_changed(NodeStatus(places["g-1"], ready=True, schedulable=True))
    harness.now += 1
    away(harness, places["g-1"])
    harness.now += AFTER - 1
    harness.reconciler.reconcile()
    assert lost(harness) == [], "the time counts from when it was lost last"


def test_a_cordoned_node_keeps_its_members(harness: Harness) -> None:
    places = begun(harness)
    harness.core.node_changed(NodeStatus(places["g-1"], ready=True, schedulable=False))
    harness.now += 100
    harness.reconciler.reconcile()
    assert lost(harness) == []


def test_without_room_the_pod_says_what_it_waits_for(harness: Harness) -> None:
    places = begun(harness)
    harness.run(gang("other", 1, 4)[0])
    harness.run(gang("theirs", 1, 4, "B")[0])
    away(harness, places["g-1"])
    harness.delete("g-1")
    answer = harness.ask(next_pod(7))
    assert not answer.names
    assert "4 leaf cells needed, 0 free" in str(answer.failed)


def test_borrowers_are_evicted_for_a_member_and_nobody_else_gets_the_place(harness: Harness) -> None:
    places = begun(harness)
    borrowers = {
        made["metadata"]["name"]: harness.run(made) for name in ("x", "y") for made in gang(name, 1, 4, "B", -1)
    }
    away(harness, places["g-1"])
    harness.delete("g-1")
    assert not harness.ask(next_pod(7)).names
    harness.reconciler.reconcile()
    (call,) = harness.evictions()
    victim = call.split()[-1]
    harness.delete(victim)
    assert not harness.ask(gang("rival", 1, 4, "B", -1)[0]).names
    assert harness.run(next_pod(7)) == borrowers[victim]
    assert harness.reasons_of("g-7")[-1] == "Repaired"


def test_a_new_process_knows_where_a_repaired_gang_is(harness: Harness) -> None:
    places = begun(harness)
    away(harness, places["g-1"])
    harness.delete("g-1")
    node = harness.run(next_pod(7))
    harness.begin(harness.core.spec)
    harness.open([one for one in ("n0", "n1", "n2", "n3") if one != places["g-1"]])
    (group,) = harness.core.book.engine.state.groups.by_name.values()
    assert group.virtual is not None
    tree = harness.core.book.engine.state.physical
    held = {
        uid: tree.node_name(leaves[0])
        for slot, leaves, _ in group.placements()
        for uid in [group.pods[slot.member][slot.pod]]
    }
    assert held == {"uid-g-0": places["g-0"], "uid-g-7": node}


def test_a_gang_that_would_use_spare_devices_waits_and_says_why() -> None:
    made = spec()
    options = DoorOptions(rules=Rules(skus=made.sku_types), sharing=Sharing(spares=Spares({"A": 4})))
    harness = Harness(made, options)
    harness.open(NODES)
    places = begun(harness)
    answer = harness.ask(gang("late", 1, 1)[0])
    assert not answer.names
    assert "keeps 4 of its 12 devices for repairs, holds 8, and this needs 1" in str(answer.failed)
    away(harness, places["g-1"])
    harness.delete("g-1")
    assert harness.run(next_pod(7)) not in places.values()


def test_members_on_a_lost_node_that_have_no_room_alone_move_together() -> None:
    """Twelve pods of one device use the whole promise of their virtual cluster."""
    harness = Harness(spec(virtualClusters={"A": {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 3}]}}))
    harness.open(NODES)
    places = {one["metadata"]["name"]: harness.run(one) for one in gang("g", 12, 1, memberRepairEnable=True)}
    (free,) = {*NODES} - {*places.values()}
    lost = sorted(name for name, node in places.items() if node == places["g-0"])
    assert len(lost) == 4
    away(harness, places["g-0"])
    for name in lost:
        harness.delete(name)
    for number in range(20, 24):
        new = gang("g", 12, 1, memberRepairEnable=True)[0]
        new["metadata"] |= {"name": f"g-{number}", "uid": f"uid-g-{number}"}
        assert harness.run(new) == free
        assert harness.reasons_of(f"g-{number}") == ["Repaired"]
    text = DoorMetrics(lambda: harness.core).text().decode()
    assert "paictl_extender_members_repaired_total 4.0" in text
    assert "paictl_extender_joint_repairs_total 1.0" in text, "they moved once, all together"
    for name, node in places.items():
        if name not in lost:
            assert harness.server.pods[f"default/{name}"]["spec"]["nodeName"] == node
    harness.begin(harness.core.spec)
    harness.open([one for one in NODES if one != places["g-0"]])
    (group,) = harness.core.book.engine.state.groups.by_name.values()
    assert group.virtual is not None
    assert all(uid for row in group.pods for uid in row)


@pytest.mark.parametrize(("grace", "sent"), [(None, None), (90, None), (10**9, 300)])
def test_a_member_leaves_a_bad_device_within_the_longest_grace_period(grace: int | None, sent: int | None) -> None:
    harness = Harness(spec(), DoorOptions(bad_device_deadline=60.0))
    harness.open(NODES)
    for made in gang("g", 2, 4, memberRepairEnable=True):
        if grace is not None:
            made["spec"]["terminationGracePeriodSeconds"] = grace
        node = harness.run(made)
    core = harness.core
    for index in core.health.judge_devices(node, {0: "xid 79"}):
        core.record_outcomes(core.book.report_device(node, index, healthy=False))
    harness.now += 100
    harness.reconciler.reconcile()
    (deleted,) = harness.server.sent("DELETE pod g-1")
    assert deleted.get("gracePeriodSeconds") == sent
