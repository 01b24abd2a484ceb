"""The placer's own: gates, pins, policies, leaders. Scenarios for both doors are in test_demo and test_gangs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from paictl.scheduler.wire import GATE
from tests.e2e_kube.controlplane import ControlPlane, free_ports
from tests.e2e_kube.gates import Placer, gates
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, await_denied, bystander, devices, hived_pod, until

NAMES = [f"gate-{i}" for i in range(4)]
CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {
            "SWITCH": {"childCellType": "GPU", "childCellNumber": 2},
            "NODE": {"childCellType": "SWITCH", "childCellNumber": 2, "isNodeLevel": True},
            "RACK": {"childCellType": "NODE", "childCellNumber": 4},
        },
        "physicalCells": [{"cellType": "RACK", "cellChildren": [{"cellAddress": name} for name in NAMES]}],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 3}]},
        "B": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 1}]},
    },
}


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Placer]:
    folder = tmp_path_factory.mktemp("placer")
    with gates(plane, api, CONFIG, folder, "--pin-deadline", "5", setup=()) as made:  # with the policy
        yield made


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()


def gang(name: str, pods: int, leaves: int, vc: str = "A", priority: int = 0, **more: Any) -> list[Json]:
    """Pods of the default scheduler with our gate; without the marker, which no node has."""
    spec = {
        "virtualCluster": vc,
        "priority": priority,
        "leafCellNumber": leaves,
        "affinityGroup": {"name": f"default/{name}", "members": [{"podNumber": pods, "leafCellNumber": leaves}]},
    }
    gates = [{"name": GATE}]
    made = [
        hived_pod(f"{name}-{i}", spec, scheduler="default-scheduler", schedulingGates=gates, **more)
        for i in range(pods)
    ]
    for pod in made:
        pod["spec"]["containers"][0]["resources"] = {}
    return made


def create(api: KubeApi, pods: list[Json]) -> list[str]:
    return [api.create(pod)["metadata"]["name"] for pod in pods]


def check_devices(api: KubeApi) -> None:
    """No device of a node is held twice, by pods that are pinned or bound."""
    held: set[tuple[str, int]] = set()
    for pod in api.pods():
        if pod["spec"].get("schedulingGates"):
            continue
        (term,) = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        node = term["matchFields"][0]["values"][0]
        assert pod["spec"].get("nodeName") in (None, node)
        mine = {(node, device) for device in devices(pod)}
        assert not mine & held, f"{pod['metadata']['name']} has devices that another pod has"
        held |= mine


def test_a_pod_a_gang_and_one_that_waits(up: Placer, api: KubeApi) -> None:
    single = create(api, gang("single", 1, 4, "B"))
    eight = create(api, gang("eight", 8, 1))
    api.await_bound(single + eight)
    check_devices(api)
    waits = create(api, gang("waits", 3, 4))
    until(lambda: any(e["reason"] == "Waiting" for e in api.events("waits-0")), 20, lambda: api.plight(waits))
    assert up.get("/v1/explain/pods/default/waits-0")["situation"] == "waiting"
    assert not any(api.node_of(name) for name in waits)
    for name in eight:
        api.delete(name)
    api.await_bound(waits)
    check_devices(api)


@pytest.mark.usefixtures("up")
def test_a_vc_is_safe_and_opportunistic_gangs_give_way(api: KubeApi) -> None:
    """B's node is promised to B: what A has lent there is taken back, gang by gang."""
    lent = create(api, gang("lent", 4, 4, priority=-1))
    api.await_bound(lent)
    api.await_bound(create(api, gang("own", 1, 4, "B", 5)))
    assert all(api.pod(name) is None for name in lent)
    api.await_bound(create(api, gang("full", 3, 4)))
    create(api, gang("more", 1, 4))
    until(lambda: api.events("more-0"), 20, "it is told why it waits")
    assert not api.node_of("more-0")
    check_devices(api)


def test_the_policy_sets_the_gate_and_selectors_and_taints_hold(up: Placer, api: KubeApi) -> None:
    (pod,) = gang("chosen", 1, 1, nodeSelector={"kubernetes.io/hostname": "gate-3"})
    del pod["spec"]["schedulingGates"]

    def gated() -> bool:
        with contextlib.suppress(ApiError):
            made = api.call("POST", "/api/v1/namespaces/default/pods?dryRun=All", pod)
            return bool(made["spec"].get("schedulingGates") == [{"name": GATE}])
        return False

    until(gated, 30, "the policy is in force")
    assert api.await_bound(create(api, [pod]))["chosen-0"]["spec"]["nodeName"] == "gate-3"
    taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
    api.patch("/api/v1/nodes/gate-0", {"spec": {"taints": [taint]}})
    try:
        found = api.await_bound(create(api, gang("rest", 2, 4)))
        assert "gate-0" not in {one["spec"]["nodeName"] for one in found.values()}
    finally:
        api.patch("/api/v1/nodes/gate-0", {"spec": {"taints": None}})
    assert "paictl_placer_leader 1.0" in up.text("/metrics")


def test_a_pin_that_kube_scheduler_refuses_is_told(up: Placer, api: KubeApi) -> None:
    term = {"labelSelector": {"matchLabels": {"no": "body"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    (pod,) = gang("big", 1, 1, affinity=near)
    create(api, [pod])
    until(lambda: any(e["reason"] == "PinRefused" for e in api.events("big-0")), 30, lambda: api.plight(["big-0"]))
    assert 'paictl_placer_decisions_total{kind="pin refused"}' in up.text("/metrics")


def test_a_pod_that_no_node_has_cpu_for_keeps_its_gate(up: Placer, api: KubeApi) -> None:
    (pod,) = gang("huge", 1, 1)
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1000000"}}
    create(api, [pod])
    until(lambda: any(e["reason"] == "Waiting" for e in api.events("huge-0")), 20, lambda: api.plight(["huge-0"]))
    made = api.pod("huge-0")
    assert made is not None
    assert made["spec"]["schedulingGates"]
    assert up.get("/v1/inspect/affinitygroups/")["items"] is None


def test_a_forged_pin_is_refused_in_every_namespace(up: Placer, api: KubeApi) -> None:
    create(api, gang("real", 1, 4))
    api.await_bound(["real-0"])
    real = api.pod("real-0")
    assert real is not None
    noted = real["metadata"]["annotations"]
    forged: Json = {
        "metadata": {"name": "forged", "annotations": noted},
        "spec": {
            "containers": [{"name": "c", "image": "none"}],
            "affinity": real["spec"]["affinity"],
            "schedulerName": "nobody",
        },
    }
    api.delete("real-0")
    until(lambda: up.get("/v1/inspect/affinitygroups/")["items"] is None, 20, "its devices are free")
    with contextlib.suppress(ApiError):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "open-to-all"}})
    for space in ("default", "open-to-all"):
        with pytest.raises(ApiError, match="is written by the scheduler"):
            api.call("POST", f"/api/v1/namespaces/{space}/pods", forged)
    create(api, gang("waits", 2, 4)[:1])
    with pytest.raises(ApiError, match=r"is removed by the placer|is invalid"):
        api.patch("/api/v1/namespaces/default/pods/waits-0", {"spec": {"schedulingGates": None}})


@pytest.mark.usefixtures("up")
def test_a_gang_of_which_one_pin_is_refused_runs_whole_or_not_at_all(api: KubeApi) -> None:
    """An administrator's policy refuses the pin of one of three; the others would have run without it for ever."""
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    gated = "has(object.spec.schedulingGates) && object.spec.schedulingGates.size() > 0"
    policy = {
        "metadata": {"name": "no-pin"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": f"!object.metadata.name.startsWith('torn-1') || ({gated})", "message": "not this one"}
            ],
        },
    }
    api.call("POST", f"{group}/validatingadmissionpolicies", policy)
    bound = {"metadata": {"name": "no-pin"}, "spec": {"policyName": "no-pin", "validationActions": ["Deny"]}}
    api.call("POST", f"{group}/validatingadmissionpolicybindings", bound)
    space = "kube-system"  # where nothing is decided about pods without a gate
    pods = f"/api/v1/namespaces/{space}/pods"
    api.call("POST", pods, bystander("torn-1-first"))
    change = {"metadata": {"labels": {"a": "b"}}}
    await_denied(lambda: api.patch(f"{pods}/torn-1-first?dryRun=All", change), "a change")
    api.delete("torn-1-first", space)
    try:
        torn = create(api, gang("torn", 3, 4))
        until(lambda: any(e["reason"] == "PinFailed" for e in api.events("torn-0")), 30, lambda: api.plight(torn))
        (event,) = (e for e in api.events("torn-0") if e["reason"] == "PinFailed")
        assert "its gang cannot be pinned as a whole: pod torn-1" in event["message"]
        assert "not this one" in event["message"]
        time.sleep(3)
        assert not any(api.node_of(name) for name in torn)
        others = create(api, gang("others", 4, 4, priority=-1))
        api.await_bound(others)
    finally:
        api.call("DELETE", f"{group}/validatingadmissionpolicybindings/no-pin")
        api.call("DELETE", f"{group}/validatingadmissionpolicies/no-pin")
    for name in others:
        api.delete(name)
    api.await_bound(torn, 60)
    check_devices(api)


def test_another_leader_takes_over(up: Placer, plane: ControlPlane, api: KubeApi) -> None:
    plane.programs["placer"].stop()
    ports = free_ports(2)
    try:
        up.start("--leader-elect", port=ports[0], name="placer-0")
        up.start("--leader-elect", port=ports[1], name="placer-1", wait=False)
        first = create(api, gang("before", 2, 4))
        api.await_bound(first)
        plane.programs["placer-0"].kill()
        second = create(api, gang("after", 1, 4))
        api.await_bound(second, 60)
        check_devices(api)
    finally:
        for name in ("placer-0", "placer-1"):
            plane.programs[name].stop()
        up.start()
