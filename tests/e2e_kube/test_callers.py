"""Who may not: a tenant who asks the extender as kube-scheduler does, about a pod of hers, from within the cluster."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e_kube.churn import gang
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.kubeapi import SPEC, KubeApi, until
from tests.e2e_kube.rig import Rig, rig

CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 3},
        },
        "physicalCells": [{"cellType": "RACK", "cellChildren": [{"cellAddress": f"her-{i}"} for i in range(3)]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 2}]},
        "B": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 1}]},
    },
}
NODES = ["her-0", "her-1", "her-2"]


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(plane, api, CONFIG, tmp_path_factory.mktemp("callers")) as made:
        yield made


def test_three_requests_of_a_tenant_take_nothing_from_another(up: Rig, api: KubeApi) -> None:
    """An invented request for a waiting pod of hers, and bindings of it to every node."""
    production = [pod for one in ("d1", "d2") for pod in gang(one, 1, 4, "A", 100)]
    for pod in production:
        api.create(pod)
    api.await_bound(["d1-0", "d2-0"])
    api.create(gang("busy", 1, 4, "B", 5)[0])
    api.await_bound(["busy-0"])
    her_pod = api.create(gang("evil", 1, 4, "B")[0])
    until(lambda: "pod waits" in api.plight(["evil-0"]), 20, lambda: api.plight(["evil-0"]))
    forged = copy.deepcopy(her_pod)
    asked = json.loads(forged["metadata"]["annotations"][SPEC])
    asked |= {
        "virtualCluster": "A",
        "priority": 1000,
        "affinityGroup": {
            "name": "default/evil3",
            "members": [{"podNumber": 2, "leafCellNumber": 4}],
        },
    }
    forged["metadata"]["annotations"][SPEC] = json.dumps(asked)
    answer = up.post("/v1/extender/filter", {"Pod": forged, "NodeNames": NODES})
    assert not answer["NodeNames"]
    assert "at the API server" in answer["Error"], answer
    about = {"PodName": "evil-0", "PodNamespace": "default", "PodUID": her_pod["metadata"]["uid"]}
    for node in NODES:
        assert up.post("/v1/extender/bind", {**about, "Node": node})["Error"]
    api.create(gang("last", 1, 4, "B", 1)[0])  # decided after all that
    until(lambda: "pod waits" in api.plight(["last-0"]), 20, lambda: api.plight(["last-0"]))
    for name in ("d1-0", "d2-0", "busy-0"):
        running = api.pod(name)
        assert running is not None
        assert "deletionTimestamp" not in running["metadata"]
    assert not api.node_of("evil-0")
    groups = {one["metadata"]["name"] for one in up.get("/v1/inspect/affinitygroups/")["items"]}
    assert groups == {"default/d1", "default/d2", "default/busy"}
