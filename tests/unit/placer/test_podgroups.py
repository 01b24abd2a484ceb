"""PodGroups: what is read of them, whose pods wait, what they are told, and one value of a label for all."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.pods import podgroups
from paictl.cluster.pods.nodes import node_status
from paictl.cluster.pods.podgroups import CONDITION, PodGroup, group_of, read_group
from paictl.doors.conditions import outdated, write_condition
from paictl.remote.kube.client import Json, KubeError, NoAnswerError
from paictl.scheduler.wire import GATE
from tests.unit.extender.conftest import NODES
from tests.unit.placer.test_placing import Placer, node

GATED = {"schedulingGates": [{"name": GATE}]}
MESSAGE = "2 pods have their devices"


def group(name: str = "g", size: int = 2, topology: str = "", said: tuple[str, str] | None = None) -> Json:
    policy: Json = {"gang": {"minCount": size}} if size else {"basic": {}}
    spec: Json = {"schedulingPolicy": policy}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    conditions = [{"type": "PodGroupInitiallyScheduled", "status": "True", "message": "theirs"}]
    if said:
        conditions.append({"type": CONDITION, "status": said[0], "message": said[1]})
    about = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
    return {"metadata": about, "spec": spec, "status": {"conditions": conditions}}


def pods(count: int, leaves: int = 4, name: str = "g") -> list[Json]:
    labels = {"paictl.io/virtual-cluster": "A", "paictl.io/leaf-cells": str(leaves)}
    return [
        {
            "metadata": {
                "namespace": "default",
                "name": f"{name}-{at}",
                "uid": f"{name}-{at}",
                "labels": labels,
                "annotations": {},
            },
            "spec": {"schedulingGroup": {"podGroupName": name}, "containers": [{"name": "c"}]},
        }
        for at in range(count)
    ]


@pytest.fixture
def placer() -> Placer:
    return Placer()


def test_a_group_is_read_with_what_we_said_of_it_last() -> None:
    assert read_group(group(topology="rack", said=("False", "full"))) == PodGroup(
        "default/g", "uid-g", 2, "rack", ("False", "full")
    )
    assert read_group(group(size=0)).size == 0
    wrong: tuple[Json, ...] = ({"spec": "x"}, {"spec": {"schedulingGroup": "x"}}, {"spec": {"schedulingGroup": {}}}, {})
    for nonsense in wrong:
        assert group_of({"metadata": {}, **nonsense}) == ""


def test_pods_wait_for_their_group_and_are_placed_with_it(placer: Placer) -> None:
    placer.create(pods(2))
    placer.round()
    assert set(placer.reasons("g-0")) == {"Unreadable"}
    assert "PodGroup default/g does not exist" in placer.recorded[0].message
    placer.core.pod_group_changed(read_group(group()))
    placer.round()
    assert len({placer.node("g-0"), placer.node("g-1")} - {""}) == 2
    assert [(one.placed, one.message) for one in outdated(placer.core)] == [(True, MESSAGE)]
    placer.core.pod_group_changed(read_group(group(said=("True", MESSAGE))))
    assert outdated(placer.core) == []


@pytest.mark.parametrize("later", [None, 3, 1])
@pytest.mark.parametrize("size", [2, 1, 0])
def test_a_new_process_counts_what_runs_whatever_has_become_of_the_group(
    placer: Placer, size: int, later: int | None
) -> None:
    """It hears of the pods first, and of the group later or never."""
    placer.core.pod_group_changed(read_group(group(size=size)))
    placer.create(pods(2))
    placer.round()
    held = {name: known.info for name, known in placer.core.book.pods.items()}
    assert all(held.values())
    groups = set(placer.core.book.engine.state.groups.by_name)
    placer.begin()
    if later is not None:
        placer.core.pod_group_changed(read_group(group(size=later)))
        placer.tell()
    assert {name: known.info for name, known in placer.core.book.pods.items()} == held
    assert set(placer.core.book.engine.state.groups.by_name) == groups
    assert not placer.recorded or {one.reason for one in placer.recorded} <= {"Recovered"}


def test_a_group_whose_size_changes_is_read_again_and_one_without_gang_is_none(placer: Placer) -> None:
    placer.core.pod_group_changed(read_group(group(size=3)))
    placer.create(pods(2))
    placer.round()
    (status,) = outdated(placer.core)
    assert (status.placed, status.message) == (False, "pod waits for its gang: 2 of 3 pods of default/g are there")
    placer.core.pod_group_changed(read_group(group(size=0)))
    placer.round()
    assert placer.node("g-0")
    assert placer.node("g-1")


def test_more_pods_than_the_gang_has_are_placed_one_by_one(placer: Placer) -> None:
    placer.core.pod_group_changed(read_group(group()))
    placer.create(pods(4))
    placer.round()
    assert [bool(placer.node(f"g-{at}")) for at in range(4)] == [True, True, True, False], "A has three nodes"
    assert "default/g-2" in placer.core.book.engine.state.groups.by_name
    placer.delete("g-0")
    placer.create([{**one, "metadata": {**one["metadata"], "name": "g-9", "uid": "g-9"}} for one in pods(1)])
    placer.round()
    joined = placer.core.book.engine.state.groups.by_name["default/g"]
    assert {uid for row in joined.pods for uid in row} == {"g-1", "g-3"}, "who has waited longest has the free slot"
    placer.begin()
    placer.core.pod_group_changed(read_group(group()))
    placer.tell()
    placer.round()
    assert {uid for row in placer.core.book.engine.state.groups.by_name["default/g"].pods for uid in row} == {
        "g-1",
        "g-3",
    }
    placer.delete("g-2")
    placer.round()
    assert placer.node("g-9")


def test_bound_pods_stay_in_their_gang_whatever_the_group_becomes(placer: Placer) -> None:
    placer.core.pod_group_changed(read_group(group()))
    placer.create(pods(2))
    placer.round()
    for one in placer.server.pods.values():
        one["spec"]["nodeName"] = placer.node(one["metadata"]["name"])
    placer.tell()
    kept = placer.core.table.pod_groups.members["default/g"].values()
    assert all(set(one["spec"]) == {"schedulingGroup"} for one in kept), "what it asked for is not needed any more"
    for size in (1, 3, 2):
        placer.core.pod_group_changed(read_group(group(size=size)))
        assert {uid for row in placer.core.book.engine.state.groups.by_name["default/g"].pods for uid in row} == {
            "g-0",
            "g-1",
        }
    more = pods(1)
    more[0]["metadata"] |= {"name": "g-9", "uid": "g-9"}
    placer.create(more)
    placer.round()
    assert placer.node("g-9"), "the gang is whole, and this one is placed by itself"


def test_who_waits_does_not_take_the_slot_of_one_that_runs(placer: Placer) -> None:
    """A new process hears of the group and of the pods that wait first."""
    placer.core.pod_group_changed(read_group(group()))
    placer.create(pods(2, name="g"))
    placer.round()
    waiting = {**pods(1)[0], "metadata": {**pods(1)[0]["metadata"], "name": "a", "uid": "a"}}
    placer.server.pods = {"default/a": waiting | {"spec": {**waiting["spec"], **GATED}}, **placer.server.pods}
    placer.prepare = lambda: placer.core.pod_group_changed(read_group(group()))  # type: ignore[method-assign]
    placer.begin()
    placer.round()
    assert placer.node("a"), "it is placed by itself"


def test_a_label_of_ours_wins_over_the_group(placer: Placer) -> None:
    (pod,) = pods(1)
    pod["metadata"]["labels"] = {**pod["metadata"]["labels"], "paictl.io/group-size": "1", "paictl.io/group": "own"}
    placer.create([pod])
    placer.round()
    assert placer.node("g-0"), "nobody has to know the PodGroup"


@pytest.mark.parametrize("racks", ["aabb", "abab", "abcc"])
def test_all_pods_get_one_value_of_the_label_or_none_goes(placer: Placer, racks: str) -> None:
    for name, rack in zip(NODES, racks, strict=True):
        one = node(name)
        one["metadata"]["labels"]["rack"] = rack
        placer.core.node_changed(node_status(one))
    of = dict(zip(NODES, racks, strict=True))
    placer.core.pod_group_changed(read_group(group(topology="rack")))
    placer.create(pods(2))
    placer.round()
    assert len({of[placer.node(f"g-{at}")] for at in range(2)}) == 1
    placer.core.pod_group_changed(read_group(group("wide", 3, "rack")))
    placer.create(pods(3, name="wide"))
    placer.round()
    assert not any(placer.node(f"wide-{at}") for at in range(3)), "no rack has three nodes"
    status = next(one for one in outdated(placer.core) if one.group.key == "default/wide")
    assert "pod waits" in status.message


def test_without_the_label_nothing_is_placed(placer: Placer) -> None:
    placer.core.pod_group_changed(read_group(group(topology="rack")))
    placer.create(pods(2))
    placer.round()
    assert not placer.node("g-0")


class Server:
    """Serves some versions of the API and takes patches."""

    def __init__(self, *versions: str, forbidden: str = "") -> None:
        self.versions, self.forbidden = versions, forbidden
        self.sent: list[tuple[str, Any]] = []

    def get(self, path: str) -> Json:
        version = path.rpartition("/")[2]
        if version == "v1":
            return {"resources": [{"name": "priorityclasses"}]}
        if version not in self.versions:
            raise KubeError("not found", status=404)
        return {"resources": [{"name": "podgroups"}, {"name": "podgroups/status"}]}

    def request(self, method: str, path: str, body: Json, **named: object) -> Json:
        if "reviews" in path:
            return {"status": {"allowed": body["spec"]["resourceAttributes"]["verb"] != self.forbidden}}
        self.sent.append((f"{method} {path} {named['kind']}", body))
        if path.endswith("gone/status"):
            raise KubeError("not found", status=404)
        return {}


def test_the_best_version_that_is_served_and_may_be_followed() -> None:
    def path(server: Any) -> str:
        found, why = podgroups.served(server)
        assert why == ("the account may not watch podgroups" if server.forbidden else "")
        return found

    assert path(Server("v1alpha3", "v1beta1")) == "/apis/scheduling.k8s.io/v1beta1"
    assert path(Server("v1alpha2")) == "/apis/scheduling.k8s.io/v1alpha2"
    assert path(Server()) == ""
    assert path(Server("v1beta1", forbidden="watch")) == ""


def test_a_condition_is_written_beside_those_of_others(placer: Placer) -> None:
    placer.core.pod_group_changed(read_group(group()))
    placer.create(pods(1))
    placer.round()
    (status,) = outdated(placer.core)
    server: Any = Server()
    write_condition(server, "/apis/x/v1", status)
    ((call, body),) = server.sent
    patch = "application/strategic-merge-patch+json"
    assert call == f"PATCH /apis/x/v1/namespaces/default/podgroups/g/status {patch}"
    assert body["metadata"] == {"uid": "uid-g"}
    (condition,) = body["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (CONDITION, "False", "Waiting")
    placer.core.pod_group_changed(read_group(group("gone")))
    placer.create(pods(1, name="gone"))
    placer.round()
    write_condition(server, "/apis/x/v1", next(one for one in outdated(placer.core) if one.group.key == "default/gone"))


def test_an_api_server_that_is_silent_about_one_group_is_not_asked_about_all(
    placer: Placer, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, asked = ["a", "b", "c"], []
    for name in names:
        placer.core.pod_group_changed(read_group(group(name)))
        placer.create(pods(1, name=name))

    def silent(_method: str, path: str, *_: object, **__: object) -> Json:
        asked.append(path)
        raise NoAnswerError("no answer within 15 s")

    monkeypatch.setattr(placer.server, "request", silent)
    with pytest.raises(NoAnswerError):
        placer.reconciler.reconcile()
    assert len(asked) == 1, "victims of preemptions wait for this round"


def test_a_condition_that_is_refused_is_not_written_in_every_round(
    placer: Placer, monkeypatch: pytest.MonkeyPatch
) -> None:
    placer.core.pod_group_changed(read_group(group("a")))
    placer.create(pods(1, name="a"))
    asked = []

    def refusing(_method: str, path: str, *_: object, **__: object) -> Json:
        asked.append(path)
        raise KubeError("a webhook says no", status=403)

    monkeypatch.setattr(placer.server, "request", refusing)
    for _ in range(41):  # 20 s
        placer.reconciler.reconcile()
        placer.now += 0.5
    assert len(asked) == 3
