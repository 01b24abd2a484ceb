"""Nodes of Kubernetes as machines."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from paictl.cluster.interface import ClusterError, NodeChange, NodeCondition, NodeRole, UnsupportedError
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.kubernetes.nodes import devices_of, view_of
from paictl.scheduler.wire import ISOLATION
from tests.unit.cluster.fakekube import FakeKube

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-22T04:00:00Z"}


def node(name: str = "w1", *conditions: dict[str, str], **changes: Any) -> dict[str, Any]:
    capacity = {"cpu": "95500m", "memory": "791234Ki", "nvidia.com/gpu": "8", **changes.pop("capacity", {})}
    return {
        "metadata": {
            "name": name,
            "creationTimestamp": "2026-11-22T03:00:00Z",
            "labels": changes.pop("labels", {}),
        },
        "spec": changes.pop("spec", {}),
        "status": {
            "capacity": capacity,
            "allocatable": {**capacity, **changes.pop("allocatable", {})},
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": list(conditions or (READY,)),
        },
    }


def pod(name: str, limits: list[dict[str, str]], **changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "ns", "annotations": changes.pop("annotations", None)},
        "spec": {
            "nodeName": changes.pop("on", "w1"),
            "containers": [{"resources": {"limits": one}} for one in limits],
            **changes,
        },
    }


def test_a_machine_has_what_the_node_says() -> None:
    view = view_of(node(labels={"node-role.kubernetes.io/control-plane": "", "nvidia.com/gpu.product": "H200"}), [])
    machine = view.machine
    assert (machine.name, machine.address, machine.role, machine.sku) == ("w1", "10.0.0.1", NodeRole.MASTER, "H200")
    assert (machine.cpu, machine.memory, machine.device_type, machine.devices) == (
        95,
        791234 * 1024,
        "nvidia.com/gpu",
        8,
    )
    assert (view.condition, view.since, view.reason) == (
        NodeCondition.READY,
        datetime(2026, 11, 22, 4, tzinfo=UTC),
        "",
    )


@pytest.mark.parametrize(
    "labels",
    [
        {"nvidia.com/cuda.driver-version.full": "550.54.15", "nvidia.com/cuda.runtime-version.full": "12.4"},
        {
            "nvidia.com/cuda.driver.major": "550",
            "nvidia.com/cuda.driver.minor": "54",
            "nvidia.com/cuda.driver.rev": "15",
            "nvidia.com/cuda.runtime.major": "12",
            "nvidia.com/cuda.runtime.minor": "4",
        },
    ],
    ids=["new", "old"],
)
def test_software_is_what_kubelet_and_feature_discovery_say(labels: dict[str, str]) -> None:
    told = node(labels=labels)
    told["status"]["nodeInfo"] = {"osImage": "Ubuntu 24.04", "containerRuntimeVersion": "containerd://2.1.3"}
    assert view_of(told, []).software == {
        "os": "Ubuntu 24.04",
        "runtime": "containerd 2.1.3",
        "driver": "550.54.15",
        "cuda": "12.4",
    }
    assert view_of(node(), []).software == {}


def test_a_failure_hides_a_cordon_and_reasons_are_given() -> None:
    bad = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    view = view_of(node("w1", bad, spec={"unschedulable": True}), [])
    assert (view.condition, view.since) == (NodeCondition.FAILED, datetime(2026, 11, 22, 3, tzinfo=UTC))
    assert "Kubelet stopped posting" in view.reason
    full = {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"}
    taints = [
        {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"},
        {"key": "team", "value": "vision", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
    ]
    view = view_of(node("w1", READY, full, spec={"taints": taints}, allocatable={"nvidia.com/gpu": "6"}), [])
    assert view.condition is NodeCondition.READY
    assert view.reason == (
        "DiskPressure: KubeletHasDiskPressure; 2 of 8 devices unhealthy; tainted team=vision:NoSchedule"
    )


def test_a_cordon_is_dated_by_its_taint() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "2026-11-22T04:30:00Z"}
    view = view_of(node(spec={"unschedulable": True, "taints": [taint]}), [])
    assert (view.condition, view.since) == (NodeCondition.CORDONED, datetime(2026, 11, 22, 4, 30, tzinfo=UTC))
    assert view.reason == ""


def test_devices_are_counted_as_they_are_held() -> None:
    gpus = {"nvidia.com/gpu": "2"}
    assert devices_of(pod("p", [gpus, {"nvidia.com/gpu": "1"}, {"cpu": "4"}])) == 3
    assert devices_of(pod("p", [gpus], initContainers=[{"resources": {"limits": {"nvidia.com/gpu": "4"}}}])) == 4
    assert devices_of(pod("p", [{}], annotations={ISOLATION: "0,1,5"})) == 3, "HiveD gives devices of its own"
    assert devices_of(pod("p", [{}], annotations={ISOLATION: "0:0,0:6"})) == 2, "MIG instances are devices"
    assert devices_of(pod("p", [{"cpu": "1"}])) == 0
    view = view_of(node(), [pod("b", [gpus]), pod("a", [{}], annotations={ISOLATION: "3"}), pod("cpu", [{}])])
    assert (view.used, view.pods) == (3, ("ns/a", "ns/b"))


def test_a_node_that_says_nonsense_is_shown_all_the_same() -> None:
    odd = node(capacity={"cpu": "many", "memory": "", "nvidia.com/gpu": "-1"})
    odd["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"}]
    machine = view_of(odd, []).machine
    assert (machine.cpu, machine.memory, machine.devices) == (0, 0, 0)
    bare = view_of({"metadata": {"name": "bare"}}, [])
    assert (bare.condition, bare.machine.devices) == (NodeCondition.FAILED, 0)


def test_nodes_come_by_name_and_a_cordon_reaches_the_server() -> None:
    kube = FakeKube()
    for name in ("w2", "w1"):
        made = node(name)
        kube.objects[f"/api/v1/nodes/{name}"] = made
    kube.objects["/api/v1/pods/p"] = pod("p", [{"nvidia.com/gpu": "8"}])
    cluster = KubernetesCluster(kube, "pai")
    assert [(view.machine.name, view.used) for view in cluster.nodes()] == [("w1", 8), ("w2", 0)]
    assert cluster.set_node("w1", NodeChange.CORDON).condition is NodeCondition.CORDONED
    assert kube.objects["/api/v1/nodes/w1"]["spec"]["unschedulable"] is True
    assert cluster.set_node("w1", NodeChange.UNCORDON).condition is NodeCondition.READY
    with pytest.raises(ClusterError, match="no node 'w3'"):
        cluster.set_node("w3", NodeChange.CORDON)
    requests = len(kube.requests)
    with pytest.raises(UnsupportedError):
        cluster.set_node("w1", NodeChange.FAIL)
    assert len(kube.requests) == requests
