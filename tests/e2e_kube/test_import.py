"""From a cluster that runs to its first guaranteed gang: imported, and scheduled by what was imported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.gates import gates
from tests.e2e_kube.kubeapi import Json, KubeApi, until
from tests.e2e_kube.shell import Shell

RACK = "cloud.provider.com/topology-rack"
KUEUE = "kueue.x-k8s.io"
KINDS = {"clusterqueues": "ClusterQueue", "resourceflavors": "ResourceFlavor", "localqueues": "LocalQueue"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def kind(plural: str) -> Json:
    """A kind of Kueue, without what its own definition says about its fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": plural[:-1], "kind": KINDS[plural], "listKind": f"{KINDS[plural]}List"}
    scope = "Namespaced" if plural == "localqueues" else "Cluster"
    spec = {"group": KUEUE, "names": names, "scope": scope, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{KUEUE}"}, "spec": spec}


def thing(plural: str, name: str, spec: Json) -> Json:
    return {"apiVersion": f"{KUEUE}/v1beta2", "kind": KINDS[plural], "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def running(api: KubeApi) -> Iterator[None]:
    """Two racks of two nodes with eight devices each, and Kueue's quotas for two teams."""
    root = f"/apis/{KUEUE}/v1beta2"
    try:
        api.add_nodes([f"r{rack}n{number}" for rack in range(2) for number in range(2)], nvidia_com__gpu="8")
        for rack in range(2):
            for number in range(2):
                labels = {RACK: f"r{rack}", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
                api.patch(f"/api/v1/nodes/r{rack}n{number}", {"metadata": {"labels": labels}})
        api.await_nodes(4)
        for plural in KINDS:
            api.call("POST", CRDS, kind(plural))
        until(lambda: all(_served(api, plural) for plural in KINDS), 30, "kinds of Kueue")
        api.call("POST", f"{root}/resourceflavors", thing("resourceflavors", "h100", {"nodeLabels": {RACK: "r0"}}))
        for team, quota, flavor in (("vision", 16, "h100"), ("speech", 8, "any")):
            resources = [{"name": "nvidia.com/gpu", "nominalQuota": quota, "borrowingLimit": 8}]
            group = {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": flavor, "resources": resources}]}
            api.call("POST", f"{root}/clusterqueues", thing("clusterqueues", team, {"resourceGroups": [group]}))
        local = thing("localqueues", "q", {"clusterQueue": "vision"})
        api.call("POST", f"{root}/namespaces/default/localqueues", local)
        yield
    finally:
        for plural in KINDS:
            api.call("DELETE", f"{CRDS}/{plural}.{KUEUE}")
        api.call("DELETE", "/api/v1/nodes")


def _served(api: KubeApi, plural: str) -> bool:
    found = api.get(f"{CRDS}/{plural}.{KUEUE}")
    return any(
        one["type"] == "Established" and one["status"] == "True"
        for one in (found.get("status") or {}).get("conditions") or ()
    )


@pytest.mark.usefixtures("running")
def test_what_is_imported_schedules_the_first_gang(plane: ControlPlane, api: KubeApi, tmp_path: Path) -> None:
    shell = Shell(plane, tmp_path)
    file = tmp_path / "cells.yaml"
    code, out, err = shell.tried("cluster", "import", "pai", "--file", str(file), "-o", "json")
    assert code == 0, err
    made = json.loads(out)
    node = "H100-80GB-HBM3-RACK.H100-80GB-HBM3-NODE"
    assert {one["name"]: one["cells"] for one in made["tenants"]} == {
        "vision": {"H100-80GB-HBM3-RACK": 1}, "speech": {node: 1}
    }  # fmt: skip
    assert "kubectl annotate namespace default paictl.io/virtual-clusters=vision" in err
    assert any("borrowingLimit" in remark for remark in made["remarks"])
    assert shell.done("config", "validate", str(file)) is not None
    again = shell.done("cluster", "import", "pai", "--file", "-")
    assert again.strip() == file.read_text().strip(), "the same cluster gives the same draft"
    config: dict[str, Any] = yaml.safe_load(file.read_text())
    with gates(plane, api, config, tmp_path / "door", plugin=True):
        names = [f"train-{i}" for i in range(2)]
        for name in names:
            api.create(_pod(name, "vision", len(names)))
        nodes = {pod["spec"]["nodeName"] for pod in api.await_bound(names, 60).values()}
        assert nodes in ({"r0n0", "r0n1"}, {"r1n0", "r1n1"}), "one rack, as it was promised"


def _pod(name: str, vc: str, size: int) -> Json:
    """A member of a gang, as docs/adopting.md prints it."""
    labels = {"paictl.io/virtual-cluster": vc, "paictl.io/group": "train", "paictl.io/group-size": str(size)}
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
