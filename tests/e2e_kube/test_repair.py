"""Repair in place by both doors: 64 pods use a whole promise, one node dies, and the gang is whole again.

The four pods of that node have no room one by one: the promise is used up until they move together. The others run on.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from paictl.cluster.interface import Cluster, JobView
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.jobrig import SPACE, JobRig, gated_jobs, job_rig, opened, request, role
from tests.e2e_kube.kubeapi import KubeApi, devices, dies, until
from tests.e2e_kube.rig import nodes_of

NODES, PODS, PER_NODE = 18, 64, 4
HIVED: Mapping[str, Any] = {
    "physicalCluster": {
        "skuTypes": {"GPU": {"gpu": 1, "cpu": 4, "memory": "8192Mi"}},
        "cellTypes": {
            "NODE": {"childCellType": "GPU", "childCellNumber": PER_NODE, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": NODES // 2},
        },
        "physicalCells": [
            {"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{first + i}"} for i in range(NODES // 2)]}
            for first in (0, NODES // 2)
        ],
    },
    "virtualClusters": {"A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": PODS // PER_NODE}]}},
}


@pytest.fixture(scope="module", params=["extender", "gates"])
def rig(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[JobRig]:
    names = nodes_of(HIVED)
    api.add_nodes(names)
    api.await_nodes(len(names))
    settings = {"hivedscheduler": {"config": yaml.safe_dump(dict(HIVED), sort_keys=False)}}
    door = gated_jobs if request.param == "gates" else job_rig
    try:
        with door(plane, api, HIVED, tmp_path_factory.mktemp("repair")) as made:
            opened(plane).push({"services-configuration.yaml": yaml.safe_dump(settings)}, "for jobs", base=None)
            yield made
    finally:
        api.call("DELETE", "/api/v1/nodes")


def running(job: JobView) -> int:
    return sum(task.state == "Running" for task in job.tasks)


def held(api: KubeApi) -> list[tuple[str, int]]:
    """The devices of all pods that have a node and go on."""
    pods = [pod for pod in api.pods(SPACE) if pod["spec"].get("nodeName")]
    pods = [pod for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    return [(pod["spec"]["nodeName"], device) for pod in pods for device in devices(pod)]


def test_one_node_dies_and_the_gang_is_whole_again(rig: JobRig, api: KubeApi) -> None:
    cluster: Cluster = opened(rig.plane)
    asked = request("big", {"worker": role(1, PODS)})
    asked.data["extras"]["restart"] = "member"  # type: ignore[index]
    cluster.submit([asked])
    until(lambda: running(cluster.job("ann~big")) == PODS, 240, lambda: str(running(cluster.job("ann~big"))))
    before = cluster.job("ann~big")
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in api.pods(SPACE)}
    node = before.tasks[20].node
    lost = [task.index for task in before.tasks if task.node == node]
    assert len(lost) == PER_NODE

    dies(api, node)
    began = time.monotonic()

    def whole() -> bool:
        pods = [pod for pod in api.pods(SPACE) if pod["status"]["phase"] == "Running"]
        return len(pods) == PODS and node not in {pod["spec"]["nodeName"] for pod in pods}

    until(
        whole,
        120,
        lambda: str(
            [(one.index, one.state, one.node, one.reason) for one in cluster.job("ann~big").tasks if one.index in lost]
        ),
    )
    seconds = time.monotonic() - began
    print(f"whole again {seconds:.1f} s after its node died")  # noqa: T201 - for whoever measures
    until(lambda: running(cluster.job("ann~big")) == PODS, 30, "the record says so")
    found = cluster.job("ann~big")
    assert (found.attempt, found.started, found.preemptions) == (0, before.started, 0)
    again = [now.index for now, was in zip(found.tasks, before.tasks, strict=True) if now.attempt != was.attempt]
    assert again == lost, (node, found.repairs)
    stayed = {task.pod: (task.node, task.devices) for task in before.tasks if task.index not in lost}
    assert {task.pod: (task.node, task.devices) for task in found.tasks if task.index not in lost} == stayed
    now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in api.pods(SPACE)}
    assert {name: now[name] for name in stayed} == {name: uids[name] for name in stayed}
    assert len(set(held(api))) == len(held(api)) == PODS
    told = [repair for repair in found.repairs if repair not in before.repairs]
    assert sorted(repair.index for repair in told) == lost
    for repair in told:
        assert repair.before == node
        assert repair.node not in ("", node)
        assert repair.back is not None
        assert f"node {node}" in repair.reason
    rack = (
        {f"n{at}" for at in range(NODES // 2)}
        if int(node[1:]) < NODES // 2
        else {f"n{at}" for at in range(NODES // 2, NODES)}
    )
    free_there = len(rack - {task.node for task in before.tasks})
    if free_there:
        assert {found.tasks[index].node for index in lost} <= rack, "inside its rack, which has room"
