"""Templates of all services, taken by a real API server: with every field that it knows and none that it does not."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.kubernetes.services.applying import Applier
from paictl.cluster.kubernetes.services.drift import drift_of
from paictl.cluster.kubernetes.services.kinds import Kinds
from paictl.cluster.kubernetes.services.nodes import drivers_of, systems_of
from paictl.cluster.kubernetes.services.record import Item
from paictl.cluster.values import ClusterError
from paictl.remote.kube.client import KubeError, connect
from tests.e2e_kube.controlplane import ControlPlane, kubeconfig
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, until
from tests.unit.cluster.catalogue import CONFIGURATIONS, rendered
from tests.unit.cluster.test_gpu_drivers import driver_objects

DRY = "?dryRun=All&fieldManager=paictl&force=true&fieldValidation=Strict"
APPLY = "application/apply-patch+yaml"
NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "x",
)
"""What a kubelet says of its machine."""


class Paths:
    """Where objects are, as the server says."""

    def __init__(self, api: KubeApi) -> None:
        self.api = api
        self.known: dict[str, dict[str, Any]] = {}

    def of(self, body: Mapping[str, Any]) -> str:
        version, about = body["apiVersion"], body["metadata"]
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self.known:
            listed = self.api.get(prefix)["resources"]
            self.known[version] = {one["kind"]: one for one in listed if "/" not in one["name"]}
        kind = self.known[version][body["kind"]]
        space = f"/namespaces/{about.get('namespace', NAMESPACE)}" if kind["namespaced"] else ""
        return f"{prefix}{space}/{kind['name']}/{quote(about['name'], safe=':')}"


@pytest.fixture(scope="module")
def paths(api: KubeApi) -> Paths:
    """The namespaces have to be there even for a trial."""
    for name in (NAMESPACE, JOBS_NAMESPACE):
        api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, f"/api/v1/namespaces/{name}")
    return Paths(api)


@pytest.mark.parametrize("configuration", ["preset lab", "all options", "behind a proxy"])
def test_the_server_takes_every_object(
    api: KubeApi, paths: Paths, configuration: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    services = rendered(CONFIGURATIONS[configuration])
    found = [(service, one.body) for service, objects in services.items() for one in objects]
    for _, body in found:
        paths.of(body)

    def tried(entry: tuple[str, Json]) -> str:
        service, body = entry
        try:
            api.call("PATCH", paths.of(body) + DRY, body, APPLY)
        except ApiError as error:
            return f"{service}: {body['kind']} {body['metadata']['name']}: {error}"
        return ""

    with ThreadPoolExecutor(4) as pool:
        refused = [one for one in pool.map(tried, found) if one]
    assert not refused
    assert len(found) > 60


def test_a_dra_driver_writes_slices_of_its_own_node_only(
    api: KubeApi, paths: Paths, plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the objects of the service, and a token as its pod on node `own` has one."""
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    kinds = ("DaemonSet", "NetworkPolicy")
    made = [one.body for one in rendered(CONFIGURATIONS["behind a proxy"])["dra-driver"] if one.kind not in kinds]
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    node = api.call("POST", "/api/v1/nodes", {"metadata": {"name": "own"}})

    def body(name: str, **spec: Any) -> Json:
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        return {"metadata": {"name": name}, "spec": {"driver": "gpu.nvidia.com", "pool": pool, **spec}}

    try:
        for one in made:
            api.apply(one, paths.of(one))
        bound = {"kind": "Node", "apiVersion": "v1", "name": "own", "uid": node["metadata"]["uid"]}
        account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/dra-driver"
        word = api.call("POST", f"{account}/token", {"spec": {"boundObjectRef": bound}})["status"]["token"]
        kubeconfig(tmp_path / "driver", plane.server, plane.folder / "ca.crt", word)
        driver = connect(tmp_path / "driver", "x")
        api.call("POST", slices, body("of-another", nodeName="other"))  # an administrator is not asked

        def refused() -> bool:
            try:
                driver.request("POST", slices, body("elsewhere", nodeName="other"))
            except KubeError as error:
                return 'of its own node only, which is "own"' in str(error)
            api.call("DELETE", f"{slices}/elsewhere")
            return False

        until(refused, 30, "the policy is in force")
        with pytest.raises(KubeError, match="of its own node only"):
            driver.request("POST", slices, body("for-all", allNodes=True))
        with pytest.raises(KubeError, match="of its own node only"):
            driver.request("DELETE", f"{slices}/of-another")
        driver.request("POST", slices, body("here", nodeName="own"))
        driver.request("DELETE", f"{slices}/here")
    finally:
        for path in [paths.of(one) for one in made] + [f"{slices}/of-another", "/api/v1/nodes/own"]:
            with contextlib.suppress(ApiError):
                api.call("DELETE", path)


def test_drivers_are_for_the_systems_that_nodes_report(api: KubeApi, paths: Paths, plane: ControlPlane) -> None:
    """The server takes what leaves nodes out, and says of each node what it runs."""
    client = connect(plane.kubeconfig, "x")
    systems = {"w1": "Ubuntu 24.04.1 LTS", "w2": "Ubuntu 22.04.5 LTS", "w3": "Debian GNU/Linux 12 (bookworm)"}
    try:
        for name, system in systems.items():
            labels = {"paictl.io/devices": "nvidia.com"}
            api.call("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
            api.patch(f"/api/v1/nodes/{name}/status", {"status": {"nodeInfo": {**NODE_INFO, "osImage": system}}})
        made = [one.body for one in driver_objects(systems_of(client))]
        names = [body["metadata"]["name"] for body in made if body["kind"] == "DaemonSet"]
        assert names == ["nvidia-driver-ubuntu22-04", "nvidia-driver-ubuntu24-04"]
        for body in made:
            api.call("PATCH", paths.of(body) + DRY, body, APPLY)
        found = {one.node: one.reason for one in drivers_of(client)}
        assert found.keys() == systems.keys()
        assert found["w3"].startswith("there is no driver image for debian12")
    finally:
        for name in systems:
            with contextlib.suppress(ApiError):
                api.call("DELETE", f"/api/v1/nodes/{name}")


def test_labels_and_taints_of_nodes_come_and_go_beside_those_of_others(
    api: KubeApi, plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    nodes = [one.body for one in rendered(CONFIGURATIONS["all options"])["cluster-configuration"] if one.kind == "Node"]
    (body,) = [one for one in nodes if one["metadata"]["name"] == "w-1.lab"]
    client = connect(plane.kubeconfig, "x")
    applier, path = Applier(client, Kinds(client)), "/api/v1/nodes/w-1.lab"
    api.call(
        "POST",
        "/api/v1/nodes",
        {
            "metadata": {"name": "w-1.lab", "labels": {"kubernetes.io/hostname": "w-1.lab", "own": "kept"}},
            "spec": {"unschedulable": True, "taints": [{"key": "own", "effect": "NoSchedule"}]},
        },
    )

    def taints() -> set[str]:
        """But for those of the server, which come when it has seen that nobody keeps the node."""
        found = api.get(path)["spec"].get("taints") or ()
        words = {f"{one['key']}={one.get('value', '')}:{one['effect']}" for one in found}
        return {word for word in words if not word.startswith("node.kubernetes.io/")}

    def labels() -> dict[str, str]:
        return {key: one for key, one in api.get(path)["metadata"]["labels"].items() if key.startswith("paictl.io/")}

    def check_drift() -> list[str]:
        return drift_of(applier.live(Item.of(body)), applier.dry(body) or {}, body)

    try:
        applier.check([body], lambda: None)
        assert taints() == {"own=:NoSchedule"}, "a check changes nothing"
        applier.apply([body], lambda: None)
        ours = {"paictl.io/jobs=:NoSchedule", "owner=lab-2:PreferNoSchedule"}
        assert taints() == {"own=:NoSchedule"} | ours
        assert labels() == body["metadata"]["labels"]
        assert check_drift() == []
        version = api.get(path)["metadata"]["resourceVersion"]
        applier.apply([body], lambda: None)
        assert api.get(path)["metadata"]["resourceVersion"] == version, "nothing to write"

        api.patch(path, {"spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]}})  # somebody takes ours away
        assert [line for line in check_drift() if "spec.taints" in line]
        changed = {**body, "spec": {"taints": [{"key": "owner", "value": "lab-3", "effect": "PreferNoSchedule"}]}}
        applier.apply([changed], lambda: None)
        assert taints() == {"own=:NoSchedule", "owner=lab-3:PreferNoSchedule"}

        wrong = {**body, "spec": {"taints": [{"key": "no key", "effect": "NoSchedule"}]}}
        with pytest.raises(ClusterError, match="no key"):
            applier.check([wrong], lambda: None)
        applier.remove(Item.of(body))
        assert taints() == {"own=:NoSchedule"}
        assert labels() == {}
        about = api.get(path)["metadata"]
        assert about["labels"]["own"] == "kept"
        assert not [key for key in about.get("annotations") or () if key.startswith("paictl.io/")]
    finally:
        api.call("DELETE", path)


def test_a_priority_class_whose_value_has_changed_is_made_again(api: KubeApi, plane: ControlPlane) -> None:
    """Kubernetes lets no value change: without that, a cluster would keep classes of an older version."""
    client, path = connect(plane.kubeconfig, "x"), "/apis/scheduling.k8s.io/v1/priorityclasses/paictl-trial"
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "paictl-trial"}}
    applier = Applier(client, Kinds(client))
    for value in (-1, 0):
        wanted = {**body, "value": value, "preemptionPolicy": "Never"}
        applier.check([wanted], lambda: None)
        applier.apply([wanted], lambda: None)
        assert api.get(path)["value"] == value
    api.call("DELETE", path)
