"""What a tenant's gated pods can do to the gangs of another namespace by naming them."""

from __future__ import annotations

import json

import pytest

from paictl.cluster.pods.reading import pinned_node
from paictl.remote.kube.client import Json
from paictl.scheduler.wire import GATE, GRANTED, ISOLATION, SCHEDULING_SPEC
from tests.unit.extender.harness import pod
from tests.unit.placer.test_placing import Placer


class Tenants(Placer):
    """A placer with two tenants, each with a namespace and a virtual cluster."""

    require_grants = True

    def prepare(self) -> None:
        for name, vc in (("team-a", "A"), ("team-b", "B")):
            about = {"name": name, "labels": {GATE: "enabled"}, "annotations": {GRANTED: vc}}
            self.core.namespace_changed({"metadata": about})

    def add(self, made: Json) -> Json:
        about = made["metadata"]
        self.server.pods[f"{about['namespace']}/{about['name']}"] = made
        self.tell()
        return made


def member(namespace: str, name: str, vc: str, group: str, pods: int, *gates: str) -> Json:
    asked = {
        "virtualCluster": vc,
        "priority": 0,
        "leafCellNumber": 1,
        "affinityGroup": {"name": group, "members": [{"podNumber": pods, "leafCellNumber": 1}]},
    }
    made = pod(name, asked, uid=f"uid-{namespace}-{name}", namespace=namespace)
    made["spec"]["schedulingGates"] = [{"name": gate} for gate in (GATE, *gates)]
    return made


@pytest.mark.parametrize(("pods", "gates"), [(100, ()), (2, ()), (2, ("team-b/later",))])
@pytest.mark.parametrize("group", ["team-a/train", "train"])
def test_a_pod_that_names_a_gang_of_another_namespace_does_not_hold_it_back(
    group: str, pods: int, gates: tuple[str, ...]
) -> None:
    placer = Tenants()
    hostile = placer.add(member("team-b", "a", "B", group, pods, *gates))
    own = [placer.add(member("team-a", f"t{number}", "A", group, 2)) for number in range(2)]
    placer.round()
    assert all(map(pinned_node, own))
    assert not pinned_node(hostile)


def test_a_pod_takes_no_place_of_a_gang_of_another_namespace_that_has_the_same_virtual_cluster() -> None:
    placer = Tenants()
    placer.core.namespace_changed(
        {"metadata": {"name": "team-b", "labels": {GATE: "enabled"}, "annotations": {GRANTED: "A,B"}}}
    )
    own = [placer.add(member("team-a", f"t{number}", "A", "train", 3)) for number in range(3)]
    placer.round(most=2)
    placer.core.pod_gone(own.pop()["metadata"]["uid"])
    del placer.server.pods["team-a/t2"]
    hostile = placer.add(member("team-b", "a", "A", "train", 3))
    placer.round()
    assert not pinned_node(hostile)
    own.append(placer.add(member("team-a", "t3", "A", "train", 3)))
    placer.round()
    assert all(map(pinned_node, own))
    said = next(one.message for one in placer.recorded if one.pod.name == "a")
    assert "the name train is in use in another namespace: begin it with team-b/" in said


def test_a_pin_that_is_never_bound_takes_no_name_of_another_namespace_over_a_restart() -> None:
    placer = Tenants()
    hostile = placer.add(member("team-b", "a", "B", "team-b/x", 1))
    hostile["spec"]["schedulerName"] = "nobody"
    placer.round()
    assert pinned_node(hostile)
    noted = hostile["metadata"]["annotations"]
    noted[SCHEDULING_SPEC] = json.dumps(
        json.loads(noted[SCHEDULING_SPEC])
        | {"affinityGroup": {"name": "team-a/train", "members": [{"podNumber": 2, "leafCellNumber": 1}]}}
    )
    placer.begin()
    own = [placer.add(member("team-a", f"t{number}", "A", "team-a/train", 2)) for number in range(2)]
    placer.round()
    assert all(map(pinned_node, own))
    groups = placer.core.book.engine.state.groups.by_name
    assert groups["team-a/train (uid-team-b-a)"].virtual is None
    leaves = [leaf for group in groups.values() for leaf in group.leaves()]
    assert len(set(leaves)) == len(leaves) == 3


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("edit", ["{broken", None])
def test_a_pod_that_nobody_can_read_any_more_keeps_its_devices_over_a_restart(edit: str | None, bound: bool) -> None:
    """It was edited after its pin; once it is bound, it can no longer be mended."""
    placer = Tenants()
    edited = placer.add(member("team-b", "a", "B", "team-b/x", 1))
    placer.round()
    node, device = pinned_node(edited), edited["metadata"]["annotations"][ISOLATION]
    if bound:
        edited["spec"]["nodeName"] = node
    if edit is None:
        del edited["metadata"]["annotations"][SCHEDULING_SPEC]
    else:
        edited["metadata"]["annotations"][SCHEDULING_SPEC] = edit
    placer.begin()
    assert [event.reason for event in placer.recorded if event.pod.name == "a"] == ["GuaranteeLost"]
    others = [placer.add(member("team-b", f"b{number}", "B", f"team-b/y{number}", 1)) for number in range(4)]
    placer.round()
    places = [(pinned_node(other), other["metadata"]["annotations"].get(ISOLATION)) for other in others]
    assert (node, device) not in places
    placer.core.pod_gone(edited["metadata"]["uid"])
    assert not placer.core.book.holds(edited["metadata"]["uid"])
