"""Pods as their controllers make them: which gang they belong to and how many leaf cells they ask for."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec
from paictl.cluster.pods.labels import DEVICES, Rules
from paictl.cluster.pods.reading import asks, read_pod
from paictl.scheduler.errors import RequestError
from paictl.scheduler.wire import ENABLE, SCHEDULING_SPEC
from tests.unit.extender.conftest import NODES
from tests.unit.extender.harness import Harness, pod

Json = dict[str, Any]
UID = "0a1b2c3d-4e5f-6789-abcd-ef0123456789"


def shaped(kind: str, owner: str, labels: Json, *, api: str = "batch/v1", **limits: str) -> Json:
    """A pod with what its controller writes; limits with ``__`` for a slash and ``_`` for a dot."""
    amounts = {name.replace("__", "/").replace("_", "."): value for name, value in limits.items()}
    reference = {"apiVersion": api, "kind": kind, "name": owner, "uid": UID, "controller": True}
    about = {"name": f"{owner}-worker-0", "namespace": "team", "labels": labels, "ownerReferences": [reference]}
    return {
        "metadata": about,
        "spec": {"containers": [{"name": "c", "resources": {"limits": amounts or {"nvidia.com/gpu": "8"}}}]},
    }


OURS = {"paictl.io/virtual-cluster": "vision", "paictl.io/group-size": "4"}
JOB = {
    "batch.kubernetes.io/job-name": "train",
    "batch.kubernetes.io/controller-uid": UID,
    "job-name": "train",
    "batch.kubernetes.io/job-completion-index": "2",
    "controller-uid": UID,
}
KUBEFLOW = {
    "training.kubeflow.org/job-name": "train",
    "training.kubeflow.org/replica-type": "worker",
    "training.kubeflow.org/replica-index": "0",
}
JOBSET = {
    "jobset.sigs.k8s.io/jobset-name": "train",
    "jobset.sigs.k8s.io/jobset-uid": UID,
    "jobset.sigs.k8s.io/replicatedjob-name": "node",
    "jobset.sigs.k8s.io/job-index": "0",
    "jobset.sigs.k8s.io/restart-attempt": "0",
}
TRAINJOB = JOBSET | {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
SHAPES = {
    "Job": (shaped("Job", "train", OURS | JOB), "team/train.0a1b2c3d"),
    "PyTorchJob": (shaped("PyTorchJob", "train", OURS | KUBEFLOW, api="kubeflow.org/v1"), "team/train"),
    "TFJob": (shaped("TFJob", "train", OURS | KUBEFLOW, api="kubeflow.org/v1"), "team/train"),
    "MPIJob worker": (shaped("MPIJob", "train", OURS | KUBEFLOW, api="kubeflow.org/v2beta1"), "team/train"),
    "MPIJob launcher": (shaped("Job", "train-launcher", OURS | KUBEFLOW | JOB), "team/train"),
    "JobSet": (shaped("Job", "train-node-0", OURS | JOB | JOBSET), "team/train.0a1b2c3d"),
    "TrainJob": (shaped("Job", "train-node-0", OURS | JOB | TRAINJOB), "team/train.0a1b2c3d"),
    "StatefulSet": (shaped("StatefulSet", "train", OURS, api="apps/v1"), "team/train.0a1b2c3d"),
    "named": (shaped("Job", "train", OURS | JOB | {"paictl.io/group": "mine"}), "team/mine"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_the_gang_of_a_controllers_pod(name: str) -> None:
    pod, group = SHAPES[name]
    assert asks(pod)
    found = read_pod(pod, "uid", "team/pod", Rules())
    assert found.request.group == group
    assert found.request.members == ((8, 4),)
    assert found.request.vc == "vision"
    assert found.request.guaranteed
    assert not found.request.ignore_suggested


def read(labels: Json, rules: Rules | None = None, **limits: str) -> Any:
    pod = shaped("Job", "train", {"paictl.io/virtual-cluster": "v", **labels}, **limits)
    return read_pod(pod, "uid", "team/pod", rules or Rules())


def test_without_a_size_a_pod_is_alone() -> None:
    found = read({})
    assert found.request.group == "team/pod"
    assert found.request.members == ((8, 1),)
    assert "group of its own" in found.group_from


def test_gangs_of_different_pods() -> None:
    assert read({"paictl.io/group-members": "1x4.2x8"}).request.members == ((4, 1), (8, 2))


def test_leaf_cells_are_counted_by_sku() -> None:
    rules = Rules(skus={"QUAD": {"gpu": 4}, "DUO": {"gpu": 2}})
    assert read({}, Rules(skus={"QUAD": {"gpu": 4}})).request.leaf_number == 2
    assert read({"paictl.io/leaf-cell-type": "DUO"}, rules).request.leaf_number == 4
    assert read({}, rules).request.leaf_number == 8, "the types do not agree: a device is a leaf cell"
    assert read({"paictl.io/leaf-cell-type": "DUO"}, rules, nvidia_com__gpu="3").request.leaf_number == 2
    assert read({}, amd_com__gpu="2").request.leaf_number == 2
    assert read({"paictl.io/leaf-cells": "9"}).request.leaf_number == 9


LIMITS = "resources.limits"


@pytest.mark.parametrize(
    ("labels", "skus", "limits", "why"),
    [
        ({"paictl.io/leaf-cells": "2"}, {}, {"nvidia_com__gpu": "2"}, ""),
        ({"paictl.io/leaf-cells": "2"}, {}, {"nvidia_com__gpu": "4"}, "may use 4 devices, but its leaf cells have"),
        ({"paictl.io/leaf-cells": "1"}, {"QUAD": {"gpu": 4}}, {"nvidia_com__gpu": "4"}, ""),
        ({"paictl.io/leaf-cells": "1"}, {"QUAD": {"gpu": 4}}, {"nvidia_com__gpu": "5"}, "its leaf cells have only 4"),
        ({}, {}, {"nvidia_com__gpu": "2", "amd_com__gpu": "8"}, "may use 8 devices, but its leaf cells have only 2"),
    ],
)
def test_a_pod_gets_no_more_devices_than_its_leaf_cells_have(labels: Json, skus: Json, limits: Json, why: str) -> None:
    """A device plugin would give it devices of cells that are promised to others."""
    if not why:
        assert read(labels, Rules(skus=skus), **limits).request.leaf_number in (1, 2)
        return
    with pytest.raises(RequestError, match=why) as refused:
        read(labels, Rules(skus=skus), **limits)
    assert refused.value.field.startswith(f"{LIMITS}[")


MIXED = ClusterSpec.from_mapping(
    {
        "physicalCluster": {
            "skuTypes": {"DUO": {"gpu": "2"}, "UNO": {"gpu": 1}, "CPU": {"cpu": 4}},
            "cellTypes": {
                f"{kind}-NODE": {"childCellType": kind, "childCellNumber": 4, "isNodeLevel": True}
                for kind in ("DUO", "UNO", "CPU")
            },
            "physicalCells": [
                {"cellType": "DUO-NODE", "cellAddress": "a"},
                {"cellType": "DUO-NODE", "cellAddress": "b", "pinnedCellId": "own"},
                {"cellType": "UNO-NODE", "cellAddress": "c"},
                {"cellType": "UNO-NODE", "cellAddress": "d"},
                {"cellType": "CPU-NODE", "cellAddress": "e"},
            ],
        },
        "virtualClusters": {
            "wide": {
                "virtualCells": [
                    {"cellType": "DUO-NODE", "cellNumber": 1},
                    {"cellType": "CPU-NODE", "cellNumber": 1},
                ],
            },
            "narrow": {
                "virtualCells": [{"cellType": "UNO-NODE", "cellNumber": 2}],
                "pinnedCells": [{"pinnedCellId": "own"}],
            },
        },
    }
)


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"virtualCluster": "wide", "priority": 1}, 4),
        ({"virtualCluster": "wide", "priority": -1}, 2),
        ({"virtualCluster": "wide", "priority": -1, "leafCellType": "DUO"}, 4),
        ({"virtualCluster": "narrow", "priority": 1}, 2),
        ({"virtualCluster": "narrow", "priority": 1, "pinnedCellId": "own"}, 4),
        ({"virtualCluster": "narrow", "priority": 1, "leafCellType": "CPU"}, 2),
    ],
)
def test_a_pod_that_names_no_sku_may_use_what_the_smallest_that_it_can_get_has(asked: Json, most: int) -> None:
    """A job is planned with the SKUs of its virtual cluster only."""
    rules = Rules.from_spec(DEVICES, MIXED)
    made = pod("p", {"leafCellNumber": 2, "affinityGroup": None} | asked)
    container = made["spec"]["containers"][0]
    container["resources"] = {"limits": {"nvidia.com/gpu": str(most)}}
    assert read_pod(made, "u", "team/p", rules).request.leaf_number == 2
    container["resources"] = {"limits": {"nvidia.com/gpu": str(most + 1)}}
    with pytest.raises(RequestError, match=f"may use {most + 1} devices, but its leaf cells have only {most}"):
        read_pod(made, "u", "team/p", rules)


def test_devices_of_an_annotated_pod_are_counted_but_a_placed_one_is_read_in_any_case(harness: Harness) -> None:
    """Whoever was placed before this was checked keeps its devices."""
    asked = {"virtualCluster": "B", "leafCellNumber": 1, "priority": 0}
    greedy = pod("greedy", asked)
    greedy["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    answer = harness.ask(greedy)
    assert not answer.names
    assert "may use 4 devices, but its leaf cells have only 1" in str(answer.hopeless)
    before = pod("before", asked)
    node = harness.run(before)
    before["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "4"}}
    harness.begin(harness.core.spec)
    harness.open(NODES)
    assert harness.core.book.holds("uid-before")
    assert node == "n0"
    assert "DevicesUnknown" not in harness.reasons_of("before")


def test_containers_add_up_and_init_containers_do_not() -> None:
    pod = shaped("Job", "train", {"paictl.io/virtual-cluster": "v"})
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    pod["spec"]["containers"].append({"name": "d", "resources": limits})
    pod["spec"]["initContainers"] = [{"name": "i", "resources": limits}]
    assert read_pod(pod, "u", "n", Rules()).request.leaf_number == 9
    sidecar = {"name": "s", "resources": limits, "restartPolicy": "Always"}
    pod["spec"]["initContainers"] = [sidecar]
    assert read_pod(pod, "u", "n", Rules()).request.leaf_number == 10
    large = {"name": "i", "resources": {"limits": {"nvidia.com/gpu": "12"}}}
    pod["spec"]["initContainers"] = [large, sidecar]
    assert read_pod(pod, "u", "n", Rules()).request.leaf_number == 12
    pod["spec"]["initContainers"] = [sidecar, large]
    assert read_pod(pod, "u", "n", Rules()).request.leaf_number == 13, "the sidecar runs on beside it"


def test_priorities_and_flags() -> None:
    assert read({"paictl.io/priority": "opportunistic"}).request.priority == -1
    assert read({"paictl.io/priority": "-1"}).request.priority == -1
    assert read({"paictl.io/priority": "7"}).request.priority == 7
    assert read({"paictl.io/lazy-preemption": "true"}).request.lazy_preemption
    assert read({"paictl.io/ignore-suggested-nodes": "True"}).request.ignore_suggested
    pod = shaped("Job", "train", {})
    pod["metadata"]["annotations"] = {"paictl.io/virtual-cluster": "v", "paictl.io/priority": "-1"}
    assert asks(pod)
    assert read_pod(pod, "u", "n", Rules()).request.priority == -1


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"paictl.io/priority": "high"}, "paictl.io/priority: expected a whole number, found 'high'"),
        ({"paictl.io/priority": "1001"}, "priority: must lie in"),
        ({"paictl.io/group-size": "0"}, "podNumber: must be at least 1"),
        ({"paictl.io/group-size": "many"}, "paictl.io/group-size: expected a whole number"),
        ({"paictl.io/group-members": "3"}, "expected PODSxCELLS"),
        ({"paictl.io/group-members": "2x4"}, "no member has the pod's own 8 leaf cells"),
        ({"paictl.io/lazy-preemption": "yes"}, "expected true or false"),
        ({"paictl.io/virtual-cluster": ""}, "virtualCluster: is empty"),
    ],
)
def test_what_is_wrong_names_the_label(labels: Json, said: str) -> None:
    with pytest.raises(RequestError, match=said.replace("(", "\\(")):
        read(labels)


def test_a_pod_without_devices_is_told_what_to_say() -> None:
    with pytest.raises(RequestError, match="say how many leaf cells by paictl"):
        read({}, cpu="4")


def test_an_annotation_outranks_labels_and_the_marker_alone_is_not_enough() -> None:
    pod = shaped("Job", "train", OURS | JOB, nvidia_com__gpu="2")
    pod["metadata"] = pod["metadata"] | {"annotations": {SCHEDULING_SPEC: "virtualCluster: x\nleafCellNumber: 2"}}
    found = read_pod(pod, "u", "team/p", Rules())
    assert (found.source, found.request.vc, found.request.group) == ("annotation", "x", "team/p")
    marked = shaped("Job", "j", {}, hivedscheduler_microsoft_com__pod_scheduling_enable="1")
    marked["spec"]["containers"][0]["resources"]["limits"] = {"hivedscheduler.microsoft.com/pod-scheduling-enable": "1"}
    assert asks(marked)
    with pytest.raises(RequestError, match="neither this annotation nor a label"):
        read_pod(marked, "u", "n", Rules())


def test_a_launcher_without_devices_gets_no_event(harness: Harness) -> None:
    labels = {"paictl.io/virtual-cluster": "A"}
    launcher = pod("launcher", None, labels=labels)
    harness.core.pod_changed(launcher)
    launcher["spec"]["nodeName"] = "n0"
    harness.core.pod_changed(launcher)
    assert harness.recorded == []
    marked = pod("marked", None, labels=labels)
    marked["spec"]["containers"][0]["resources"] = {"limits": {ENABLE: 1}}
    harness.core.pod_changed(marked)
    assert harness.reasons_of("marked") == ["Unreadable"], "it asks for the scheduler"
