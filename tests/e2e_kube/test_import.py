"""From a cluster that runs to its first guaranteed gang: imported, and scheduled by what was imported."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT
from tests.e2e_kube.accounts import SPACE, token
from tests.e2e_kube.controlplane import ControlPlane, binary, kubeconfig
from tests.e2e_kube.gates import ACCOUNT, STOCK, Placer, gates
from tests.e2e_kube.kubeapi import Json, KubeApi, until
from tests.e2e_kube.shell import Shell

RACK = "cloud.provider.com/topology-rack"
KUEUE = "kueue.x-k8s.io"
KINDS = {"clusterqueues": "ClusterQueue", "resourceflavors": "ResourceFlavor", "localqueues": "LocalQueue"}
KINDS_MADE = (
    "/api/v1/namespaces",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/services",
    "/api/v1/serviceaccounts",
    "/apis/apps/v1/deployments",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/networking.k8s.io/v1/networkpolicies",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    *(
        f"/apis/rbac.authorization.k8s.io/v1/{one}"
        for one in (
            "clusterroles",
            "clusterrolebindings",
            "roles",
            "rolebindings",
        )
    ),
    *(
        f"/apis/admissionregistration.k8s.io/v1/{one}"
        for one in (
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        )
    ),
)
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
        "vision": {"H100-80GB-HBM3-RACK": 1},
        "speech": {node: 1},
    }
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


@pytest.mark.usefixtures("running")
def test_the_page_get_started_on_your_cluster(plane: ControlPlane, api: KubeApi, tmp_path: Path) -> None:
    """Its commands as they stand there, to the first gang and back: uninstalled, nothing is left."""
    page = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
    start, end = (commands(block) for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL))
    (pod,) = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL))
    assert len(start) <= 5
    shell = PageShell(plane, tmp_path)
    shell.run("kubectl create namespace research")
    try:
        own = {"/api/v1/serviceaccounts/research/default", "/api/v1/configmaps/research/kube-root-ca.crt"}
        until(lambda: own <= _all(api), 60, "what Kubernetes puts into each namespace")
        before = {one for one in _all(api) if SPACE not in one}  # what other modules left there goes, too
        for command in start:
            shell.run(command)
        placer = Placer(plane, api, {}, tmp_path / "door")
        placer.config = tmp_path / "hivedscheduler.yaml"
        kubeconfig(placer.conf(ACCOUNT), plane.server, plane.folder / "ca.crt", token(api, ACCOUNT))
        plane.start_scheduler(json.dumps(STOCK))
        try:
            placer.start()  # as the Deployment does, which has no kubelet here
            for name in ("train-0", "train-1"):
                pod["metadata"]["name"] = name
                api.call("POST", "/api/v1/namespaces/research/pods", pod)
            until(lambda: all(one["spec"].get("nodeName") for one in api.pods("research")), 60, "both run")
        finally:
            placer.stop()
        for command in end:
            shell.run(command)
        assert len(api.pods("research")) == 2, "running pods keep running"
        api.delete_all("research")
        until(lambda: not _all(api) - before, 60, lambda: f"left: {_all(api) - before}")
    finally:
        api.call("DELETE", "/api/v1/namespaces/research")


class PageShell:
    """An administrator's shell: `paictl` and `kubectl` on its PATH, and the context admin@prod."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.folder = folder
        programs = folder / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(binary("kubectl"))
        (programs / "paictl").write_text(f'#!/bin/sh\nexec {sys.executable} -m paictl "$@"\n')
        (programs / "paictl").chmod(0o755)
        config = folder / "admin.conf"
        config.write_text(
            plane.kubeconfig.read_text()
            .replace("name: x,", "name: admin@prod,")
            .replace("current-context: x", "current-context: admin@prod")
        )
        self.environment = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(config),
            "PYTHONPATH": str(ROOT),
            "XDG_CONFIG_HOME": str(folder / "xdg"),
            "XDG_STATE_HOME": str(folder / "xdg"),
        }

    def run(self, command: str) -> None:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


def commands(block: str) -> list[str]:
    """The commands of a block, without its prompts."""
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


def _all(api: KubeApi) -> set[str]:
    """What there is in the cluster of every kind that paictl makes, and the marks of the namespace."""
    found = {
        f"{path}/{one['metadata'].get('namespace', '')}/{one['metadata']['name']}"
        for path in KINDS_MADE
        for one in api.get(path)["items"]
    }
    about = api.get("/api/v1/namespaces/research")["metadata"]
    marks = {**(about.get("labels") or {}), **(about.get("annotations") or {})}
    return found | {key for key in marks if "paictl.io" in key}


def _pod(name: str, vc: str, size: int) -> Json:
    """A member of a gang, as docs/adopting.md prints it."""
    labels = {"paictl.io/virtual-cluster": vc, "paictl.io/group": "train", "paictl.io/group-size": str(size)}
    container = {"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
