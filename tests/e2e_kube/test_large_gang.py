"""One gang of 512 pods by each door: whole, each device once, and known after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.e2e_kube.churn import gang
from tests.e2e_kube.controlplane import ControlPlane, answers
from tests.e2e_kube.gates import gates
from tests.e2e_kube.kubeapi import INFO, KubeApi, devices, until
from tests.e2e_kube.rig import Rig, rig

PODS, NODES = 512, 64
CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "NODE": {"childCellType": "GPU", "childCellNumber": 8, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": NODES},
        },
        "physicalCells": [
            {"cellType": "RACK", "cellChildren": [{"cellAddress": f"large-{number}"} for number in range(NODES)]}
        ],
    },
    "virtualClusters": {"A": {"virtualCells": [{"cellType": "RACK", "cellNumber": 1}]}},
}


@pytest.fixture(scope="module", params=[rig, gates], ids=["extender", "gates"])
def up(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    with request.param(plane, api, CONFIG, tmp_path_factory.mktemp("large"), plugin=request.param is gates) as made:
        yield made


def test_a_gang_of_512_runs_whole(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    *pods, last = gang("big", PODS, 1, "A")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(api.create, pods))
    if api.gated:
        reason = f"pod waits for its gang: {PODS - 1} of {PODS} pods"
        until(lambda: any(reason in e["message"] for e in api.events("big-7")), 60, lambda: api.plight(["big-7"]))
        assert not any(pod["spec"].get("nodeName") for pod in api.pods()), "all or none"
    api.create(last)
    bound = api.await_bound([f"big-{number}" for number in range(PODS)], 120)
    held = {(pod["spec"]["nodeName"], device) for pod in bound.values() for device in devices(pod)}
    assert held == {(f"large-{number}", device) for number in range(NODES) for device in range(8)}
    said = [json.loads(pod["metadata"]["annotations"][INFO]) for pod in bound.values()]
    assert all(one["affinityGroupBindInfo"] == said[0]["affinityGroupBindInfo"] for one in said)
    (member,) = said[0]["affinityGroupBindInfo"]
    assert {(place["physicalNode"], *place["physicalLeafCellIndices"]) for place in member["podPlacements"]} == held
    plane.programs[up.program].kill()
    plane.programs[up.program].start()
    until(lambda: answers(f"{up.url}/readyz"), 60, lambda: plane.programs[up.program].tail())
    known = up.get("/v1/inspect/affinitygroups/default/big")["status"]["allocatedPods"]
    assert set(known) == {pod["metadata"]["uid"] for pod in bound.values()}
