"""What goes wrong in a cluster: budgets, refused bindings, an API server that is away, a leader that dies."""

from __future__ import annotations

import json
import time
import urllib.error
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e_kube.churn import faults, gang, halves
from tests.e2e_kube.controlplane import HOST, ControlPlane, answers, free_ports
from tests.e2e_kube.kubeapi import ISOLATION, MARKER, SPEC, Json, KubeApi, devices, hived_pod, until
from tests.e2e_kube.rig import Rig, rig
from tests.e2e_kube.test_gangs import CONFIG, DEVICES


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(plane, api, CONFIG, tmp_path_factory.mktemp("trouble"), "--bind-deadline", "8") as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()


def budget(api: KubeApi, selected: str) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"gang": selected}}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    api.call("POST", path, {"metadata": {"name": selected}, "spec": spec})
    until(lambda: "observedGeneration" in api.get(f"{path}/{selected}").get("status", {}), 30, "the budget counts")


@pytest.mark.usefixtures("up")
def test_victims_under_a_budget_stay_until_it_allows_it(api: KubeApi) -> None:
    for pod in gang("kept", 1, 4, "B"):
        api.create(pod)
    for pod in gang("others", 3, 4, "B", 0):
        api.create(pod)
    api.await_bound(["kept-0", *(f"others-{i}" for i in range(3))])
    until(lambda: all(p["status"].get("phase") == "Running" for p in api.pods()), 30, "all run")
    budget(api, "kept")
    until(lambda: _healthy(api, "kept") == 1, 30, "the budget sees the pod")
    for pod in gang("strong", 4, 4, "B", 10):
        api.create(pod)
    until(lambda: any(e["reason"] == "PreemptionHindered" for e in api.events("strong-0")), 60, "said so")
    assert api.pod("kept-0") is not None
    assert not api.node_of("strong-0")
    api.call("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/kept")
    api.await_bound([f"strong-{i}" for i in range(4)], 90)
    assert api.pod("kept-0") is None


@pytest.mark.usefixtures("up")
def test_a_gang_of_which_one_member_is_protected_is_left_whole(api: KubeApi) -> None:
    """The API server is asked about all of a gang before the first of it is evicted."""
    for pod in gang("team", 4, 4, "B"):
        if pod["metadata"]["name"] == "team-2":
            pod["metadata"] = {**pod["metadata"], "labels": {"gang": "dear"}}
        api.create(pod)
    api.await_bound([f"team-{i}" for i in range(4)])
    until(lambda: all(p["status"].get("phase") == "Running" for p in api.pods()), 30, "all run")
    budget(api, "dear")
    until(lambda: _healthy(api, "dear") == 1, 30, "the budget sees the pod")
    for pod in gang("taker", 4, 4, "B", 10):
        api.create(pod)
    until(lambda: any(e["reason"] == "PreemptionHindered" for e in api.events("taker-0")), 60, "said so")
    assert all(api.node_of(f"team-{i}") for i in range(4)), "all of it runs on"
    api.call("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/dear")
    api.await_bound([f"taker-{i}" for i in range(4)], 90)
    assert not any(api.pod(f"team-{i}") for i in range(4))


def _healthy(api: KubeApi, name: str) -> int:
    status = api.get(f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{name}")["status"]
    return int(status.get("currentHealthy", 0))


@pytest.mark.usefixtures("up")
def test_a_binding_that_is_refused_gives_the_devices_back(api: KubeApi) -> None:
    """An admission policy refuses bindings of pods called refused-*, as a quota or a webhook might."""
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    policy = {
        "metadata": {"name": "no-binding"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": "!object.metadata.name.startsWith('refused')", "message": "not this one"}],
        },
    }
    api.call("POST", f"{group}/validatingadmissionpolicies", policy)
    binding = {"metadata": {"name": "no-binding"}, "spec": {"policyName": "no-binding", "validationActions": ["Deny"]}}
    api.call("POST", f"{group}/validatingadmissionpolicybindings", binding)
    time.sleep(3)  # until the API server enforces it
    try:
        for pod in gang("refused", 4, 4, "A"):
            api.create(pod)
        released = "ReservationReleased"
        until(
            lambda: any(e["reason"] == released for e in api.events("refused-0")), 60, lambda: api.plight(["refused-0"])
        )
        assert not any(pod["spec"].get("nodeName") for pod in api.pods())
        for i in range(4):
            api.delete(f"refused-{i}")
        for pod in gang("welcome", 4, 4, "A"):
            api.create(pod)
        api.await_bound([f"welcome-{i}" for i in range(4)], 60)
    finally:
        api.call("DELETE", f"{group}/validatingadmissionpolicybindings/no-binding")
        api.call("DELETE", f"{group}/validatingadmissionpolicies/no-binding")


def test_half_a_minute_without_the_api_server(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    for pod in gang("before", 2, 4, "A"):
        api.create(pod)
    api.await_bound(["before-0", "before-1"])
    program = plane.programs["kube-apiserver"]
    program.kill()
    time.sleep(30)
    plane.start_apiserver()
    for pod in gang("after", 2, 4, "A"):
        api.create(pod)
    api.await_bound(["after-0", "after-1"], 90)
    assert not faults(api.pods(), DEVICES)
    api.delete("before-0")
    api.delete("before-1")
    until(lambda: _names(up) == ["default/after"], 60, "the departure was seen")


def _names(up: Rig) -> list[str]:
    return [item["metadata"]["name"] for item in up.get("/v1/inspect/affinitygroups/")["items"] or []]


@pytest.mark.usefixtures("up")
def test_an_unreadable_annotation_is_told_and_the_others_go_on(api: KubeApi) -> None:
    api.create(hived_pod("broken", {"virtualCluster": "A", "priority": 5000, "leafCellNumber": 1}))
    api.create(hived_pod("fine", {"virtualCluster": "A", "priority": 0, "leafCellNumber": 1}))
    api.await_bound(["fine"])
    until(lambda: any(e["reason"] == "Unreadable" for e in api.events("broken")), 20, "told")
    (event,) = (e for e in api.events("broken") if e["reason"] == "Unreadable")
    assert "priority: must lie in -1..1000, is 5000" in event["message"]
    until(lambda: "priority: must lie" in api.plight(["broken"]), 20, "the condition says it too")
    right = json.dumps({"virtualCluster": "A", "priority": 5, "leafCellNumber": 1})
    api.patch("/api/v1/namespaces/default/pods/broken", {"metadata": {"annotations": {SPEC: right}}})
    api.await_bound(["broken"], 60)


@pytest.mark.usefixtures("up")
def test_pods_of_a_job_join_by_labels(api: KubeApi) -> None:
    container = {"name": "c", "image": "none", "resources": {"limits": {MARKER: 1, "cpu": "1"}}}
    labels = {"paictl.io/virtual-cluster": "A", "paictl.io/group-size": "3", "paictl.io/leaf-cells": "4"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"schedulerName": "hivedscheduler", "restartPolicy": "Never", "containers": [container]},
    }
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}
    api.call("POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "train"}, "spec": spec})
    try:
        until(lambda: sum(bool(p["metadata"]["annotations"].get(ISOLATION)) for p in _of_job(api)) == 3, 60, "bound")
        assert len({pod["spec"]["nodeName"] for pod in _of_job(api)}) == 3
    finally:
        api.call("DELETE", "/apis/batch/v1/namespaces/default/jobs/train?propagationPolicy=Background")


def _of_job(api: KubeApi) -> list[Json]:
    path = "/api/v1/namespaces/default/pods?labelSelector=batch.kubernetes.io/job-name=train"
    return [{**pod, "metadata": {"annotations": {}, **pod["metadata"]}} for pod in api.get(path)["items"]]


def test_bad_nodes_are_avoided_and_said(up: Rig, api: KubeApi) -> None:
    """Fewer devices on offer than the cells promise: the node is bad as a cordoned one is."""
    three = {"nvidia.com/gpu": "3"}
    status = {"status": {"capacity": {"nvidia.com/gpu": "4"}, "allocatable": three}}
    api.call("PATCH", "/api/v1/nodes/gang-0/status", status, "application/strategic-merge-patch+json")
    api.patch("/api/v1/nodes/gang-1", {"spec": {"unschedulable": True}})

    def bad() -> set[str]:
        found = up.get("/v1/picture")["nodes"]
        return {node["machine"]["name"] for node in found if node["condition"] != "Ready"}

    until(lambda: bad() == {"gang-0", "gang-1"}, 30, "both are bad")
    api.create(hived_pod("elsewhere", {"virtualCluster": "C", "priority": 0, "leafCellNumber": 1}))
    assert api.await_bound(["elsewhere"])["elsewhere"]["spec"]["nodeName"] not in ("gang-0", "gang-1")
    four = {"status": {"allocatable": {"nvidia.com/gpu": "4"}}}
    api.call("PATCH", "/api/v1/nodes/gang-0/status", four, "application/strategic-merge-patch+json")
    api.patch("/api/v1/nodes/gang-1", {"spec": {"unschedulable": None}})
    until(lambda: not bad(), 30, "both are good again")


def test_a_waiting_pod_is_told_once_however_often_it_is_tried(up: Rig, api: KubeApi) -> None:
    for pod in gang("full", 4, 4, "A"):
        api.create(pod)
    api.await_bound([f"full-{i}" for i in range(4)])
    api.create(gang("waits", 1, 4, "A")[0])
    until(lambda: "pod waits: insufficient capacity in VC A" in api.plight(["waits-0"]), 30, "said")
    for number in range(10):
        api.patch("/api/v1/namespaces/default/pods/waits-0", {"metadata": {"labels": {"try": str(number)}}})
        time.sleep(0.3)
    ours = [e for e in api.events("waits-0") if e.get("source", {}).get("component") == "hivedscheduler-extender"]
    assert len(ours) <= 3
    text = up.text("/metrics")
    assert 'paictl_extender_waiting_pods{reason="insufficient capacity in VC A' in text
    assert 'paictl_extender_cells{cell_type="RACK",level="4",state="Used",vc="A"} 1.0' in text
    assert 'paictl_extender_request_seconds_count{verb="filter"}' in text
    assert "waits" in " ".join(up.get("/v1/explain/pods/default/waits-0")["text"])
    assert "<script" in up.text("/", "text/html")
    assert "/v1/extender/filter" in up.get("/")["paths"]


def test_a_changed_configuration_takes_guarantees_and_says_so(up: Rig, api: KubeApi) -> None:
    for pod in gang("promised", 4, 4, "A"):
        api.create(pod)
    bound = api.await_bound([f"promised-{i}" for i in range(4)])
    changed = {**CONFIG, "virtualClusters": {name: CONFIG["virtualClusters"][name] for name in ("B", "C")}}
    up.config.write_text("virtualClusters: [nonsense")
    time.sleep(2.5)
    assert answers(f"{up.url}/readyz"), "a configuration that is none is not taken"
    up.config.write_text(yaml.safe_dump(changed))
    until(lambda: any(e["reason"] == "GuaranteeLost" for e in api.events("promised-0")), 60, "told")
    pods = {pod["metadata"]["name"]: pod for pod in api.pods()}
    assert all(devices(pods[name]) == devices(pod) for name, pod in bound.items()), "they run on where they are"
    up.config.write_text(yaml.safe_dump(CONFIG))
    until(lambda: _status(up, "default/promised").get("virtualPlacement") is not None, 60, "the promise is kept again")


def _status(up: Rig, group: str) -> dict[str, object]:
    try:
        found: dict[str, object] = up.get(f"/v1/inspect/affinitygroups/{group}")["status"]
    except urllib.error.HTTPError:
        return {}
    return found


def test_two_replicas_and_the_leader_dies(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    """Never both: whoever is ready is asked ten times a second."""
    plane.programs["extender"].stop()
    ports = free_ports(2)
    words = ("--leader-elect", "--bind-deadline", "8")
    first = up.start_extender(*words, port=ports[0], name="replica-0")
    second = up.start_extender(*words, port=ports[1], name="replica-1", wait=False)
    try:
        for pod in gang("held", 2, 4, "A"):
            api.create(pod)
        up.port = ports[0]
        up.start_scheduler()
        api.await_bound(["held-0", "held-1"], 60)
        urls = [f"http://{HOST}:{port}/readyz" for port in ports]
        until(lambda: second.running, 10, "the second runs")
        for _ in range(10):
            assert [answers(url) for url in urls] == [True, False]
            time.sleep(0.1)
        died = time.monotonic()
        first.kill()
        until(lambda: answers(urls[1]), 30, lambda: second.tail())
        assert time.monotonic() - died < 15
        first.start()  # comes back while another leads
        up.port = ports[1]
        up.start_scheduler()
        for pod in gang("next", 2, 4, "A"):
            api.create(pod)
        api.await_bound(["next-0", "next-1"], 60)
        assert [answers(url) for url in urls] == [False, True]
        assert not faults(api.pods(), DEVICES)
        assert not halves(api.pods())
        frozen = time.monotonic()
        second.freeze()  # it does not know that its time is over
        until(lambda: answers(urls[0]), 30, lambda: first.tail())
        assert time.monotonic() - frozen < 15
        second.thaw()
        for _ in range(20):
            assert not (answers(urls[0]) and answers(urls[1])), "both answer"
            time.sleep(0.05)
    finally:
        first.stop()
        second.stop()
