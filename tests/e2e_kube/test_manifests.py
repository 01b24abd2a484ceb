"""What `paictl extender config` prints, taken by a real API server, and run as it is printed.

The extender has the command line of its Deployment, the configuration of its ConfigMap and a token of its
ServiceAccount; kube-scheduler has the ConfigMap's configuration and its own token. One scene after the other makes
every call that a rule allows; the audit log says afterwards whether a rule is missing or one too many.
"""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import tarfile
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from paictl.cluster.pods.nodes import GIVEN_UP
from paictl.scheduler.wire import GRANTED
from tests.e2e_kube.accounts import (
    EXTENDER,
    PAICTL,
    PODGROUPS,
    SCHEDULER,
    SPACE,
    calls,
    found,
    granted,
    install,
    printed,
    refused,
    token,
)
from tests.e2e_kube.churn import gang
from tests.e2e_kube.controlplane import HOST, ControlPlane, answers, free_ports
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, dies, hived_pod, until
from tests.e2e_kube.rig import Rig, nodes_of
from tests.e2e_kube.shell import Shell

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
HOSTNAME = "kubernetes.io/hostname"
PATIENCE = 4
"""Seconds after which a victim is deleted that a budget protects."""


def configuration(nodes: int) -> dict[str, Any]:
    """All nodes are of VC A."""
    return {
        "physicalCluster": {
            "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
            "physicalCells": [{"cellType": "NODE", "cellAddress": f"told-{i}"} for i in range(nodes)],
        },
        "virtualClusters": {"A": {"virtualCells": [{"cellType": "NODE", "cellNumber": nodes}]}},
    }


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(plane, api, configuration(1), tmp_path_factory.mktemp("manifests"))
    try:
        api.add_nodes(nodes_of(configuration(2)))
        api.call("DELETE", f"/apis/coordination.k8s.io/v1/namespaces/{SPACE}/leases")  # made anew, by the right to it
        api.patch("/api/v1/namespaces/default", {"metadata": {"annotations": {GRANTED: "A"}}})
        made.install("--delete-after", str(PATIENCE))
        _start(made)
        yield made
    finally:
        made.stop()
        api.patch("/api/v1/namespaces/default", {"metadata": {"annotations": {GRANTED: None}}})
        api.delete_all()
        api.call("DELETE", "/api/v1/nodes")


def _start(up: Rig) -> None:
    """Both as their Deployments run them, but for where they find each other and the API server."""
    settings = found(up.objects, "ConfigMap", "hivedscheduler")["data"]
    up.config.write_text(settings["hivedscheduler.yaml"])
    (container,) = found(up.objects, "Deployment", EXTENDER)["spec"]["template"]["spec"]["containers"]
    command = container["command"]
    command[command.index("--config") + 1] = str(up.config)
    command[command.index("--listen") + 1] = f"{HOST}:{up.port}"
    command[command.index("--pod") + 1] = f"{SPACE}/{_replicas(up.api)[0]['metadata']['name']}"
    for word in ("--tls-cert", "--tls-key", "--tls-client-ca"):
        command[command.index(word) + 1] = str(_mounted(up, "hivedscheduler-extender-tls", command, word))
    kubeconfig = ["--kubeconfig", str(up.conf(EXTENDER)), "--context", "x"]
    _look_as(up, "reader")
    program = up.plane.run(
        "extender", [*PAICTL, *command[1:], *kubeconfig, "--bind-deadline", "3", "--dump", str(up.folder)]
    )
    program.wait_until(lambda: answers(f"{up.url}/readyz", up.reading))
    scheduler = yaml.safe_load(settings["scheduler.yaml"])
    scheduler["clientConnection"]["kubeconfig"] = "@KUBECONFIG@"
    extender = scheduler["extenders"][0]
    extender["tlsConfig"]["serverName"] = urlsplit(extender["urlPrefix"]).hostname  # here it has only an address
    extender["urlPrefix"] = f"{up.url}/v1/extender"
    for key, path in list(extender["tlsConfig"].items()):
        if key.endswith("File"):
            extender["tlsConfig"][key] = str(up.folder / "hivedscheduler-client-tls" / Path(path).name)
    up.plane.start_scheduler(json.dumps(scheduler), up.conf(SCHEDULER))


def _mounted(up: Rig, secret: str, command: list[str], word: str) -> Path:
    """A file of a Secret where the command line names it, as the kubelet would mount it."""
    return up.folder / secret / Path(command[command.index(word) + 1]).name


def _look_as(up: Rig, account: str) -> None:
    """Secrets become files; whoever looks has no certificate, but a token of an account with the printed role."""
    for secret in ("hivedscheduler-extender-tls", "hivedscheduler-client-tls"):
        folder = up.folder / secret
        folder.mkdir(mode=0o700)
        for name, data in found(up.objects, "Secret", secret)["data"].items():
            (folder / name).write_bytes(base64.b64decode(data))
    client = up.folder / "hivedscheduler-client-tls"
    up.reading, up.asking = (ssl.create_default_context(cafile=client / "ca.crt") for _ in range(2))
    up.reading.check_hostname = up.asking.check_hostname = False
    up.asking.load_cert_chain(client / "tls.crt", client / "tls.key")
    with contextlib.suppress(ApiError):
        up.api.call("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts", {"metadata": {"name": account}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "hivedscheduler-extender-reader"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": SPACE}
    with contextlib.suppress(ApiError):
        up.api.call("POST", BINDINGS, {"metadata": {"name": account}, "roleRef": role, "subjects": [subject]})
    up.token = token(up.api, account)


def _replicas(api: KubeApi, name: str = EXTENDER) -> list[Json]:
    """The two pods of a Deployment, by name."""
    path = f"/api/v1/namespaces/{SPACE}/pods?labelSelector=app.kubernetes.io/name={name}"
    until(lambda: len(api.get(path)["items"]) == 2, 30, f"two pods of {name}")
    return sorted(api.get(path)["items"], key=lambda pod: str(pod["metadata"]["name"]))


def test_the_api_server_takes_everything_and_makes_the_pods(up: Rig, api: KubeApi) -> None:
    """Applied again nothing changes; the Deployments' pods are admitted where Pod Security is `restricted`."""
    before = _versions(up.objects)
    again = install(api, printed("--config", str(up.config), "--delete-after", str(PATIENCE)))
    assert _versions(again) == before
    for name in (EXTENDER, SCHEDULER):
        for pod in _replicas(api, name):
            assert pod["spec"]["serviceAccountName"] == name
            assert pod["spec"]["priority"] == 2000000000
        budget = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/{name}"
        until(lambda at=budget: api.get(at).get("status", {}).get("expectedPods") == 2, 30, "the budget counts them")  # type: ignore[misc]
    service = found(up.objects, "Service", EXTENDER)["spec"]
    labels = found(up.objects, "Deployment", EXTENDER)["spec"]["selector"]["matchLabels"]
    assert service["selector"] == labels | {"paictl.io/leader": "true"}


def _versions(objects: list[Json]) -> dict[tuple[str, str], str]:
    """Without what controllers write to: their status changes the version, of a policy a moment after it was made."""
    about = {
        (one["kind"], one["metadata"]["name"]): one
        for one in objects
        if "status" not in one and one["kind"] != "ValidatingAdmissionPolicy"
    }
    return {key: one["metadata"]["resourceVersion"] for key, one in about.items()}


def test_both_hold_the_leases_that_their_roles_name(up: Rig, api: KubeApi) -> None:
    assert answers(f"{up.url}/readyz", up.reading), "the extender leads"
    for name in (EXTENDER, SCHEDULER):
        until(lambda name=name: _holder(api, name) != "", 30, f"the lease {name} is held")  # type: ignore[misc]


def _holder(api: KubeApi, name: str) -> str:
    held = {one["metadata"]["name"]: one for one in api.get(LEASES)["items"]}
    return str(held.get(name, {"spec": {}})["spec"].get("holderIdentity", ""))


def test_who_has_neither_certificate_nor_right_is_told_nothing(up: Rig, api: KubeApi) -> None:
    """The verbs are kube-scheduler's alone; looking needs a token of an account with the right."""
    known, up.asking = up.asking, up.reading
    try:
        for verb in ("filter", "bind", "preempt"):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                up.post(f"/v1/extender/{verb}", {})
            assert refusal.value.code == 401
    finally:
        up.asking = known
    assert "paictl_extender_nodes" in up.text("/metrics")
    good, strangers = up.token, {"": 401, "nonsense": 403, token(api, SCHEDULER): 403}
    try:
        for up.token, status in strangers.items():
            for path in ("/metrics", "/v1/inspect/clusterstatus", "/v1/explain/pods/default/x", "/v1/picture", "/"):
                with pytest.raises(urllib.error.HTTPError) as refusal:
                    up.text(path)
                assert refusal.value.code == status, path
            assert up.text("/healthz") == "ok"
    finally:
        up.token = good


def test_a_support_bundle_decides_again_what_the_extender_decided(up: Rig, api: KubeApi, tmp_path: Path) -> None:
    """Through the port of the leader's pod, with the service's own certificate and a token of its reader."""
    leader = _replicas(api)[0]["metadata"]["name"]
    _bind(api, leader, "told-0")
    until(lambda: api.phase(leader, SPACE) == "Running", 30, "it runs")
    (weak,) = gang("weak", 1, 4, "A", -1)
    weak["spec"]["containers"][0]["env"] = [{"name": "KEY", "value": "planted-in-a-pod"}]
    api.create(weak)
    api.await_bound(["weak-0"])
    program = up.plane.programs["extender"]
    program.stop()
    program.start()
    program.wait_until(lambda: answers(f"{up.url}/readyz", up.reading))
    api.create(gang("strong", 1, 4, "A", 5)[0])
    api.await_bound(["strong-0"])
    record, done = Shell(up.plane, tmp_path).replayed(EXTENDER, up.port, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        (services,) = [tar.extractfile(one) for one in tar if one.name.endswith("/services.json")]
        assert services is not None
        (service,) = json.load(services)["services"]
    assert (service["name"], service["running"], service["started_by"]) == ("hivedscheduler", True, "others")
    assert "default/weak-0" in record
    assert "planted-in-a-pod" not in record
    assert (done["same"], done["dropped"]) == (True, 0)
    decisions = [(one["kind"], one["subject"]) for one in done["decisions"]]
    assert decisions[0] == ("recover", "")
    assert decisions.index(("preempt", "pod/default/strong-0")) < decisions.index(("bind", "pod/default/strong-0"))
    api.delete("strong-0")


def _bind(api: KubeApi, pod: str, node: str) -> None:
    """Bind a pod of the scheduler itself, which no scheduler of these tests does."""
    binding = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}}
    api.call("POST", f"/api/v1/namespaces/{SPACE}/pods/{pod}/binding", binding)


def test_a_lease_that_no_role_allows_is_said(up: Rig) -> None:
    """Instead of waiting in silence for ever."""
    at = free_ports(1)[0]
    program = up.start_extender("--leader-elect", "--lease", "default/none", port=at, name="stranger", wait=False)
    try:
        program.wait_until(lambda: "the lease cannot be acquired" in program.tail())
        assert "forbidden" in program.tail()
    finally:
        program.stop()


def test_the_leaders_node_can_be_drained_and_the_service_leads_to_the_leader(up: Rig, api: KubeApi) -> None:
    """The kubelet is played: what the printed readiness probe says of a process becomes its pod's condition."""
    first, second = (pod["metadata"]["name"] for pod in _replicas(api))
    (container,) = found(up.objects, "Deployment", EXTENDER)["spec"]["template"]["spec"]["containers"]
    probe = container["readinessProbe"]["httpGet"]["path"]
    other = free_ports(1)[0]
    standby = up.start_extender("--leader-elect", "--pod", f"{SPACE}/{second}", port=other, name="standby", wait=False)
    try:
        standby.wait_until(lambda: answers(f"http://{HOST}:{other}{probe}"))
        assert not answers(f"http://{HOST}:{other}/readyz"), "it does not answer questions"
        for name, address in ((first, up.url), (second, f"http://{HOST}:{other}")):
            if not api.node_of(name, SPACE):
                _bind(api, name, "told-0")
            ready = {"type": "Ready", "status": str(answers(f"{address}{probe}", up.reading))}
            until(lambda name=name: api.phase(name, SPACE) == "Running", 30, "it runs")  # type: ignore[misc]
            path = f"/api/v1/namespaces/{SPACE}/pods/{name}/status"
            api.call("PATCH", path, {"status": {"conditions": [ready]}}, "application/strategic-merge-patch+json")
        until(lambda: _endpoints(api) == {first}, 30, "the Service leads to the leader alone")
        budget = f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/{EXTENDER}"
        until(lambda: api.get(budget)["status"]["currentHealthy"] == 2, 30, "both are healthy")
        eviction = {"metadata": {"name": first}}
        api.call("POST", f"/api/v1/namespaces/{SPACE}/pods/{first}/eviction", eviction)  # as kubectl drain does
        up.plane.programs["extender"].stop()
        standby.wait_until(lambda: answers(f"http://{HOST}:{other}/readyz"))
        until(lambda: _endpoints(api) == {second}, 30, "and to the next one")
    finally:
        standby.stop()
        up.plane.programs["extender"].start()
        up.plane.programs["extender"].wait_until(lambda: answers(f"{up.url}/readyz", up.reading))


def _endpoints(api: KubeApi) -> set[str]:
    """The pods that the Service leads to."""
    selector = f"labelSelector=kubernetes.io/service-name={EXTENDER}"
    path = f"/apis/discovery.k8s.io/v1/namespaces/{SPACE}/endpointslices?{selector}"
    return {
        str(one["targetRef"]["name"])
        for piece in api.get(path)["items"]
        for one in piece.get("endpoints") or ()
        if one["conditions"].get("ready")
    }


def test_what_cannot_be_read_is_told_once_by_two_terms(up: Rig, api: KubeApi) -> None:
    """The second process finds the event of the first and counts on."""
    api.create(hived_pod("riddle", {"virtualCluster": "A", "priority": 5000, "leafCellNumber": 1}))
    until(lambda: _count(api, "riddle", "Unreadable") >= 1, 20, "told")
    before = _count(api, "riddle", "Unreadable")
    program = up.plane.programs["extender"]
    program.stop()
    program.start()
    program.wait_until(lambda: answers(f"{up.url}/readyz", up.reading))
    until(lambda: _count(api, "riddle", "Unreadable") > before, 20, "counted on")
    api.delete("riddle")


def _count(api: KubeApi, pod: str, reason: str) -> int:
    told = [event for event in api.events(pod) if event["reason"] == reason]
    assert len(told) <= 1, "one object a pod and reason"
    return sum(event["count"] for event in told)


@pytest.mark.usefixtures("up")
def test_a_protected_victim_goes_at_last_and_room_is_kept_until_then(api: KubeApi) -> None:
    """The preemptor's node is nominated: kube-scheduler gives its processors to nobody else meanwhile.

    Pods whose `preemptionPolicy` is not `Never` lose the nomination at once: kube-scheduler takes it away whenever its
    own preemption finds nobody, which for devices of an extender is always.
    """
    shielded = ["shielded-0", "shielded-1"]  # the budget lets go of either, and not of both
    for pod in gang("shielded", 2, 2, "A"):
        api.create(pod)
    api.await_bound(shielded)
    until(lambda: all(api.phase(name) == "Running" for name in shielded), 30, "they run")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"gang": "shielded"}}}
    api.call("POST", BUDGETS, {"metadata": {"name": "shield"}, "spec": spec})
    polite = {"metadata": {"name": "polite"}, "value": 0, "preemptionPolicy": "Never"}
    api.call("POST", CLASSES, polite)
    try:
        until(lambda: api.get(f"{BUDGETS}/shield").get("status", {}).get("currentHealthy") == 2, 30, "it counts")
        urgent = _hungry(gang("urgent", 1, 4, "A", 10)[0], priorityClassName="polite")
        until(lambda: _admitted(api, urgent), 20, "the API server knows the class")
        until(lambda: _nominated(api, "urgent-0") == "told-0", 20, "nominated")
        until(lambda: _count(api, "urgent-0", "PreemptionHindered") == 1, 20, "the preemptor is told")
        plain = {"containers": [{"name": "c", "image": "none"}], "schedulerName": "hivedscheduler"}
        api.create(_hungry({"metadata": {"name": "plain"}, "spec": plain}, nodeSelector={HOSTNAME: "told-0"}))
        until(lambda: "Insufficient cpu" in api.plight(["plain"]), 20, lambda: api.plight(["plain"]))
        assert _nominated(api, "urgent-0") == "told-0", "still"
        until(lambda: not any(map(api.pod, shielded)), 30, "deleted in spite of the budget, as configured")
        assert sum(_count(api, name, "BudgetOverruled") for name in shielded) == 1
        assert api.await_bound(["urgent-0"])["urgent-0"]["spec"]["nodeName"] == "told-0"
        assert not api.node_of("plain")
        api.delete("plain")
    finally:
        api.call("DELETE", f"{BUDGETS}/shield")
        api.call("DELETE", f"{CLASSES}/polite")


def _hungry(pod: Json, **more: object) -> Json:
    """The same pod, but it asks for nearly all processors of a node."""
    (container,) = pod["spec"]["containers"]
    container.setdefault("resources", {}).setdefault("limits", {})["cpu"] = "90"
    pod["spec"] |= more
    return pod


def _admitted(api: KubeApi, pod: Json) -> bool:
    """Create a pod; False while the admission plugin's cache does not have its PriorityClass yet."""
    try:
        api.create(pod)
    except ApiError as error:
        if "no PriorityClass" not in str(error):
            raise
        return False
    return True


def _nominated(api: KubeApi, name: str) -> str:
    pod = api.pod(name)
    return str(pod["status"].get("nominatedNodeName", "")) if pod else ""


def test_a_pod_is_asked_about_again_when_the_configuration_has_room(up: Rig, api: KubeApi) -> None:
    """Follows the scene before: the one node is taken. No event of Kubernetes makes kube-scheduler ask again."""
    api.create(gang("patient", 1, 4, "A")[0])
    until(lambda: "pod waits" in api.plight(["patient-0"]), 20, lambda: api.plight(["patient-0"]))
    up.config.write_text(yaml.safe_dump(configuration(2)))
    bound = api.await_bound(["patient-0"], 60)["patient-0"]
    assert bound["spec"]["nodeName"] == "told-1"
    assert "paictl.io/asked-again" in bound["metadata"]["annotations"]


def test_a_namespace_without_a_grant_waits_until_it_has_one(up: Rig, api: KubeApi) -> None:
    """kube-scheduler says why, and asks again once an administrator has granted the virtual cluster."""
    api.delete_all()
    until(lambda: up.get("/v1/inspect/affinitygroups/")["items"] is None, 20, "all is free")
    with contextlib.suppress(ApiError):
        api.call("POST", "/api/v1/namespaces", {"metadata": {"name": "stranger"}})
    made = json.loads(json.dumps(gang("visitor", 1, 4, "A")[0]).replace("default/visitor", "stranger/visitor"))
    api.call("POST", "/api/v1/namespaces/stranger/pods", made)

    def said() -> str:
        pod = api.pod("visitor-0", "stranger")
        return json.dumps(pod["status"]) if pod else ""

    until(lambda: "was not granted virtual cluster A" in said(), 20, said)
    until(lambda: any(one["reason"] == "Refused" for one in api.events("visitor-0", "stranger")), 20, "an event")
    api.patch("/api/v1/namespaces/stranger", {"metadata": {"annotations": {GRANTED: "A"}}})

    def node() -> str:
        pod = api.pod("visitor-0", "stranger")
        return str(pod["spec"].get("nodeName", "")) if pod else ""

    until(node, 30, said)
    api.delete("visitor-0", "stranger")


def test_devices_that_nobody_binds_are_given_back(up: Rig, api: KubeApi) -> None:
    """A kube-scheduler that asked and never came back; only the API server knows whether it bound."""
    api.delete_all()
    until(lambda: up.get("/v1/inspect/affinitygroups/")["items"] is None, 20, "all is free")
    pod = api.create(gang("orphan", 1, 4, "A")[0] | {"spec": hived_pod("x", {}, scheduler="nobody")["spec"]})
    answer = up.post("/v1/extender/filter", {"Pod": pod, "NodeNames": ["told-0", "told-1"]})
    assert answer["NodeNames"], answer
    until(lambda: _count(api, "orphan-0", "ReservationReleased") == 1, 30, "given back, and told")
    assert not api.node_of("orphan-0")


def test_a_node_that_is_away_notes_for_how_long_removed_pods_may_run_there(up: Rig, api: KubeApi) -> None:
    """The next leader reads it."""
    pod = gang("cut-off", 1, 4, "A")[0]
    api.create(pod | {"spec": pod["spec"] | {"terminationGracePeriodSeconds": 30}})
    node = api.await_bound(["cut-off-0"])["cut-off-0"]["spec"]["nodeName"]
    dies(api, node)
    until(lambda: "paictl_extender_bad_nodes 1.0" in up.text("/metrics"), 30, "it is noticed")
    api.delete("cut-off-0")

    def noted() -> str:
        about = api.call("GET", f"/api/v1/nodes/{node}")["metadata"]
        return str((about.get("annotations") or {}).get(GIVEN_UP, ""))

    until(lambda: noted() == "30", 30, noted)


def test_every_right_is_used_and_none_is_missing(up: Rig, plane: ControlPlane) -> None:
    """Last: by now each scene above, and each module before, has done what the extender does."""
    rights = {right for right in granted(up.objects, EXTENDER) if right.resource not in PODGROUPS}
    made = [call for call in calls(plane, EXTENDER) if call.allowed]
    assert {call.right for call in made} == rights, "a right that nobody uses"
    assert not refused(plane, up.objects), "a right that is missing"
    for call in made:
        if call.right.resource == "leases":
            assert call.namespace == SPACE
    leases = {right for right in granted(up.objects, SCHEDULER) if right.resource == "leases"}
    used = {call.right for call in calls(plane, SCHEDULER) if call.right.resource == "leases"}
    assert used == leases, "kube-scheduler's own role"
