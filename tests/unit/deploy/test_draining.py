"""Nodes that are cordoned and emptied, on an API that is made up: budgets, marks, and that all are given back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from paictl.deploy import draining
from paictl.deploy.draining import MARK, REMOVAL, UPGRADE, CordonedNodes, is_held
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from paictl.remote.kube.client import KubeError


@dataclass
class Api:
    """Nodes and pods; pods of `budget` are not evicted that many times, and `conflicts` patches come too late."""

    nodes: dict[str, dict[str, Any]]
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    budget: dict[str, int] = field(default_factory=dict)
    conflicts: int = 0
    evicted: list[str] = field(default_factory=list)

    def get(self, path: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        if name not in self.nodes:
            raise KubeError("no such node", status=404)
        return self.nodes[name]

    def list(self, path: str, query: dict[str, str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        assert path == "/api/v1/pods"
        node = query["fieldSelector"].removeprefix("spec.nodeName=")
        yield "1", [one for one in self.pods.values() if one["spec"]["nodeName"] == node]

    def request(self, method: str, path: str, body: Any, **_: Any) -> dict[str, Any]:
        if method == "PATCH":
            return self._patch(self.nodes[path.rpartition("/")[2]], body)
        name = path.split("/")[-2]
        if self.budget.get(name, 0) > 0:
            self.budget[name] -= 1
            refused = KubeError("no", status=429)
            refused.body = {"details": {"causes": [{"message": "the budget needs 1"}]}}
            raise refused
        self.evicted.append(name)
        del self.pods[name]
        return {}

    def _patch(self, node: dict[str, Any], body: Any) -> dict[str, Any]:
        assert body["metadata"]["resourceVersion"] == node["metadata"]["resourceVersion"]
        if self.conflicts:
            self.conflicts -= 1
            raise KubeError("changed", status=409)
        for mark, value in body["metadata"]["annotations"].items():
            node["metadata"]["annotations"][mark] = value
            if value is None:
                del node["metadata"]["annotations"][mark]
        node["spec"]["unschedulable"] = bool(body["spec"]["unschedulable"])
        return node


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": "7", "annotations": {}}, "spec": spec}


def pod(name: str, kind: str = "ReplicaSet", phase: str = "Running", on: str = "w1") -> dict[str, Any]:
    about: dict[str, Any] = {"namespace": "ns", "name": name, "uid": name}
    if kind == "mirror":
        about["annotations"] = {"kubernetes.io/config.mirror": "x"}
        about["ownerReferences"] = [{"kind": "Node", "controller": True}]
    elif kind:
        about["ownerReferences"] = [{"kind": kind, "controller": True}]
    return {"metadata": about, "spec": {"nodeName": on}, "status": {"phase": phase}}


def api(*pods: dict[str, Any], **more: Any) -> Api:
    return Api({"w1": node("w1"), "w2": node("w2")}, {one["metadata"]["name"]: one for one in pods}, **more)


def holding(given: Api, seconds: float = 30) -> CordonedNodes:
    return CordonedNodes(given, seconds, UPGRADE)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_POLL", 0.0)


def cordoned(given: Api, name: str) -> bool:
    return bool(given.nodes[name]["spec"].get("unschedulable"))


def quiet(text: str, about: str = "") -> None:
    del text, about


def test_a_node_is_emptied_but_for_what_stays() -> None:
    given = api(
        pod("web"),
        pod("daemon", "DaemonSet"),
        pod("static", "mirror"),
        pod("done", "Job", "Succeeded"),
        pod("other", on="w2"),
    )
    held = holding(given)
    held.drain(["w1"], quiet)
    assert given.evicted == ["web"]
    assert cordoned(given, "w1")
    assert MARK in given.nodes["w1"]["metadata"]["annotations"]
    held.release_all()
    assert not cordoned(given, "w1")
    assert MARK not in given.nodes["w1"]["metadata"]["annotations"]


def test_a_budget_is_waited_for_and_told_once() -> None:
    given = api(pod("web"), budget={"web": 3})
    told: list[str] = []
    holding(given).drain(["w1"], lambda text, _: told.append(str(text)))
    assert (given.evicted, told) == (["web"], ["ns/web stays for now: the budget needs 1"])


def test_what_a_budget_keeps_for_ever_ends_the_drain_and_the_node_is_given_back() -> None:
    given = api(pod("web"), budget={"web": 10**6})
    held = holding(given, seconds=0)
    with pytest.raises(DeployError, match="not empty after 0 s: ns/web; the budget needs 1"):
        held.drain(["w1"], quiet)
    held.release_all()
    assert not cordoned(given, "w1")


def test_a_pod_that_nothing_would_make_again_is_left_alone_and_the_node_is_never_cordoned() -> None:
    given = api(pod("mine", kind=""))
    with pytest.raises(DeployError, match="nothing would recreate pod ns/mine"):
        holding(given).drain(["w2", "w1"], quiet)
    assert [one["spec"].get("unschedulable") for one in given.nodes.values()] == [None, None]


def test_what_somebody_else_has_cordoned_stays_so() -> None:
    given = api()
    given.nodes["w1"] = node("w1", unschedulable=True)
    held = holding(given)
    held.drain(["w1"], quiet)
    held.release("w1")
    assert cordoned(given, "w1")


def test_what_a_killed_run_has_left_is_given_back() -> None:
    given = api()
    holding(given).drain(["w1"], quiet)
    later = holding(given)
    later.adopt(["w1"])
    later.release_all()
    assert not cordoned(given, "w1")


def test_a_node_that_changes_meanwhile_is_asked_again_and_not_for_ever() -> None:
    given = api(conflicts=2)
    holding(given).drain(["w1"], quiet)
    assert cordoned(given, "w1")
    with pytest.raises(DeployError, match="keeps changing"):
        holding(api(conflicts=10**6)).drain(["w1"], quiet)


def test_all_are_given_back_also_where_one_cannot_be() -> None:
    given = api()
    held = holding(given)
    held.drain(["w1", "w2"], quiet)
    given.conflicts = 10  # all tries of the first one
    with pytest.raises(DeployError):
        held.release_all()
    assert not cordoned(given, "w2")


def test_what_another_command_holds_is_not_given_back_by_this_one() -> None:
    given = api()
    CordonedNodes(given, 30, REMOVAL).drain(["w1"], quiet)  # type: ignore[arg-type]
    assert (is_held(given.nodes["w1"], REMOVAL), is_held(given.nodes["w1"], UPGRADE)) == (True, False)
    later = holding(given)
    later.adopt(["w1"])
    later.release_all()
    assert cordoned(given, "w1")


def test_a_node_that_has_left_is_empty_and_needs_no_cordon() -> None:
    with draining.holding(api(), 30, REMOVAL) as held:  # type: ignore[arg-type]
        held.drain(["w9"], quiet)


@pytest.mark.parametrize("failure", [DeployError("no", exit_code=ExitCode.NEGATIVE), KeyboardInterrupt()])
def test_a_block_that_fails_gives_the_node_back(failure: BaseException) -> None:
    given = api()

    def work() -> None:
        with draining.holding(given, 30, REMOVAL) as held:  # type: ignore[arg-type]
            held.drain(["w1"], quiet)
            assert cordoned(given, "w1")
            raise failure

    with pytest.raises(type(failure)):
        work()
    assert not cordoned(given, "w1")
