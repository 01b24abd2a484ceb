"""What one tenant can do to pods of its own, and what that must not do to others."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.maintenance import KEY, windows_text
from paictl.cluster.pods.labels import Rules
from paictl.doors.core import DoorOptions
from paictl.remote.kube.client import Json, KubeError
from paictl.scheduler.wire import BIND_INFO, GRANTED, SCHEDULING_SPEC
from paictl.units import Millis
from paictl.workload.windows import Window, Windows
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness, gang, pod


def graces(harness: Harness) -> list[object]:
    """The seconds that each eviction gave, in order."""
    return [body.get("deleteOptions", {}).get("gracePeriodSeconds") for body in harness.server.sent("POST eviction")]


def lent(harness: Harness, grace: int) -> Json:
    """An opportunistic pod on the devices of VC B."""
    (made,) = gang("lent", 1, 4, "A", priority=-1)
    made["spec"]["terminationGracePeriodSeconds"] = grace
    for other in gang("own", 3, 4, "A"):
        harness.run(other)
    harness.run(made)
    return made


def test_a_grace_period_of_years_does_not_keep_lent_devices(harness: Harness) -> None:
    lent(harness, 10**8)
    harness.ask(gang("owner", 1, 4, "B")[0])
    harness.reconciler.reconcile()
    assert graces(harness) == [300]


def test_a_victim_without_a_grace_period_is_there_until_its_kubelet_has_ended_it(harness: Harness) -> None:
    """With 0 seconds the API server forgets it at once, and its devices would be given to another pod at once."""
    lent(harness, 0)
    harness.ask(gang("owner", 1, 4, "B")[0])
    harness.reconciler.reconcile()
    assert graces(harness) == [1]


def test_an_ordinary_grace_period_is_left_to_the_pod(harness: Harness) -> None:
    lent(harness, 120)
    harness.ask(gang("owner", 1, 4, "B")[0])
    harness.reconciler.reconcile()
    assert graces(harness) == [None]


@pytest.mark.parametrize(("seconds", "expected"), [(100, []), (10**7, [300])])
def test_who_is_ending_by_its_own_will_and_takes_years_is_told_again(
    harness: Harness, seconds: int, expected: list[int]
) -> None:
    """Its owner has deleted it before the devices were asked back."""
    made = copy.deepcopy(lent(harness, 30))
    at = datetime.fromtimestamp(harness.now + seconds, UTC)
    made["metadata"]["deletionTimestamp"] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    harness.core.pod_changed(made)
    harness.ask(gang("owner", 1, 4, "B")[0])
    harness.reconciler.reconcile()
    assert graces(harness) == expected


@pytest.mark.parametrize("written", ["1759-03-30T02:01:52Z", "2026-11-28T07:49:46Z", "1917-09-08T10:55:12Z"])
def test_a_grace_period_with_which_the_time_overflows_does_not_keep_lent_devices(
    harness: Harness, written: str
) -> None:
    """From 292 years on the API server writes any time, mostly one in the past: the pod seemed to go by itself."""
    harness.now = datetime(2026, 11, 28, 7, 49, 46, tzinfo=UTC).timestamp()
    made = copy.deepcopy(lent(harness, 10**10))
    made["metadata"] |= {"deletionTimestamp": written, "deletionGracePeriodSeconds": 10**10}
    harness.core.pod_changed(made)
    harness.now += 600
    harness.reconciler.reconcile()
    assert not harness.core.health.hung
    harness.ask(gang("owner", 1, 4, "B")[0])
    harness.reconciler.reconcile()
    assert graces(harness) == [300]


def rewritten(made: Json, devices: list[int], node: str, **asked: Any) -> Json:
    """A running pod after its owner has written another place, and perhaps other wishes, into its annotations."""
    out = copy.deepcopy(made)
    noted = out["metadata"]["annotations"]
    info = json.loads(noted[BIND_INFO])
    info |= {"node": node, "leafCellIsolation": devices}
    info["affinityGroupBindInfo"][0]["podPlacements"] = [
        {"physicalNode": node, "physicalLeafCellIndices": devices, "preassignedCellTypes": ["NODE"] * len(devices)}
    ]
    noted[BIND_INFO] = json.dumps(info)
    noted[SCHEDULING_SPEC] = json.dumps(json.loads(noted[SCHEDULING_SPEC]) | asked)
    return out


def test_a_place_that_is_rewritten_takes_no_devices_and_no_guarantee(harness: Harness) -> None:
    """One pod in VC A; its owner claims the devices of B's, at the highest priority of all."""
    (mine,) = gang("mine", 1, 4, "A")
    (victim,) = gang("victim", 1, 4, "B")
    where, other = harness.run(mine), harness.run(victim)
    state = harness.core.book.engine.state
    before = {uid: state.groups.slots[uid] for uid in ("uid-mine-0", "uid-victim-0")}
    free = next(node for node in NODES if node not in (where, other))
    for node in (other, free):
        harness.core.pod_changed(rewritten(mine, [0, 1, 2, 3], node, virtualCluster="B", priority=1000))
        assert {uid: state.groups.slots[uid] for uid in before} == before
        assert state.groups.by_name["default/victim"].virtual is not None
    assert harness.reasons_of("mine-0").count("PlacementRewritten") == 2


def test_a_pod_made_with_a_node_and_an_annotation_needs_the_grant_too() -> None:
    made_spec = spec()
    harness = Harness(made_spec, DoorOptions(rules=Rules(skus=made_spec.sku_types), require_grants=True))
    harness.core.namespace_changed({"metadata": {"name": "team-b", "annotations": {GRANTED: "B"}}})
    harness.core.namespace_changed({"metadata": {"name": "default", "annotations": {GRANTED: "A"}}})
    harness.open(NODES)
    (mine,) = gang("mine", 1, 4, "A")
    harness.run(mine)
    forged = rewritten(mine, [0, 1, 2, 3], "n3", virtualCluster="B", priority=1000)
    forged["metadata"] |= {"name": "forged", "uid": "uid-forged"}
    forged["spec"]["nodeName"] = "n3"
    spec_text = json.loads(forged["metadata"]["annotations"][SCHEDULING_SPEC])
    spec_text["affinityGroup"]["name"] = "default/forged"
    forged["metadata"]["annotations"][SCHEDULING_SPEC] = json.dumps(spec_text)
    harness.core.pod_changed(forged)
    assert not harness.core.book.holds("uid-forged")
    assert "default/forged" not in harness.core.book.engine.state.groups.by_name


def test_the_name_of_another_namespaces_group_is_refused() -> None:
    """It would be taken before its owner comes, who would then be refused for ever."""
    made_spec = spec()
    harness = Harness(made_spec, DoorOptions(rules=Rules(skus=made_spec.sku_types), require_grants=True))
    for name, vc in (("team-a", "A"), ("team-b", "B")):
        harness.core.namespace_changed({"metadata": {"name": name, "annotations": {GRANTED: vc}}})
    harness.open(NODES)
    asked = {
        "virtualCluster": "B",
        "priority": 0,
        "leafCellNumber": 4,
        "affinityGroup": {"name": "team-a/train", "members": [{"podNumber": 1, "leafCellNumber": 4}]},
    }
    answer = harness.ask(pod("squatter", asked, namespace="team-b"))
    assert "belongs to groups of namespace team-a: begin it with team-b/" in next(iter(answer.hopeless.values()))
    asked["affinityGroup"] = asked["affinityGroup"] | {"name": "user~job/train"}  # type: ignore[operator]
    assert harness.ask(pod("plain", asked, namespace="team-b")).names


@pytest.mark.parametrize("vc", ["A", "B"])
def test_the_name_of_the_gang_of_a_job_is_refused(vc: str) -> None:
    """Jobs of the portal would wait for ever behind a pod that has taken the name, or share their gang with it."""
    made_spec = spec()
    harness = Harness(made_spec, DoorOptions(rules=Rules(skus=made_spec.sku_types), require_grants=True))
    for name, granted in (("team-b", "*"), (JOBS_NAMESPACE, "*")):
        harness.core.namespace_changed({"metadata": {"name": name, "annotations": {GRANTED: granted}}})
    harness.open(NODES)
    asked = {
        "virtualCluster": vc,
        "priority": -1,
        "leafCellNumber": 1,
        "affinityGroup": {"name": "ann~train/default", "members": [{"podNumber": 1, "leafCellNumber": 1}]},
    }
    answer = harness.ask(pod("squatter", asked, namespace="team-b"))
    assert "belongs to groups of namespace paictl-jobs: begin it with team-b/" in next(iter(answer.hopeless.values()))
    job = asked | {"virtualCluster": "A", "priority": 10}
    assert harness.ask(pod("train-0", job, namespace=JOBS_NAMESPACE)).names


def member(namespace: str, name: str, vc: str, group: str, pods: int) -> Json:
    asked = {
        "virtualCluster": vc,
        "priority": 0,
        "leafCellNumber": 4,
        "affinityGroup": {"name": group, "members": [{"podNumber": pods, "leafCellNumber": 4}]},
    }
    return pod(name, asked, uid=f"uid-{namespace}-{name}", namespace=namespace)


def two_tenants(**more: Any) -> Harness:
    made_spec = spec()
    harness = Harness(made_spec, DoorOptions(rules=Rules(skus=made_spec.sku_types), require_grants=True, **more))
    grant(harness)
    return harness


def grant(harness: Harness) -> None:
    for name, vc in (("team-a", "A"), ("team-b", "B")):
        harness.core.namespace_changed({"metadata": {"name": name, "annotations": {GRANTED: vc}}})
    harness.open(NODES)


def test_a_pod_that_names_a_gang_of_another_namespace_does_not_make_it_late() -> None:
    """Its 98 missing pods would be missed in the other gang, which would be evicted at the deadline."""
    harness = two_tenants(gang_deadline=120.0)
    harness.create(member("team-b", "squatter", "B", "team-a/train", 100))
    for number in range(2):
        made = member("team-a", f"t{number}", "A", "team-a/train", 2)
        harness.run(made)
        harness.core.pod_changed(made)
    for _ in range(5):
        harness.now += 60
        harness.reconciler.reconcile()
    assert harness.evictions() == []
    assert "GroupIncomplete" not in harness.reasons_of("t0")


@pytest.mark.parametrize("cause", ["window", "device"])
def test_a_pod_on_a_node_that_is_left_takes_no_gang_of_another_namespace_with_it(cause: str) -> None:
    """Between its pin and its binding a pod may be changed; who starts then reads the other gang's name."""
    harness = two_tenants(bad_device_deadline=60.0)
    own = [member("team-a", f"t{number}", "A", "team-a/train", 2) for number in range(2)]
    stranger = member("team-b", "stranger", "B", "team-b/x", 1)
    *_, node = [harness.run(made) for made in (*own, stranger)]
    noted = stranger["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = noted[SCHEDULING_SPEC].replace("team-b/x", "team-a/train")
    harness.begin(spec())
    grant(harness)
    core = harness.core
    if cause == "window":
        found = windows_text(Windows((Window("w", (node,), Millis(0), Millis(10**9)),)))
        core.windows_changed({"data": {KEY: found}})
    else:
        for index in core.health.judge_devices(node, {0: "xid 79"}):
            core.record_outcomes(core.book.report_device(node, index, healthy=False))
    harness.now += 100
    harness.reconciler.reconcile()
    assert harness.evictions() == ["POST eviction stranger"]


def test_who_preempts_learns_no_name_of_another_tenants_pod_or_budget() -> None:
    harness = two_tenants()
    for number in range(3):
        harness.run(member("team-a", f"own{number}", "A", f"team-a/own{number}", 1))
    lent = member("team-a", "secret-lent", "A", "team-a/secret-lent", 1)
    noted = lent["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = noted[SCHEDULING_SPEC].replace('"priority": 0', '"priority": -1')
    harness.run(lent)
    answer = harness.ask(member("team-b", "owner", "B", "team-b/owner", 1))
    harness.server.refuse["eviction"] = KubeError("budget secret-pdb needs 1", status=429, reason="TooManyRequests")
    harness.reconciler.reconcile()
    assert "PreemptionHindered" in harness.reasons_of("owner")
    said = [*answer.failed.values(), *(one.message for one in harness.recorded if one.pod.name == "owner")]
    assert [words for words in said if "secret" in words] == []
    assert "preempted for group team-b/owner: 1 of another tenant" in said[0]


def test_who_preempts_its_own_pods_learns_their_names() -> None:
    harness = two_tenants()
    for number in range(3):
        harness.run(member("team-a", f"low{number}", "A", f"team-a/low{number}", 1))
    high = member("team-a", "high", "A", "team-a/high", 1)
    noted = high["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = noted[SCHEDULING_SPEC].replace('"priority": 0', '"priority": 9')
    assert "preempted for group team-a/high: team-a/low" in next(iter(harness.ask(high).failed.values()))


@pytest.mark.parametrize("deleted", [False, True], ids=["running", "deleted by its owner"])
def test_a_grace_period_of_years_keeps_no_pod_on_a_node_in_maintenance(deleted: bool) -> None:
    harness = two_tenants()
    ages = member("team-a", "ages", "A", "team-a/ages", 1)
    ages["spec"]["terminationGracePeriodSeconds"] = 10**8
    soon = member("team-a", "soon", "A", "team-a/soon", 1)
    soon["spec"]["terminationGracePeriodSeconds"] = 120
    nodes = tuple(sorted(harness.run(made) for made in (ages, soon)))
    if deleted:
        ages["metadata"].update(deletionTimestamp="2099-01-01T00:00:00Z", deletionGracePeriodSeconds=10**8)
        harness.core.pod_changed(ages)
    harness.core.windows_changed(
        {"data": {KEY: windows_text(Windows((Window("w", nodes, Millis(0), Millis(10**9)),)))}}
    )
    harness.reconciler.reconcile()
    assert sorted(graces(harness), key=str) == [300, None]
