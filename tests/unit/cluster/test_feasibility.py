"""Whether a node could take a pod: cases by what the pod says, and what the node is."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.pods.feasibility import excluded, node_facts, obstacle, pod_demand, requests_of
from paictl.cluster.pods.nodes import NodeUsage

Json = dict[str, Any]
GPU = "nvidia.com/gpu"


def node(**more: Any) -> Json:
    """Eight devices, 16 cores, 64 GiB, 110 pods."""
    return {
        "metadata": {"name": "g1", "labels": {"zone": "a", "generation": "7"}},
        "spec": {key: more[key] for key in ("taints", "unschedulable") if key in more},
        "status": {"allocatable": {"cpu": "15500m", "memory": "64Gi", GPU: "8", "pods": "110"}},
    }


def pod(requests: Json | None = None, **spec: Any) -> Json:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": requests or {}}}], **spec}}


def affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def field(*names: str) -> Json:
    return affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(names)}]})


CORDON = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
DEDICATED = {"taints": [{"key": "dedicated", "value": "ai", "effect": "NoSchedule"}]}
HARD: dict[str, list[Json]] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("spec", "of_node", "why"),
    [
        ({}, {}, ""),
        ({"nodeSelector": {"zone": "a"}}, {}, ""),
        ({"nodeSelector": {"zone": "b"}}, {}, "label zone=b of the pod's nodeSelector"),
        ({"affinity": affinity(expression("zone", "In", "a", "b"))}, {}, ""),
        ({"affinity": affinity(expression("zone", "In", "b"))}, {}, "required node affinity"),
        ({"affinity": affinity(expression("zone", "In", "b"), expression("zone", "Exists"))}, {}, ""),
        ({"affinity": affinity(expression("zone", "NotIn", "a"))}, {}, "required node affinity"),
        ({"affinity": affinity(expression("rack", "NotIn", "a"))}, {}, ""),
        ({"affinity": affinity(expression("rack", "DoesNotExist"))}, {}, ""),
        ({"affinity": affinity(expression("generation", "Gt", "6"))}, {}, ""),
        ({"affinity": affinity(expression("generation", "Lt", "7"))}, {}, "required node affinity"),
        ({"affinity": affinity(expression("zone", "Gt", "6"))}, {}, "required node affinity"),
        ({"affinity": affinity({})}, {}, "required node affinity"),
        ({"affinity": field("g1")}, {}, ""),
        ({"affinity": field("g2")}, {}, "required node affinity"),
        ({}, DEDICATED, "does not tolerate its taint dedicated=ai:NoSchedule"),
        ({}, {"taints": [{"key": "dedicated", "effect": "PreferNoSchedule"}]}, ""),
        ({"tolerations": [{"key": "dedicated", "value": "ai"}]}, DEDICATED, ""),
        ({"tolerations": [{"key": "dedicated", "value": "hpc"}]}, DEDICATED, "does not tolerate"),
        ({"tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}]}, DEDICATED, "not tol"),
        ({"tolerations": [{"operator": "Exists"}]}, DEDICATED, ""),
        ({}, {"unschedulable": True}, "it is cordoned"),
        ({"tolerations": CORDON}, {"unschedulable": True}, ""),
    ],
)
def test_a_node_excludes_a_pod_by_labels_and_taints(spec: Json, of_node: Json, why: str) -> None:
    found = excluded(pod_demand(pod(**spec)), "g1", node_facts(node(**of_node)))
    assert (why in found) if why else not found


@pytest.mark.parametrize(
    ("requests", "used", "pods", "why"),
    [
        ({"cpu": "15500m"}, {}, 1, ""),
        ({"cpu": "15501m"}, {}, 1, "Insufficient cpu"),
        ({"cpu": "8"}, {"cpu": "8"}, 1, "Insufficient cpu"),
        ({"cpu": "7500m"}, {"cpu": "8"}, 1, ""),
        ({"cpu": "4"}, {}, 4, "Insufficient cpu"),
        ({"memory": "64Gi"}, {}, 1, ""),
        ({"memory": "65Gi"}, {}, 1, "Insufficient memory"),
        ({GPU: "8"}, {}, 1, ""),
        ({GPU: "1"}, {GPU: "8"}, 1, f"Insufficient {GPU}"),
        ({"rdma/hca": "1"}, {}, 1, "Insufficient rdma/hca"),
        ({"rdma/hca": "0"}, {}, 1, ""),
        ({"hivedscheduler.microsoft.com/pod-scheduling-enable": "1"}, {}, 1, ""),
        ({}, {"pods": "110"}, 1, "Too many pods"),
    ],
)
def test_a_node_excludes_a_pod_by_what_is_left(requests: Json, used: Json, pods: int, why: str) -> None:
    amounts = requests_of(pod(used)) | {"pods": 1000 * int(used.get("pods", 0))}
    assert obstacle(pod_demand(pod(requests)), "g1", node_facts(node()), amounts, pods) == why


def test_a_node_of_which_nothing_is_known_excludes_nobody_by_its_size() -> None:
    bare = node_facts({"metadata": {"name": "g1"}})
    assert obstacle(pod_demand(pod({"cpu": "4000"})), "g1", bare, {}) == ""


def test_what_a_pod_requests_is_counted_as_kubernetes_does() -> None:
    made = pod(
        {"cpu": "2", "memory": "1Gi"},
        initContainers=[
            {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
            {"resources": {"requests": {"cpu": "3"}, "limits": {"memory": "4Gi"}}},
        ],
        overhead={"cpu": "250m"},
    )
    made["spec"]["containers"].append(
        {"resources": {"limits": {GPU: 4}}, "ports": [{"containerPort": 1, "hostPort": 80}]}
    )
    assert requests_of(made) == {
        "cpu": 4250,
        "memory": 4 * 1024**3 * 1000,
        GPU: 4000,
        "hostPort 80/TCP": 1000,
        "pods": 1000,
    }
    made["spec"]["resources"] = {"requests": {"cpu": "1"}}
    assert requests_of(made)["cpu"] == 1250, "what a pod says for all of its containers counts instead"


def resized(wanted: str, allocated: str, actual: str, reason: str = "") -> Json:
    """A pod whose container requests other CPU than before, and what the kubelet says to that."""
    made = pod({"cpu": wanted, GPU: "1"})
    status = {
        "name": made["spec"]["containers"][0].setdefault("name", "c"),
        "allocatedResources": {"cpu": allocated, GPU: "1"},
        "resources": {"requests": {"cpu": actual, GPU: "1"}},
    }
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    return {**made, "status": {"containerStatuses": [status], "conditions": conditions}}


@pytest.mark.parametrize(
    ("made", "cpu"),
    [
        (resized("2", "2", "2"), 2000),
        (resized("8", "2", "2", "Deferred"), 8000),
        (resized("1", "8", "8"), 8000),
        (resized("1", "1", "8"), 8000),
        (resized("1000", "2", "2", "Infeasible"), 2000),
    ],
)
def test_while_a_pod_is_resized_the_most_counts_that_its_node_can_grant(made: Json, cpu: int) -> None:
    assert requests_of(made) == {"cpu": cpu, GPU: 1000, "pods": 1000}


def test_a_pod_with_one_size_for_all_containers_is_resized_alike() -> None:
    made = pod({"cpu": "1"}, resources={"requests": {"cpu": "1"}})
    made["status"] = {"resources": {"requests": {"cpu": "8"}}, "allocatedResources": {"cpu": "1"}}
    assert requests_of(made)["cpu"] == 8000
    made["spec"]["resources"]["requests"]["cpu"] = "500"
    assert requests_of(made)["cpu"] == 500_000
    made["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    assert requests_of(made)["cpu"] == 8000


def test_two_pods_of_a_host_port_do_not_share_a_node() -> None:
    port = [{"containerPort": 1, "hostPort": 80}]
    one = {"metadata": {"name": "p"}, "spec": {"containers": [{"ports": port}]}}
    found = obstacle(pod_demand(one), "g1", node_facts(node()), requests_of(one))
    assert found == "Insufficient hostPort 80/TCP"


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        ({}, ""),
        ({"affinity": HARD}, "spec.affinity.podAntiAffinity"),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, "spec.topologySpreadConstraints"),
    ],
)
def test_what_depends_on_other_pods_is_said(spec: Json, what: str) -> None:
    assert pod_demand(pod(**spec)).unknowable == what


def test_sums_by_node_follow_the_pods() -> None:
    usage = NodeUsage()
    usage.place("a", "g1", {"cpu": 1000, "pods": 1000})
    usage.place("b", "g1", {"cpu": 500, "pods": 1000})
    usage.place("c", "g2", {"cpu": 7, "pods": 1000})
    assert usage.used("g1") == {"cpu": 1500, "pods": 2000}
    assert usage.used("g1", ["a", "c", "nobody"]) == {"cpu": 500, "pods": 1000}
    version = usage.version
    usage.place("a", "g1", {"cpu": 1000, "pods": 1000})
    assert usage.version == version, "nothing has changed"
    usage.place("a", "g2", {"cpu": 900, "pods": 1000})
    assert usage.used("g1") == {"cpu": 500, "pods": 1000}
    assert usage.used("g2") == {"cpu": 907, "pods": 2000}
    for uid in ("a", "b", "c", "nobody"):
        usage.remove(uid)
    assert usage.used("g1") == usage.used("g2") == {}
