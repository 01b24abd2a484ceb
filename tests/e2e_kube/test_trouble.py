"""What goes wrong in a cluster: budgets, refused bindings, an API server that is away, a leader that dies."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
from collections.abc import Iterator

import pytest
import yaml

from tests.e2e_kube.churn import faults, gang, halves
from tests.e2e_kube.controlplane import HOST, ControlPlane, Program, answers, free_ports
from tests.e2e_kube.gates import gates
from tests.e2e_kube.kubeapi import (
    GATED,
    ISOLATION,
    MARKER,
    SPEC,
    Json,
    KubeApi,
    await_denied,
    bystander,
    devices,
    hived_pod,
    until,
)
from tests.e2e_kube.rig import Rig, add_nodes, rig
from tests.e2e_kube.stages import STAYS
from tests.e2e_kube.test_gangs import CONFIG, DEVICES


@pytest.fixture(scope="module", params=["pod-scheduling-enable", "nvidia.com/gpu", "gates"])
def up(
    plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Rig]:
    """Both doors; the extender with both ways of asking."""
    plugin, folder = request.param != "pod-scheduling-enable", tmp_path_factory.mktemp("trouble")
    door = gates if request.param == "gates" else rig
    with door(plane, api, CONFIG, folder, *DEADLINE[door], plugin=plugin) as made:
        yield made


DEADLINE = {rig: ("--bind-deadline", "8"), gates: ("--pin-deadline", "8")}


@pytest.fixture(autouse=True)
def _nothing_left(api: KubeApi) -> Iterator[None]:
    yield
    api.delete_all()


def budget(api: KubeApi, selected: str, least: int = 1) -> None:
    spec = {"minAvailable": least, "selector": {"matchLabels": {"gang": selected}}}
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


@pytest.mark.versions
@pytest.mark.usefixtures("up")
def test_a_budget_over_several_members_of_a_gang_takes_all_of_them_or_none(api: KubeApi) -> None:
    """The Eviction API would take any one of them; it would refuse the third."""
    for pod in gang("crew", 4, 4, "B"):
        api.create(pod)
    api.await_bound([f"crew-{i}" for i in range(4)])
    until(lambda: all(p["status"].get("phase") == "Running" for p in api.pods()), 30, "all run")
    budget(api, "crew", 2)
    until(lambda: _healthy(api, "crew") == 4, 30, "the budget sees the pods")
    for pod in gang("boss", 1, 4, "B", 10):
        api.create(pod)
    hindered = "PreemptionHindered"
    until(lambda: any(e["reason"] == hindered for e in api.events("boss-0")), 60, lambda: api.plight(["boss-0"]))
    (event,) = (e for e in api.events("boss-0") if e["reason"] == hindered)
    assert "the disruption budget crew allows 2 of the 4 evictions needed" in event["message"]
    assert all(api.node_of(f"crew-{i}") for i in range(4)), "all of it runs on"
    api.call("DELETE", "/apis/policy/v1/namespaces/default/poddisruptionbudgets/crew")
    api.await_bound(["boss-0"], 90)
    assert not any(api.pod(f"crew-{i}") for i in range(4))


def _healthy(api: KubeApi, name: str) -> int:
    status = api.get(f"/apis/policy/v1/namespaces/default/poddisruptionbudgets/{name}")["status"]
    return int(status.get("currentHealthy", 0))


def test_a_binding_that_is_refused_gives_the_devices_back(up: Rig, api: KubeApi) -> None:
    """An admission policy refuses bindings of pods called refused-*, as a quota or a webhook might.

    And that of partly-1, whose gang is bound but for it: its place stays the gang's until the policy is gone.
    """
    if up.program != "extender":
        pytest.skip("a pin cannot be taken back, so all are asked about before the first: see test_placer")
    group = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"]}
    named = "object.metadata.name"
    policy = {
        "metadata": {"name": "no-binding"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": f"!{named}.startsWith('refused') && {named} != 'partly-1'"}],
        },
    }
    api.call("POST", f"{group}/validatingadmissionpolicies", policy)
    binding = {"metadata": {"name": "no-binding"}, "spec": {"policyName": "no-binding", "validationActions": ["Deny"]}}
    api.call("POST", f"{group}/validatingadmissionpolicybindings", binding)
    pods = "/api/v1/namespaces/default/pods"
    api.call("POST", pods, bystander("refused-first"))
    target = {"metadata": {"name": "refused-first"}, "target": {"kind": "Node", "name": "gang-0"}}
    await_denied(lambda: api.call("POST", f"{pods}/refused-first/binding?dryRun=All", target), "a binding")
    api.delete("refused-first")
    try:
        for pod in (*gang("refused", 4, 4, "A"), *gang("partly", 4, 4, "B")):
            api.create(pod)
        _released(api, "refused-0")
        _released(api, "partly-1")
        assert {name for name in _all_of(api) if api.node_of(name)} == {"partly-0", "partly-2", "partly-3"}
        for i in range(4):
            api.delete(f"refused-{i}")
        for pod in gang("welcome", 4, 4, "A"):
            api.create(pod)
        api.await_bound([f"welcome-{i}" for i in range(4)], 60)
    finally:
        api.call("DELETE", f"{group}/validatingadmissionpolicybindings/no-binding")
        api.call("DELETE", f"{group}/validatingadmissionpolicies/no-binding")
    api.await_bound([f"partly-{i}" for i in range(4)], 60)
    assert not faults(api.pods(), DEVICES)
    assert len({api.node_of(f"partly-{i}") for i in range(4)}) == 4


def _released(api: KubeApi, name: str) -> None:
    """Wait until a pod is told that its place was given up."""
    until(lambda: any(e["reason"] == "ReservationReleased" for e in api.events(name)), 60, lambda: api.plight([name]))


def _all_of(api: KubeApi) -> list[str]:
    return [pod["metadata"]["name"] for pod in api.pods()]


def test_half_a_minute_without_the_api_server_under_load(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    """Gangs are on their way when it goes, one departs and others come as soon as it is back."""
    if api.plugin and up.program == "extender":
        pytest.skip("how pods ask changes nothing about it: half a minute each for the other two")
    for pod in gang("before", 2, 4, "A"):
        api.create(pod)
    api.await_bound(["before-0", "before-1"])
    for number in range(4):
        for pod in gang(f"load-{number}", 2, 2, "B", lazyPreemptionEnable=True):
            api.create(pod)
    program = plane.programs["kube-apiserver"]
    program.kill()  # bindings of these are under way
    time.sleep(30)
    plane.start_apiserver()
    api.delete("before-0")
    api.delete("before-1")
    for pod in gang("after", 4, 4, "A"):
        api.create(pod)
    api.await_bound([f"after-{i}" for i in range(4)], 150)  # kube-scheduler looks again after up to a minute
    api.await_bound([f"load-{number}-{i}" for number in range(4) for i in range(2)], 90)
    assert not faults(api.pods(), DEVICES)
    assert not halves(api.pods())
    until(lambda: "default/before" not in _names(up), 60, "the departure was seen")


def _names(up: Rig) -> list[str]:
    return [item["metadata"]["name"] for item in up.get("/v1/inspect/affinitygroups/")["items"] or []]


@pytest.mark.versions
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


@pytest.mark.versions
@pytest.mark.usefixtures("up")
def test_pods_of_a_job_join_by_labels(api: KubeApi) -> None:
    asked = {} if api.gated else {MARKER: 1}  # no node offers the marker to a stock kube-scheduler
    container = {"name": "c", "image": "none", "resources": {"limits": {**asked, "cpu": "1"}}}
    labels = {"paictl.io/virtual-cluster": "A", "paictl.io/group-size": "3", "paictl.io/leaf-cells": "4"}
    template = {
        "metadata": {"labels": labels, "annotations": {STAYS: ""}},
        "spec": {
            "schedulerName": "hivedscheduler",
            "restartPolicy": "Never",
            "containers": [container],
            **(GATED if api.gated else {}),
        },
    }
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "template": template}
    api.call("POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": {"name": "train"}, "spec": spec})
    try:
        # Through the gates a pod has its annotation first, and its node a moment later.
        until(lambda: all(pod["spec"].get("nodeName") for pod in _of_job(api)) and len(_of_job(api)) == 3, 60, "bound")
        assert all(pod["metadata"]["annotations"].get(ISOLATION) for pod in _of_job(api))
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


def test_a_node_that_comes_back_with_other_labels(up: Rig, api: KubeApi) -> None:
    """What runs on it keeps its devices, and who asks for the new label gets the rest."""
    api.create(gang("stays", 1, 2, "C")[0])
    before = api.await_bound(["stays-0"])["stays-0"]
    node = before["spec"]["nodeName"]
    api.call("DELETE", f"/api/v1/nodes/{node}?gracePeriodSeconds=0")

    def condition() -> str:
        (found,) = (one for one in up.get("/v1/picture")["nodes"] if one["machine"]["name"] == node)
        return str(found["condition"])

    until(lambda: condition() == "Failed", 30, "it is missed")
    add_nodes(api, CONFIG, plugin=api.plugin)
    api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {"colour": "blue"}}})
    until(lambda: condition() == "Ready", 60, "it is back")
    spec = {"virtualCluster": "C", "priority": 0, "leafCellNumber": 2, "ignoreK8sSuggestedNodes": False}
    api.create(hived_pod("blue", spec, nodeSelector={"colour": "blue"}))
    blue = api.await_bound(["blue"], 60)["blue"]
    stays = api.pod("stays-0")
    assert stays is not None
    assert stays["metadata"]["uid"] == before["metadata"]["uid"]
    assert blue["spec"]["nodeName"] == node
    assert sorted([*devices(stays), *devices(blue)]) == [0, 1, 2, 3]


def test_a_waiting_pod_is_told_once_however_often_it_is_tried(up: Rig, api: KubeApi) -> None:
    for pod in gang("full", 4, 4, "A"):
        api.create(pod)
    api.await_bound([f"full-{i}" for i in range(4)])
    api.create(gang("waits", 1, 4, "A")[0])
    until(lambda: "pod waits: insufficient capacity in VC A" in api.plight(["waits-0"]), 30, "said")
    for number in range(10):
        api.patch("/api/v1/namespaces/default/pods/waits-0", {"metadata": {"labels": {"try": str(number)}}})
        time.sleep(0.3)
    ours = [e for e in api.events("waits-0") if e.get("source", {}).get("component") == f"hivedscheduler-{up.program}"]
    assert len(ours) <= 3
    text = up.text("/metrics")
    assert f'paictl_{up.program}_waiting_pods{{reason="insufficient capacity in VC A' in text
    assert f'paictl_{up.program}_cells{{cell_type="RACK",level="4",state="Used",vc="A"}} 1.0' in text
    assert "waits" in " ".join(up.get("/v1/explain/pods/default/waits-0")["text"])
    assert "<script" in up.text("/", "text/html")
    if up.program == "extender":
        assert 'paictl_extender_request_seconds_count{verb="filter"}' in text
        assert "/v1/extender/filter" in up.get("/")["paths"]


def test_a_changed_configuration_takes_guarantees_and_says_so(up: Rig, api: KubeApi) -> None:
    for pod in gang("promised", 4, 4, "A"):
        api.create(pod)
    bound = api.await_bound([f"promised-{i}" for i in range(4)])
    changed = {**CONFIG, "virtualClusters": {name: CONFIG["virtualClusters"][name] for name in ("B", "C")}}
    up.config.write_text("virtualClusters: [nonsense")
    time.sleep(2.5)
    until(lambda: answers(f"{up.url}/readyz"), 20, "a configuration that is none is not taken")
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


class Witness:
    """Asks a replica without a pause, and notes when each answer was begun and had, and what it was."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/readyz"
        self.seen: list[tuple[float, float, bool]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._over.wait(0.005):
            began = time.monotonic()
            answer = answers(self.url)
            self.seen.append((began, time.monotonic(), answer))

    def spans(self) -> list[tuple[float, float]]:
        """When it certainly led: from the end of one yes to the beginning of the next, nothing else between."""
        pairs = zip(self.seen, self.seen[1:], strict=False)
        return [(one[1], two[0]) for one, two in pairs if one[2] and two[2] and one[1] < two[0]]


def both(first: Witness, second: Witness) -> list[tuple[float, float]]:
    """Times at which both certainly led. A process that was frozen between two answers led at neither's word."""
    return [
        (max(a, c), min(b, d))
        for a, b in first.spans()
        for c, d in second.spans()
        if max(a, c) < min(b, d) and b - a < 1 and d - c < 1
    ]


def test_two_replicas_and_the_leader_dies(up: Rig, plane: ControlPlane, api: KubeApi) -> None:
    """Never both: each is asked all the time, and each answer counts."""
    plane.programs[up.program].stop()
    ports = free_ports(2)
    words = ("--leader-elect", *DEADLINE[rig if up.program == "extender" else gates])
    first = up.start(*words, port=ports[0], name="replica-0")
    second = up.start(*words, port=ports[1], name="replica-1", wait=False)
    urls = [f"http://{HOST}:{port}" for port in ports]
    try:
        with Witness(urls[0]) as one, Witness(urls[1]) as other:
            _lead_in_turn(up, api, (first, second), ports)
        assert len(one.seen) > 20  # how many there are is the machine's business
        assert len(other.seen) > 20
        assert one.spans(), "the first has led"
        assert other.spans(), "the second has led"
        assert not both(one, other), "both answered"
    finally:
        first.stop()
        second.stop()


def _lead_in_turn(up: Rig, api: KubeApi, replicas: tuple[Program, Program], ports: list[int]) -> None:
    """The first dies, the second leads; the second freezes, the first leads again."""
    first, second = replicas
    for pod in gang("held", 2, 4, "A"):
        api.create(pod)
    up.ask(ports[0])
    api.await_bound(["held-0", "held-1"], 60)
    urls = [f"http://{HOST}:{port}/readyz" for port in ports]
    until(lambda: second.running, 20, "the second runs")
    until(lambda: [answers(url) for url in urls] == [True, False], 20, "the first leads")
    first.kill()
    until(lambda: answers(urls[1]), 30, lambda: second.tail())  # how soon is the machine's business, too
    first.start()  # comes back while another leads
    up.ask(ports[1])
    for pod in gang("next", 2, 4, "A"):
        api.create(pod)
    api.await_bound(["next-0", "next-1"], 60)
    until(lambda: [answers(url) for url in urls] == [False, True], 20, "the second leads")
    assert not faults(api.pods(), DEVICES)
    assert not halves(api.pods())
    second.freeze()  # it does not know that its time is over
    until(lambda: answers(urls[0]), 30, lambda: first.tail())
    second.thaw()
    until(lambda: not answers(urls[1]), 20, "it knows now")
