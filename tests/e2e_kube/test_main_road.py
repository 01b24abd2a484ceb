"""The pod that the documentation prints: labels and ``nvidia.com/gpu``, on nodes with a device plugin's resources.

kube-scheduler's own filters then offer no node while devices are taken, and never ask the extender.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.gates import gates
from tests.e2e_kube.kubeapi import Json, KubeApi
from tests.e2e_kube.rig import Rig, rig

pytestmark = pytest.mark.versions

NODES = [f"g{i}" for i in range(1, 9)]
CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "NODE": {"childCellType": "GPU", "childCellNumber": 8, "isNodeLevel": True},
            "POOL": {"childCellType": "NODE", "childCellNumber": 8},
        },
        "physicalCells": [{"cellType": "POOL", "cellChildren": [{"cellAddress": name} for name in NODES]}],
    },
    "virtualClusters": {name: {"virtualCells": [{"cellType": "POOL.NODE", "cellNumber": 4}]} for name in ("a", "b")},
}


@pytest.fixture(scope="module", params=[rig, gates], ids=["extender", "gates"])
def up(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    with request.param(plane, api, CONFIG, tmp_path_factory.mktemp("road"), plugin=True) as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()


def pod(name: str, vc: str, priority: str, size: int = 1, **more: Any) -> Json:
    """Eight devices."""
    labels = {"paictl.io/virtual-cluster": vc, "paictl.io/priority": priority}
    if size > 1:
        labels |= {"paictl.io/group": name.rpartition("-")[0], "paictl.io/group-size": str(size)}
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"schedulerName": "hivedscheduler", "containers": [container], "terminationGracePeriodSeconds": 1, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


@pytest.mark.usefixtures("up")
def test_what_is_lent_to_opportunistic_pods_is_reclaimed(api: KubeApi) -> None:
    names = [f"lent-{i}" for i in range(8)]
    for name in names:
        api.create(pod(name, "a", "opportunistic"))
    api.await_bound(names)
    api.create(pod("guaranteed", "b", "100"))
    api.await_bound(["guaranteed"])
    gone = [name for name in names if api.pod(name) is None]
    assert len(gone) == 1
    assert any("guaranteed" in event["message"] for event in api.events(gone[0]) if event["reason"] == "Preempted")


@pytest.mark.usefixtures("up")
def test_a_gang_preempts_a_gang_of_its_own_virtual_cluster(api: KubeApi) -> None:
    low = [f"low-{i}" for i in range(4)]
    for name in low:
        api.create(pod(name, "b", "1", 4))
    api.await_bound(low)
    high = [f"high-{i}" for i in range(2)]
    for name in high:
        api.create(pod(name, "b", "9", 2))
    api.await_bound(high)
    assert not [name for name in low if api.pod(name) is not None]
