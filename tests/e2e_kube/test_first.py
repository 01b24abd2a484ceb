"""The first steps: a pod, a gang, a preemption, an explanation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.e2e_kube.controlplane import VERSION, ControlPlane, answers
from tests.e2e_kube.kubeapi import KubeApi, devices, hived_pod, until
from tests.e2e_kube.rig import Rig, rig

pytestmark = pytest.mark.versions

CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
            "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 4},
        },
        "physicalCells": [
            {"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{i}"} for i in range(4)]},
        ],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 2}]},
        "B": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 2}]},
    },
}


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(plane, api, CONFIG, tmp_path_factory.mktemp("first")) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()


def gang(
    name: str, pods: int, leaves: int, vc: str = "A", priority: int = 0, **more: object
) -> list[dict[str, object]]:
    spec = {
        "virtualCluster": vc,
        "priority": priority,
        "leafCellNumber": leaves,
        "affinityGroup": {"name": f"default/{name}", "members": [{"podNumber": pods, "leafCellNumber": leaves}]},
        **more,
    }
    return [hived_pod(f"{name}-{i}", spec) for i in range(pods)]


def test_the_api_server_is_of_the_version_that_was_asked_for(api: KubeApi) -> None:
    assert api.get("/version")["gitVersion"] == VERSION


def test_a_pod_gets_neighbouring_devices(up: Rig, api: KubeApi) -> None:
    api.create(hived_pod("single", {"virtualCluster": "A", "priority": 0, "leafCellNumber": 2}))
    found = api.await_bound(["single"])["single"]
    assert devices(found) == [0, 1]
    explained = up.get("/v1/explain/pods/default/single")
    assert explained["situation"] == "running", explained


def test_a_gang_runs_or_waits_as_a_whole(up: Rig, api: KubeApi) -> None:
    for pod in gang("first", 2, 4):
        api.create(pod)
    api.await_bound(["first-0", "first-1"])
    for pod in gang("second", 2, 4):
        api.create(pod)
    until(lambda: "pod waits" in api.plight(["second-0"]), 20, lambda: api.plight(["second-0"]))
    assert not api.node_of("second-0")
    assert up.get("/v1/explain/pods/default/second-0")["situation"] == "waiting"
    for name in ("first-0", "first-1"):
        api.delete(name)
    api.await_bound(["second-0", "second-1"])


@pytest.mark.usefixtures("up")
def test_a_higher_priority_preempts_a_whole_gang(api: KubeApi) -> None:
    for pod in gang("low", 2, 4):
        api.create(pod)
    api.await_bound(["low-0", "low-1"])
    for pod in gang("high", 1, 4, priority=10):
        api.create(pod)
    api.await_bound(["high-0"], 30)
    assert api.pod("low-0") is None
    assert api.pod("low-1") is None
    assert any("high" in event["message"] for event in api.events("low-0") if event["reason"] == "Preempted")
    assert any("low-0" in event["message"] for event in api.events("high-0") if event["reason"] == "Preempting")


def test_kube_scheduler_asks_over_https_and_services_configuration_is_read(up: Rig, api: KubeApi) -> None:
    plane, secure = up.plane, up.url.replace("http:", "https:")
    words = ("--tls-cert", str(plane.folder / "apiserver.crt"), "--tls-key", str(plane.folder / "apiserver.key"))
    extender = up.scheduler_configuration()["extenders"][0] | {
        "urlPrefix": f"{secure}/v1/extender",
        "enableHTTPS": True,
        "tlsConfig": {"caFile": str(plane.folder / "ca.crt")},
    }
    plain, services = up.config, up.folder / "services-configuration.yaml"
    others = {"rest-server": {"default-pai-admin-username": "a", "default-pai-admin-password": "another-secret-1"}}
    skus = {"GPU": {"gpu": 1, "cpu": 8, "memory": "32Gi"}}
    cells = {**CONFIG, "physicalCluster": {"skuTypes": skus, **CONFIG["physicalCluster"]}}
    services.write_text(yaml.safe_dump(others | {"hivedscheduler": {"config": yaml.safe_dump(cells)}}))
    try:
        up.config = services
        program = up.start_extender(*words, wait=False)
        program.wait_until(lambda: answers(f"{secure}/readyz", plane.context))
        assert not answers(f"{up.url}/readyz")
        up.start_scheduler(extenders=[extender])
        api.create(hived_pod("sealed", {"virtualCluster": "A", "priority": 0, "leafCellNumber": 2}))
        assert devices(api.await_bound(["sealed"])["sealed"]) == [0, 1]
    finally:
        up.config = plain
        up.start_extender()
        up.start_scheduler()
