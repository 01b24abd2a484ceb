"""Emptying a node: who has to go, who asks first, and that no cordon of ours is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from paictl.deploy import draining
from paictl.deploy.draining import MARK, cordoned, drain, orphans, pods_to_move
from paictl.deploy.site import DeployError
from paictl.errors import ExitCode
from paictl.remote.kube.client import KubeError


def pod(name: str, owner: str = "ReplicaSet", **about: Any) -> dict[str, Any]:
    owners = [{"kind": owner, "controller": True}] if owner else []
    return {"metadata": {"namespace": "n", "name": name, "uid": name, "ownerReferences": owners, **about}}


class Api:
    """One node with pods; an eviction takes effect when it was asked about the pod `patience` times."""

    def __init__(self, *pods: dict[str, Any], patience: int = 0, **spec: Any) -> None:
        self.node: dict[str, Any] | None = {"metadata": {"annotations": {}}, "spec": spec}
        self.pods = list(pods)
        self.patience = patience
        self.asked: list[str] = []

    def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/nodes/w1"
        if self.node is None:
            raise KubeError("no", status=404)
        return self.node

    def list(self, path: str, query: dict[str, str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        assert (path, "spec.nodeName=w1" in query["fieldSelector"]) == ("/api/v1/pods", True)
        yield "", list(self.pods)

    def request(self, method: str, path: str, body: dict[str, Any], **_: Any) -> None:
        if method == "PATCH":
            assert self.node is not None
            self.node["spec"].update(body["spec"])
            self.node["metadata"]["annotations"].update(body["metadata"]["annotations"])
            return
        name = body["metadata"]["name"]
        assert path.endswith(f"/pods/{name}/eviction")
        self.asked.append(name)
        if self.asked.count(name) <= self.patience:
            error = KubeError("no", status=429)
            error.body = {"message": "the disruption budget needs 1"}
            raise error
        self.pods = [one for one in self.pods if one["metadata"]["name"] != name]

    @property
    def cordon(self) -> Any:
        assert self.node is not None
        return self.node["spec"].get("unschedulable")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "_POLL", 0.0)


def test_pods_that_belong_to_the_node_stay() -> None:
    static = pod("static", "Node", annotations={"kubernetes.io/config.mirror": "x"})
    api: Any = Api(static, pod("agent", "DaemonSet"), pod("web"), pod("lone", ""))
    assert [one["metadata"]["name"] for one in pods_to_move(api, "w1")] == ["web", "lone"]
    assert orphans(pods_to_move(api, "w1")) == ["n/lone"]


def test_refused_evictions_are_asked_again_until_all_are_gone() -> None:
    api: Any = Api(pod("a"), pod("agent", "DaemonSet"), patience=2)
    drain(api, "w1", 30, lambda *_: None)
    assert api.asked == ["a"] * 3
    assert len(api.pods) == 1


def test_what_is_ending_is_not_asked_again_and_told_when_time_is_up() -> None:
    api: Any = Api(pod("a", deletionTimestamp="now"), pod("b"), patience=10**9)
    with pytest.raises(DeployError) as caught:
        drain(api, "w1", 0, lambda *_: None)
    assert "n/a: it is ending still" in str(caught.value)
    assert "n/b: the disruption budget needs 1" in str(caught.value)
    assert "a" not in api.asked
    assert caught.value.exit_code is ExitCode.NEGATIVE


def work(api: Any, failure: BaseException) -> None:
    """Fail while the node is kept empty."""
    with cordoned(api, "w1", "removal"):
        api.seen = api.cordon
        raise failure


@pytest.mark.parametrize("failure", [DeployError("no", exit_code=ExitCode.NEGATIVE), KeyboardInterrupt()])
def test_our_cordon_goes_when_it_fails(failure: BaseException) -> None:
    api: Any = Api()
    with pytest.raises(type(failure)):
        work(api, failure)
    assert (api.seen, api.cordon, api.node["metadata"]["annotations"][MARK]) == (True, None, None)


def test_a_cordon_of_a_killed_run_is_ours_and_anybody_elses_stays() -> None:
    ours: Any = Api(unschedulable=True)
    ours.node["metadata"]["annotations"][MARK] = "removal"
    theirs: Any = Api(unschedulable=True)
    for api in (ours, theirs):
        with pytest.raises(KeyboardInterrupt):
            work(api, KeyboardInterrupt())
    assert (ours.cordon, theirs.cordon) == (None, True)


def test_a_node_that_has_left_needs_no_cordon() -> None:
    api: Any = Api()
    api.node = None
    with cordoned(api, "w1", "removal"):
        assert api.node is None
