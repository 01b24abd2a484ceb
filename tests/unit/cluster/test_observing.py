"""What is read of a running cluster, from objects as the API servers of Kueue, KAI and Volcano have them."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from paictl.cluster.kubernetes.discovery import observe
from paictl.config.making.discovered import Ask, DiscoveredCluster
from paictl.i18n import translated
from paictl.remote.kube.client import Json, KubeError

KUEUE, KAI, VOLCANO = "kueue.x-k8s.io", "scheduling.run.ai", "scheduling.volcano.sh"


class Server:
    """Objects by group and plural; a group without any is not there."""

    def __init__(self, **objects: list[Json]) -> None:
        self.objects = objects
        self.forbidden = ""

    def get(self, path: str) -> Json:
        group = path.removeprefix("/apis/")
        if not any(key.startswith(f"{_key(group)}__") for key in self.objects):
            raise KubeError("not found", status=404)
        return {"preferredVersion": {"groupVersion": f"{group}/v1"}}

    def list(self, path: str) -> Iterator[tuple[str, list[Json]]]:
        parts = path.split("/")
        plural = parts[-1]
        if plural == self.forbidden:
            raise KubeError("forbidden", status=403)
        yield "1", self.objects.get(f"{_key(parts[2])}__{plural}" if parts[1] == "apis" else plural, [])


def _key(group: str) -> str:
    return group.replace(".", "_").replace("-", "_")


def read(server: Server) -> DiscoveredCluster:
    client: Any = server
    return observe(client)


def named(name: str, spec: Json, **about: Any) -> Json:
    return {"metadata": {"name": name, **about}, "spec": spec}


def node(name: str, capacity: Json, labels: Json | None = None, allocatable: Json | None = None) -> Json:
    can = {"cpu": "31850m", "memory": "128Gi", **capacity, **(allocatable or {})}
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": can},
    }


def test_nodes_have_devices_model_and_what_they_can_allocate() -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H100", "r": "1"}
    found = read(Server(nodes=[node("a", {"nvidia.com/gpu": "8"}, labels), node("cpu", {})]))
    (one,) = found.nodes
    assert (one.name, one.resource, one.devices, one.model) == ("a", "nvidia.com/gpu", 8, "NVIDIA-H100")
    assert (one.cpus, one.memory, one.labels) == (Decimal("31.85"), 128 << 10, labels)


def test_devices_of_slices_count_where_no_plugin_is_and_roots_say_who_is_near() -> None:
    def device(index: int, **more: Json) -> Json:
        about = {
            "productName": {"string": "L4"},
            "type": {"string": "gpu"},
            "pcieBusID": {"string": f"0000:{index:02x}"},
        }
        root = {"resource.kubernetes.io/pcieRoot": {"string": f"pci{index // 2}"}}
        return {"name": f"gpu-{index}", "attributes": about | root | more}

    def slice_of(generation: int, *devices: Json) -> Json:
        pool = {"name": "a", "generation": generation, "resourceSliceCount": 1}
        return named("s", {"nodeName": "a", "driver": "gpu.nvidia.com", "pool": pool, "devices": list(devices)})

    cut = {**device(9), "consumesCounters": [{}]}
    slices = [slice_of(2, *map(device, range(4)), cut), slice_of(1, device(0))]
    (one,) = read(Server(nodes=[node("a", {})], resource_k8s_io__resourceslices=slices)).nodes
    assert (one.resource, one.devices, one.model, one.per_switch) == ("nvidia.com/gpu", 4, "L4", 2)


def test_devices_that_are_cut_shared_or_not_healthy_are_remarked() -> None:
    nodes = [
        node("cut", {"nvidia.com/mig-1g.5gb": "7"}),
        node("shared", {"nvidia.com/gpu": "8"}, {"nvidia.com/gpu.replicas": "4"}),
        node("sick", {"nvidia.com/gpu": "8"}, None, {"nvidia.com/gpu": "6"}),
    ]
    found = read(Server(nodes=nodes))
    assert [one.name for one in found.nodes] == ["shared", "sick"]
    assert [
        words in " ".join(found.remarks) for words in ("divided by MIG", "between 4 pods", "2 are not healthy")
    ] == [True] * 3


@pytest.mark.parametrize(
    ("model", "devices", "instances", "profile"),
    [
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 56, 7, "1g.5gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.20gb", 8, 4, "1g.20gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 4, 2, "3g.40gb"),
        ("NVIDIA-H100-80GB-HBM3-MIG-7g.80gb", 3, 1, "7g.80gb"),
        ("NVIDIA-H200-MIG-2g.35gb", 6, 3, "2g.35gb"),
        ("NVIDIA-A30-MIG-1g.6gb", 4, 4, "1g.6gb"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb.me", 8, 1, "1g.10gb+me"),
        ("NVIDIA-RTX-PRO-6000-MIG-1g.24gb.me.all", 2, 1, "1g.24gb+me.all"),
        ("NVIDIA-RTX-PRO-6000-96GB-MIG-1g.24gb.gfx", 8, 4, "1g.24gb+gfx"),
        ("NVIDIA-RTX-PRO-6000-96GB-MIG-2g.48gb-me", 4, 2, "2g.48gb-me"),
    ],
)
def test_mig_instances_are_devices_where_the_plugin_offers_them_as_such(
    model: str, devices: int, instances: int, profile: str
) -> None:
    labels = {"nvidia.com/gpu.product": model, "nvidia.com/mig.strategy": "single"}
    found = read(Server(nodes=[node("a", {"nvidia.com/gpu": str(devices)}, labels)]))
    (one,) = found.nodes
    assert (one.devices, one.instances, one.profile, one.per_switch) == (devices, instances, profile, instances)
    assert not found.remarks


@pytest.mark.parametrize(
    ("model", "devices", "guess"),
    [
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb", 32, 4),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 24, 6),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 11, 1),
    ],
)
def test_a_node_whose_division_labels_cannot_tell_is_kept(model: str, devices: int, guess: int) -> None:
    labels = {"nvidia.com/gpu.product": model, "nvidia.com/mig.strategy": "single"}
    found = read(Server(nodes=[node("a", {"nvidia.com/gpu": str(devices)}, labels)]))
    assert [(one.devices, one.instances, one.guessed) for one in found.nodes] == [(devices, guess, True)]
    assert ["labels cannot tell how" in remark for remark in found.remarks] == [True]


@pytest.mark.parametrize(
    ("model", "strategy"),
    [
        ("NVIDIA-A100-SXM4-40GB", "single"),
        ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "mixed"),
        ("NVIDIA-A100-SXM4-40GB-MIG-INVALID", "single"),
    ],
)
def test_what_no_label_calls_mig_is_a_whole_device(model: str, strategy: str) -> None:
    labels = {"nvidia.com/gpu.product": model, "nvidia.com/mig.strategy": strategy}
    found = read(Server(nodes=[node("a", {"nvidia.com/gpu": "8"}, labels)]))
    assert [(one.instances, one.guessed) for one in found.nodes] == [(0, False)]
    assert not found.remarks


def test_kueues_queues_flavors_namespaces_and_topologies() -> None:
    resources = [
        {"name": "cpu", "nominalQuota": 9},
        {"name": "nvidia.com/gpu", "nominalQuota": "16", "borrowingLimit": 4},
    ]
    groups = [{"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": [{"name": "a100", "resources": resources}]}]
    server = Server(
        kueue_x_k8s_io__clusterqueues=[
            named("team", {"resourceGroups": groups, "cohortName": "all"}),
            named("none", {}),
        ],
        kueue_x_k8s_io__resourceflavors=[named("a100", {"nodeLabels": {"kind": "a100"}})],
        kueue_x_k8s_io__localqueues=[named("lq", {"clusterQueue": "team"}, namespace="research")],
        kueue_x_k8s_io__topologies=[
            named("t", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]})
        ],
        resourcequotas=[named("q", {"hard": {"requests.nvidia.com/gpu": "8"}}, namespace="dev")],
    )
    found = read(server)
    (share,) = found.shares
    assert (share.kind, share.name, share.namespaces) == ("ClusterQueue", "team", ("research",))
    assert share.asks == (Ask(16, "nvidia.com/gpu", {"kind": "a100"}),)
    assert [one.levels for one in found.topologies] == [("rack",)]
    assert "ClusterQueue team: borrowingLimit, cohortName" in found.remarks
    assert "ResourceQuota of dev: tenants come from ClusterQueues" in found.remarks


def test_kais_leaf_queues_and_volcanos_guarantees() -> None:
    queues = [
        named("dep", {"resources": {"gpu": {"quota": -1}}}),
        named("ml", {"parentQueue": "dep", "resources": {"gpu": {"quota": 12, "limit": 20}}}),
        named("half", {"parentQueue": "dep", "resources": {"gpu": {"quota": 1.5}}}),
        named("cpu", {"parentQueue": "dep", "resources": {}}),
    ]
    found = read(Server(scheduling_run_ai__queues=queues))
    assert [(share.name, share.asks[0].devices) for share in found.shares] == [("half", 1), ("ml", 12)]
    assert [remark for remark in found.remarks if "a quota of" in remark] == [
        "Queue half has a quota of 1.5 devices, which is not a whole number of cells"
    ]
    gpu = {"nvidia.com/gpu": 8}
    volcano = [
        named("root", {"capability": gpu}),
        named("a", {"guarantee": {"resource": gpu}, "capability": {"nvidia.com/gpu": 99}, "weight": 2}),
        named("default", {"weight": 1}),
    ]
    (share,) = read(Server(scheduling_volcano_sh__queues=volcano)).shares
    assert (share.name, share.asks) == ("a", (Ask(8, "nvidia.com/gpu"),))


def test_a_namespaces_quota_counts_where_no_queue_does_and_what_may_not_be_read_is_said() -> None:
    quotas = [named("q", {"hard": {"requests.nvidia.com/gpu": "8", "requests.cpu": "9"}}, namespace="dev")]
    server = Server(resourcequotas=quotas, kueue_x_k8s_io__clusterqueues=[named("x", {})])
    server.forbidden = "clusterqueues"
    found = read(server)
    (share,) = found.shares
    assert (share.kind, share.name, share.namespaces) == ("ResourceQuota", "dev", ("dev",))
    assert translated(found.remarks[-1], "zh") == "命名空间 dev 的 ResourceQuota: 限额本身"
    assert (
        "clusterqueues.kueue.x-k8s.io may not be listed with this kubeconfig: they do not count here" in found.remarks
    )
