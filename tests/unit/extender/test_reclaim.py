"""Pods that ask the device plugin: kube-scheduler offers no node while devices are taken; they preempt all the same."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.pods.nodes import node_status
from paictl.doors.views import explain_pod
from tests.unit.extender.conftest import NODES, spec
from tests.unit.extender.harness import Harness

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
FULL = f"0/4 nodes are available: 4 Insufficient {GPU}."


def node(name: str, **of_spec: Any) -> Json:
    return {
        "metadata": {"name": name, "labels": {"host": name}},
        "spec": of_spec,
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {GPU: "4"},
            "allocatable": {GPU: "4", "cpu": "16", "pods": "110"},
        },
    }


def pod(name: str, vc: str, priority: str = "0", *, devices: int = 4, size: int = 1, cpu: int = 1, **more: Any) -> Json:
    """A pod as an ordinary user writes it: labels, and devices of the plugin."""
    labels = {"paictl.io/virtual-cluster": vc, "paictl.io/priority": priority}
    if size > 1:
        labels |= {"paictl.io/group": name.rpartition("-")[0], "paictl.io/group-size": str(size)}
    asked = {"requests": {"cpu": str(cpu)}, "limits": {GPU: str(devices)}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels, "annotations": {}},
        "spec": {"containers": [{"name": "c", "resources": asked}], **more},
        "status": {"phase": "Pending"},
    }


class Cluster(Harness):
    """A harness whose kube-scheduler applies its own filters for devices, CPU and node selectors first."""

    def begin_with(self, *nodes: Json) -> None:
        self.nodes = [one["metadata"]["name"] for one in nodes]
        for one in nodes:
            self.core.node_changed(node_status(one))
        self.core.open()

    def offered(self, made: Json) -> list[str]:
        wanted = int(made["spec"]["containers"][0]["resources"]["limits"][GPU])
        selector = made["spec"].get("nodeSelector", {}).get("host")
        return [
            name
            for name in self.nodes
            if self.core.usage.used(name).get(GPU, 0) + 1000 * wanted <= 4000 and selector in (None, name)
        ]

    def submit(self, made: Json) -> str:
        """kube-scheduler's cycle for a pod: the node where it is bound, empty if it waits."""
        self.create(made)
        self.core.pod_changed(made)
        if not (nodes := self.offered(made)):
            made["status"]["conditions"] = [{"type": "PodScheduled", "status": "False", "message": FULL}]
            self.core.pod_changed(made)
            return ""
        answer = self.ask(made, nodes)
        for name in answer.names:
            assert self.bind(made, name) == ""
            self.core.pod_changed(made)
            return name
        return ""

    def reclaim(self) -> list[str]:
        """Seconds pass; the names of the pods that are evicted, which go."""
        for _ in range(4):
            self.now += 1
            self.reconciler.reconcile()
        evicted = list(dict.fromkeys(call.rpartition(" ")[2] for call in self.evictions()))
        for name in evicted:
            if f"default/{name}" in self.server.pods:
                self.delete(name)
        return evicted


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(spec())
    made.begin_with(*map(node, NODES))
    return made


def test_what_was_lent_is_reclaimed_for_a_guaranteed_pod_by_labels(cluster: Cluster) -> None:
    """Every device of the cluster is lent to VC A; kube-scheduler never asks about the pod of VC B."""
    for i in range(4):
        assert cluster.submit(pod(f"lent-{i}", "A", "opportunistic"))
    guaranteed = pod("own", "B", "100")
    assert cluster.submit(guaranteed) == ""
    (victim,) = cluster.reclaim()
    assert victim.startswith("lent-")
    assert "Preempting" in cluster.reasons_of("own")
    assert cluster.submit(guaranteed) in NODES


def test_a_gang_by_labels_preempts_a_gang_by_labels_as_a_whole(cluster: Cluster) -> None:
    for i in range(3):
        assert cluster.submit(pod(f"low-{i}", "A", "1", size=3))
    high = [pod(f"high-{i}", "A", "9", size=2) for i in range(2)]
    assert cluster.submit(high[0]) == "", "node n3 is free and offered, but not within the quota"
    assert cluster.submit(high[1]) == ""
    assert sorted(cluster.reclaim()) == [f"low-{i}" for i in range(3)]
    assert len({cluster.submit(made) for made in high} - {""}) == 2


def test_a_free_node_that_is_offered_does_not_hide_those_that_a_preemption_would_free(cluster: Cluster) -> None:
    for i in range(3):
        assert cluster.submit(pod(f"low-{i}", "A", "1"))
    high = pod("high", "A", "9")
    assert len(cluster.offered(high)) == 1
    assert cluster.submit(high) == ""
    assert len(cluster.reclaim()) == 1
    assert cluster.submit(high)


@pytest.mark.parametrize("own", [{"nodeSelector": {"host": "n2"}}, {"nodeSelector": {"host": "nowhere"}}])
def test_only_nodes_that_the_pod_could_run_on_are_freed(cluster: Cluster, own: Json) -> None:
    lent = {cluster.submit(pod(f"lent-{i}", "A", "opportunistic")): f"lent-{i}" for i in range(4)}
    guaranteed = pod("own", "B", "100", **own)
    assert cluster.submit(guaranteed) == ""
    possible = [lent[own["nodeSelector"]["host"]]] if own["nodeSelector"]["host"] in lent else []
    assert cluster.reclaim() == possible
    assert cluster.submit(guaranteed) == ("n2" if possible else "")


@pytest.mark.parametrize("ignores", ["true", "false"])
def test_nobody_goes_where_others_hold_the_cpu_that_the_pod_needs(cluster: Cluster, ignores: str) -> None:
    """Foreign pods hold CPU on all nodes but one: only what runs on that one is of any use."""
    lent = {cluster.submit(pod(f"lent-{i}", "A", "opportunistic")): f"lent-{i}" for i in range(4)}
    for name in NODES:
        foreign = {
            "metadata": {"name": f"system-{name}", "namespace": "x", "uid": name},
            "spec": {
                "nodeName": name,
                "containers": [{"resources": {"requests": {"cpu": "12" if name != "n1" else "2"}}}],
            },
        }
        cluster.core.pod_changed(foreign)
    guaranteed = pod("own", "B", "100", cpu=8)
    guaranteed["metadata"]["labels"]["paictl.io/ignore-suggested-nodes"] = ignores
    cluster.submit(guaranteed)
    assert cluster.reclaim() == ([lent["n1"]] if ignores == "false" else [])


def test_tainted_nodes_are_not_freed() -> None:
    cluster = Cluster(spec())
    tainted = {"taints": [{"key": "broken", "effect": "NoSchedule"}]}
    cluster.begin_with(*(node(name, **(tainted if name != "n3" else {})) for name in NODES))
    lent = {cluster.submit(pod(f"lent-{i}", "A", "opportunistic")): f"lent-{i}" for i in range(4)}
    cluster.submit(pod("own", "B", "100"))
    assert cluster.reclaim() == [lent["n3"]]


def test_pods_whose_place_depends_on_other_pods_are_left_to_kube_scheduler(cluster: Cluster) -> None:
    for i in range(4):
        cluster.submit(pod(f"lent-{i}", "A", "opportunistic"))
    hard = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}}
    cluster.submit(pod("own", "B", "100", affinity=hard))
    assert cluster.reclaim() == []


def test_who_has_no_right_to_the_devices_evicts_nobody(cluster: Cluster) -> None:
    for i in range(3):
        cluster.submit(pod(f"low-{i}", "A", "5"))
    cluster.submit(pod("lent", "A", "opportunistic"))
    for name, vc, priority in (("guest", "B", "opportunistic"), ("same", "A", "5")):
        assert cluster.submit(pod(name, vc, priority)) == ""
    assert cluster.reclaim() == []


def test_a_node_that_kube_scheduler_does_not_offer_afterwards_is_not_freed_again(cluster: Cluster) -> None:
    """Its reasons are its own, a volume in another zone perhaps; nobody dies twice for them."""
    for i in range(4):
        cluster.submit(pod(f"lent-{i}", "A", "opportunistic"))
    guaranteed = pod("own", "B", "100")
    cluster.submit(guaranteed)
    (first,) = cluster.reclaim()
    (freed,) = cluster.offered(guaranteed)
    cluster.ask(guaranteed, [name for name in NODES if name != freed])
    cluster.now += 61
    cluster.reconciler.reconcile()
    assert "ReservationReleased" in cluster.reasons_of("own")
    assert cluster.submit(pod("back", "A", "opportunistic")) == freed
    cluster.submit(guaranteed)
    (_, second) = cluster.reclaim()
    assert second not in (first, "back")


@pytest.mark.parametrize("threshold", [False, True])
def test_a_pod_is_never_bound_by_force_to_a_node_that_would_not_take_it(cluster: Cluster, threshold: bool) -> None:
    """A kubelet would reject it (OutOfcpu) and its job would fail; it is bound once the CPU is free."""
    foreign: Json = {
        "metadata": {"name": "s", "namespace": "x", "uid": "s"},
        "spec": {
            "containers": [{"resources": {"requests": {"cpu": "12"}}}],
        },
    }
    own = cluster.create(pod("own", "A", cpu=8))
    own["metadata"]["labels"]["paictl.io/ignore-suggested-nodes"] = "true"
    cluster.core.pod_changed(own)
    (place,) = cluster.ask(own).names
    foreign["spec"]["nodeName"] = place
    cluster.core.pod_changed(foreign)
    offered = NODES if threshold else [name for name in NODES if name != place]
    answers = [cluster.ask(own, offered) for _ in range(6)]
    assert cluster.forced == []
    assert "PlaceExcluded" in cluster.reasons_of("own")
    assert threshold or f"node {place}, which would not take it now: Insufficient cpu" in str(answers[-1].failed)
    assert any("Insufficient cpu" in line for line in explain_pod(cluster.core, "default", "own")["text"])
    cluster.core.pod_gone("s")
    cluster.ask(own, offered)
    assert cluster.forced == [""]
    assert own["spec"]["nodeName"] == place


@pytest.mark.parametrize(
    ("own", "of_node"),
    [
        ({"nodeSelector": {"host": "nowhere"}}, {}),
        ({}, {"taints": [{"key": "broken", "effect": "NoExecute"}]}),
        ({"containers": [{"resources": {"limits": {GPU: "4", "rdma/hca": "1"}}}]}, {}),
    ],
)
def test_what_the_pod_itself_says_holds_for_a_forced_binding(own: Json, of_node: Json) -> None:
    cluster = Cluster(spec())
    cluster.begin_with(*(node(name, **of_node) for name in NODES))
    made = cluster.create(pod("own", "A") | {})
    made["metadata"]["labels"]["paictl.io/ignore-suggested-nodes"] = "true"
    made["spec"] |= own
    cluster.core.pod_changed(made)
    for _ in range(5):
        assert not cluster.ask(made, ["elsewhere"]).names
    assert cluster.forced == []
    assert "PlaceExcluded" in cluster.reasons_of("own")


def test_a_freed_place_that_kube_scheduler_never_asks_about_is_given_back(cluster: Cluster) -> None:
    for i in range(4):
        cluster.submit(pod(f"lent-{i}", "A", "opportunistic"))
    guaranteed = pod("own", "B", "100")
    cluster.submit(guaranteed)
    assert len(cluster.reclaim()) == 1
    (freed,) = cluster.offered(guaranteed)
    for _ in range(130):
        cluster.now += 0.5
        cluster.reconciler._give_back()
    assert "ReservationReleased" in cluster.reasons_of("own")
    assert cluster.submit(pod("other", "B", "5")) == freed, "somebody else may have it"
    cluster.reclaim()
    assert "default/other" in cluster.server.pods, "and is not evicted for it"


def test_a_lazy_pod_on_a_taken_node_loses_its_guarantee_and_runs_on(cluster: Cluster) -> None:
    for i in range(3):
        lazy = pod(f"lazy-{i}", "A", "1")
        lazy["metadata"]["labels"]["paictl.io/lazy-preemption"] = "true"
        assert cluster.submit(lazy)
    high = pod("high", "A", "9")
    (free,) = cluster.offered(high)
    assert cluster.submit(high) == free
    assert cluster.reclaim() == []
    assert "GuaranteeLost" in [one.reason for one in cluster.recorded]
