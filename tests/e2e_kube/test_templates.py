"""Templates of all services, taken by a real API server: with every field that it knows and none that it does not."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi
from tests.unit.cluster.catalogue import CONFIGURATIONS, rendered

DRY = "?dryRun=All&fieldManager=paictl&force=true&fieldValidation=Strict"
APPLY = "application/apply-patch+yaml"


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


def test_labels_of_nodes_come_and_go_beside_those_of_others(
    api: KubeApi, paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))
    nodes = [one.body for one in rendered(CONFIGURATIONS["all options"])["cluster-configuration"] if one.kind == "Node"]
    (body,) = [one for one in nodes if one["metadata"]["name"] == "w-1.lab"]
    path = paths.of(body)
    api.call("POST", "/api/v1/nodes", {
        "metadata": {"name": "w-1.lab", "labels": {"kubernetes.io/hostname": "w-1.lab", "own": "kept"}},
        "spec": {"taints": [{"key": "own", "effect": "NoSchedule"}]},
    })  # fmt: skip
    try:
        without_force = "?fieldManager=paictl&force=false&fieldValidation=Strict"
        labels = api.call("PATCH", path + without_force, body, APPLY)["metadata"]["labels"]
        assert {key: one for key, one in labels.items() if key.startswith("paictl.io/")} == body["metadata"]["labels"]
        assert labels["own"] == "kept"
        bare = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "w-1.lab"}}
        after = api.call("PATCH", path + without_force, bare, APPLY)
        assert not [key for key in after["metadata"]["labels"] if key.startswith("paictl.io/")]
        assert after["metadata"]["labels"]["own"] == "kept"
        assert [one["key"] for one in after["spec"]["taints"] if one["key"] == "own"] == ["own"]
        taints = {**bare, "spec": {"taints": [{"key": "ours", "effect": "NoSchedule"}]}}
        with pytest.raises(ApiError, match="conflict"):  # why taints are left alone: the list has one owner
            api.call("PATCH", path + without_force, taints, APPLY)
    finally:
        api.call("DELETE", path)
