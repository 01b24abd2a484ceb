"""What a cluster lacks for claims is named with what to do, and nothing starts without it."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.devices import support
from paictl.cluster.devices.support import DeviceMode
from paictl.errors import PaictlError
from paictl.remote.kube.client import Json, KubeError


class Cluster:
    """Answers about version, API, class, slices and rights."""

    where = "test"

    def __init__(self, minor: str = "37", missing: str = "", forbidden: str = "") -> None:
        self.minor = minor
        self.missing = missing
        self.forbidden = forbidden
        self.door = "/none"
        self.device_class: Json = {"selectors": []}
        self.command: list[str] = []
        self.nodes: list[Json] = []

    def list(self, path: str) -> list[tuple[str, list[Json]]]:
        assert path == "/api/v1/nodes"
        return [("1", [{"metadata": {"name": "bare"}}]), ("1", self.nodes)]

    def get(self, path: str, **_: object) -> Json:
        if path == "/version":
            return {"minor": self.minor}
        if "/deployments/" in path:
            if not path.endswith(self.door):
                raise KubeError("not found", status=404)
            return {"spec": {"template": {"spec": {"containers": [{"command": self.command}]}}}}
        if self.missing and path.endswith(self.missing):
            if path.endswith("resourceslices"):
                return {"items": []}
            raise KubeError("not found", status=404)
        return {"items": [{}], "spec": self.device_class}

    def request(self, _method: str, _path: str, body: Json) -> Json:
        asked = body["spec"]["resourceAttributes"]
        name = f"{asked['verb']} {asked['resource']}/{asked.get('subresource', '')}"
        return {"status": {"allowed": name != self.forbidden}}


def chosen(cluster: Cluster, mode: str) -> tuple[object, str]:
    client: Any = cluster
    return support.chosen(client, *support.read_options(mode))


@pytest.mark.parametrize(
    ("cluster", "fact"),
    [
        (Cluster("33+", missing="/v1"), "resource.k8s.io/v1 is not served (Kubernetes 1.33): use Kubernetes 1.34"),
        (Cluster(missing="gpu.nvidia.com"), "no DeviceClass gpu.nvidia.com: install its driver"),
        (Cluster(missing="resourceslices"), "no node has ResourceSlices of gpu.nvidia.com or"),
        (Cluster(forbidden="patch resourceclaims/binding"), "the account may not patch resourceclaims/binding"),
    ],
)
def test_a_missing_fact_is_named_and_claims_do_not_start(cluster: Cluster, fact: str) -> None:
    with pytest.raises(PaictlError) as raised:
        chosen(cluster, "claims")
    assert fact in str(raised.value.hint)
    options, why = chosen(cluster, "auto")
    assert options is None
    assert why.startswith("devices: environment, because")
    assert fact in why
    assert chosen(cluster, "environment")[0] is None


def test_a_cluster_that_has_it_all() -> None:
    for mode in ("auto", "claims"):
        options, why = chosen(Cluster(), mode)
        assert options is not None
        assert why == "devices: claims on DeviceClass gpu.nvidia.com"
    assert chosen(Cluster("35", forbidden="patch resourceclaims/binding"), "claims")[0], "1.35 does not ask for it"


def test_a_driver_that_is_starting_is_not_missing() -> None:
    """A kubelet that starts deletes the slices of its node."""
    cluster = Cluster(missing="resourceslices")
    cluster.nodes = [{"metadata": {"name": "w1", "annotations": {"paictl.io/device-indexes": "{}"}}}]
    for mode in ("auto", "claims"):
        assert chosen(cluster, mode)[0] is not None


def test_taint_rules_are_followed_where_they_are_served_and_may_be() -> None:
    class Newer(Cluster):
        def get(self, path: str, **named: object) -> Json:
            return {"resources": [{"name": "devicetaintrules"}]} if path.endswith("/v1") else super().get(path, **named)

    def follows(cluster: Cluster) -> bool:
        options: Any = chosen(cluster, "claims")[0]
        return bool(options.taint_rules)

    assert follows(Newer())
    assert not follows(Newer(forbidden="watch devicetaintrules/")), "claims work all the same"
    assert not follows(Cluster("36")), "they are not served"


def test_an_invalid_way_says_which_there_are() -> None:
    with pytest.raises(PaictlError, match="'gpu' is not a way") as raised:
        support.read_options("gpu")
    assert raised.value.hint == "use environment, claims, auto"
    assert support.read_options("claims")[0] is DeviceMode.CLAIMS


@pytest.mark.parametrize(
    ("words", "missing", "said"),
    [
        ([], "", "environment, as hivedscheduler-extender is configured; claims are possible: --devices auto"),
        ([], "resourceslices", "claims are not possible: no node has ResourceSlices of"),
        (["--devices=auto"], "", "claims on DeviceClass gpu.nvidia.com, written by hivedscheduler-extender"),
        (
            ["--devices=auto", "--device-class=x"],
            "/x",
            "although hivedscheduler-extender is configured for auto: no DeviceClass",
        ),
    ],
)
def test_a_cluster_says_how_its_pods_get_their_devices_and_why(words: list[str], missing: str, said: str) -> None:
    cluster = Cluster(missing=missing)
    client: Any = cluster
    assert support.described(client, "paictl-system") == "", "nothing was set up"
    cluster.door, cluster.command = "hivedscheduler-extender", ["paictl", "extender", "serve", *words]
    assert said in support.described(client, "paictl-system")


def test_pods_that_only_ask_for_a_resource_get_claims_where_a_class_stands_for_it() -> None:
    def resources(cluster: Cluster) -> dict[str, str]:
        cluster.device_class = {"extendedResourceName": "nvidia.com/gpu"}
        options, why = chosen(cluster, "claims")
        assert options is not None
        found: dict[str, str] = options.resources  # type: ignore[attr-defined]
        assert ("also for pods that only ask for nvidia.com/gpu" in why) is bool(found)
        return found

    assert resources(Cluster()) == {"nvidia.com/gpu": "gpu.nvidia.com"}
    assert resources(Cluster(forbidden="create resourceclaims/")) == {}, "claims of templates work all the same"
    assert resources(Cluster(forbidden="patch pods/status")) == {}
