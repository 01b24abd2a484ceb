"""Budgets and limits for users, by both doors on a real API server, with the rights that the printed manifests give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import yaml

from paictl.cluster.pods.times import START_PROMISED
from tests.e2e_kube.churn import gang
from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.gates import Placer, gates
from tests.e2e_kube.kubeapi import KubeApi, until
from tests.e2e_kube.rig import Rig, rig

CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "skuTypes": {"GPU": {"gpu": 1, "cpu": 1, "memory": "1024Mi"}},
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": f"shared-{i}"} for i in range(2)],
    },
    "virtualClusters": {
        "a": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]},
        "b": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]},
    },
}
SECTION = {
    "budgets": [{"vc": "b", "device-hours": 0}, {"vc": "a", "device-hours": 100}],
    "user-limits": [{"vc": "a", "devices": 2}],
}


@pytest.fixture(scope="module", params=["extender", "gates"])
def up(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    door = gates if request.param == "gates" else rig
    with door(plane, api, CONFIG, tmp_path_factory.mktemp("sharing"), plugin=True) as made:
        yield made


def _share(up: Rig, section: dict[str, Any]) -> None:
    """The door starts anew by service settings with a section."""
    settings = {
        "rest-server": {"default-pai-admin-username": "chief", "default-pai-admin-password": "Ember-Quay-90"},
        "hivedscheduler": {"config": yaml.safe_dump(CONFIG)},
        "sharing": section,
    }
    up.config = up.folder / "services-configuration.yaml"
    up.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    up.plane.programs[up.program].stop()
    up.install()
    program = up.start() if isinstance(up, Placer) else up.start_extender()
    until(lambda: answers(f"{up.url}/readyz"), 60, program.tail)


def _explained(up: Rig, name: str) -> str:
    found = up.get(f"/v1/explain/pods/default/{name}")
    told = [event["message"] for event in up.api.events(name)]
    return f"{found['situation']}: {' '.join(found['text'])} {told}"


def _waits_for(up: Rig, name: str, why: str) -> bool:
    """Whether a pod is held back for a reason, and says so itself."""
    said = json.dumps([event["message"] for event in up.api.events(name)])
    return "held back" in _explained(up, name) and why in _explained(up, name) and why in said


def test_gangs_are_held_back_and_say_why(up: Rig, api: KubeApi) -> None:
    _share(up, SECTION)
    for pod in [*gang("first", 1, 2, "a"), *gang("second", 1, 1, "a"), *gang("over", 1, 1, "b")]:
        api.create(pod)
    until(lambda: bool(api.node_of("first-0")), 90, "first is bound")
    limit = "user default may hold 2 guaranteed devices in virtual cluster a, holds 2, and this needs 1"
    until(partial(_waits_for, up, "second-0", limit), 90, lambda: _explained(up, "second-0"))
    budget = "the budget of virtual cluster b is 0 device hours"
    until(partial(_waits_for, up, "over-0", budget), 90, lambda: _explained(up, "over-0"))
    assert f'paictl_{up.program}_user_devices{{user="default",vc="a"}} 2.0' in up.text("/metrics")
    assert f'paictl_{up.program}_budget_hours{{user="",vc="a"}} 100.0' in up.text("/metrics")
    api.delete("first-0")
    until(lambda: bool(api.node_of("second-0")), 120, lambda: _explained(up, "second-0"))
    assert not api.node_of("over-0")
    for name in ("second-0", "over-0"):
        api.delete(name)


def _promise(api: KubeApi, name: str) -> str:
    """The start that is promised to a pod's gang, as the pod's own object says; empty: none is."""
    status = api.call("GET", f"/api/v1/namespaces/default/pods/{name}")["status"]
    found = (one for one in status.get("conditions", ()) if one["type"] == START_PROMISED and one["status"] == "True")
    return next((str(one["message"]) for one in found), "")


def test_a_promised_start_outlives_the_door(up: Rig, api: KubeApi) -> None:
    section = {"backfill": [{"mode": "conservative"}]}
    _share(up, section)
    for name in ("runs", "waits"):
        (pod,) = gang(name, 1, 4, "a")
        pod["spec"]["activeDeadlineSeconds"] = 36_000
        api.create(pod)
        if name == "runs":
            until(lambda: bool(api.node_of("runs-0")), 90, "the first is bound")
            began = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            api.patch("/api/v1/namespaces/default/pods/runs-0/status", {"status": {"startTime": began}})
    until(lambda: bool(_promise(api, "waits-0")), 90, lambda: _explained(up, "waits-0"))
    before = _promise(api, "waits-0")
    _share(up, section)
    until(
        lambda: up.get("/v1/explain/pods/default/waits-0")["start"] is not None, 60, lambda: _explained(up, "waits-0")
    )
    assert up.get("/v1/explain/pods/default/waits-0")["start"]["at"][:19] == before[:19]
    assert _promise(api, "waits-0") == before
    assert [event["reason"] for event in api.events("waits-0")].count("StartPromised") == 1
    for name in ("runs-0", "waits-0"):
        api.delete(name)
