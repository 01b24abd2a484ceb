"""What a caller says about a pod: never believed over what the API server says.

A user of VC B has a waiting pod of hers, with name and uid; the devices of VC A are in use. From inside a container she
asks as kube-scheduler does (the attack of three requests by which a tenant took another one's nodes).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from paictl.extender import server
from paictl.remote.kube.client import Json, KubeError
from paictl.scheduler.wire import SCHEDULING_SPEC
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Caller, Harness, gang, served


@pytest.fixture
def caller(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Iterator[Caller]:
    monkeypatch.setattr(server, "LAG", 0.05)
    with served(harness) as made:
        yield made


@pytest.fixture
def production(harness: Harness) -> list[Json]:
    """Three guaranteed pods of VC A, on all nodes that it was promised."""
    made = gang("prod", 3, 4)
    for one in made:
        harness.run(one)
    return made


@pytest.fixture
def waiting(harness: Harness, production: list[Json]) -> Json:
    """Her pod, which waits for VC B's one node."""
    assert all(one["spec"]["nodeName"] for one in production)
    harness.run(gang("busy", 1, 4, "B", 5)[0])
    made = gang("mine", 1, 4, "B")[0]
    assert not harness.ask(made).names
    return made


def forged(pod: Json, **changes: Any) -> Json:
    """The same name and uid with the request of another tenant, at the highest priority."""
    made = copy.deepcopy(pod)
    other = gang("evil", 2, 4, "A", 1000)[0]
    made["metadata"]["annotations"] = dict(other["metadata"]["annotations"])
    made["metadata"] |= changes
    return made


def test_an_invented_request_evicts_nobody_and_reserves_nothing(
    caller: Caller, harness: Harness, waiting: Json
) -> None:
    before = harness.core.book.engine.state.digest()
    answer = caller.filter(forged(waiting), NODES)
    assert not answer["NodeNames"]
    assert "other scheduling annotations or labels at the API server" in answer["Error"]
    harness.reconciler.reconcile()
    assert harness.evictions() == []
    assert harness.core.book.engine.state.digest() == before


def test_the_place_of_an_invented_request_is_not_bound(caller: Caller, waiting: Json) -> None:
    caller.filter(forged(waiting), NODES)
    for node in NODES:
        assert "it has to pass filter first" in caller.bind(waiting, node)
    assert not waiting["spec"].get("nodeName")


def test_the_preempt_verb_names_no_victims_for_an_invented_request(caller: Caller, waiting: Json) -> None:
    victims = {node: {"Pods": [{"UID": "stranger"}], "NumPDBViolations": 0} for node in NODES}
    status, answer = caller.call(
        "POST", "/v1/extender/preempt", {"Pod": forged(waiting), "NodeNameToMetaVictims": victims}
    )
    assert (status, "other scheduling annotations" in answer) == (409, True), answer


def test_the_uid_of_another_pod_is_not_taken(caller: Caller, harness: Harness, waiting: Json) -> None:
    answer = caller.filter(forged(waiting, name="prod-0"), NODES)
    assert "is not the uid of pod default/prod-0" in answer["Error"]
    free = gang("free", 1, 1, "B")[0]
    harness.delete("busy-0")
    (node,) = harness.ask(free).names
    alias = copy.deepcopy(free)
    alias["metadata"]["name"] = "mine-0"
    assert "is not the uid of pod default/mine-0" in caller.bind(alias, node)
    assert caller.bind(free, node) == ""


def test_a_pod_that_does_not_exist_is_not_known(caller: Caller, harness: Harness) -> None:
    answer = caller.filter(gang("ghost", 1, 1)[0], NODES)
    assert "has not reported pod default/ghost-0" in answer["Error"]
    assert harness.core.table.by_uid == {}
    assert harness.core.book.pods == {}


def test_a_pod_that_kube_scheduler_heard_of_first_is_looked_up_once(caller: Caller, harness: Harness) -> None:
    made = harness.create(gang("fresh", 1, 1)[0], told=False)
    assert caller.filter(made, NODES)["NodeNames"]
    assert caller.filter(made, NODES)["NodeNames"]
    assert harness.server.calls == ["GET pod fresh-0"]


@pytest.mark.usefixtures("production")
def test_a_forged_pod_that_the_informer_does_not_know_is_read_from_the_api_server(
    caller: Caller, harness: Harness
) -> None:
    made = harness.create(gang("fresh", 1, 1, "B")[0], told=False)
    assert "other scheduling annotations" in caller.filter(forged(made), NODES)["Error"]
    assert caller.filter(made, NODES)["NodeNames"], "its real request is served"
    assert harness.core.book.pods[made["metadata"]["uid"]].request.vc == "B"


def test_an_api_server_that_is_away_is_said(caller: Caller, harness: Harness) -> None:
    made = harness.create(gang("fresh", 1, 1)[0], told=False)
    harness.server.refuse["pod"] = harness.server.refuse[""] = KubeError("no answer", status=503)
    answer = caller.filter(made, NODES)
    assert not answer["NodeNames"]
    assert "no answer" in answer["Error"]


def test_a_pod_that_changes_its_request_loses_the_place_of_the_old_one(caller: Caller, harness: Harness) -> None:
    made = harness.create(gang("turn", 1, 4)[0])
    (node,) = caller.filter(made, NODES)["NodeNames"]
    changed = copy.deepcopy(made)
    changed["metadata"]["annotations"] = dict(gang("turn", 1, 1, "B")[0]["metadata"]["annotations"])
    harness.create(changed)
    assert "it has to pass filter first" in caller.bind(changed, node)
    (node,) = caller.filter(changed, NODES)["NodeNames"]
    assert caller.bind(changed, node) == ""
    assert harness.core.book.pods["uid-turn-0"].request.vc == "B"


def test_no_call_is_made_for_a_pod_that_is_known(caller: Caller, harness: Harness) -> None:
    made = harness.create(gang("known", 1, 1)[0])
    (node,) = caller.filter(made, NODES)["NodeNames"]
    assert caller.bind(made, node) == ""
    assert harness.server.calls == ["POST binding known-0"]
    assert SCHEDULING_SPEC in made["metadata"]["annotations"]
