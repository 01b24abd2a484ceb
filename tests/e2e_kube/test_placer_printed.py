"""What `paictl placer config` prints, run as it is printed: TLS, grants, the gate's policy and one replica of two.

The placer has the command line of its Deployment, the files of its ConfigMap and Secret and a token of its account.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import ssl
import subprocess
import tempfile
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.scheduler.wire import GATE, GRANTED
from tests.conftest import ROOT
from tests.e2e_kube.accounts import PAICTL, RESTRICTED, SPACE, found, install, refused, token, uninstall
from tests.e2e_kube.controlplane import HOST, ControlPlane, answers, kubeconfig
from tests.e2e_kube.gates import ACCOUNT, STOCK, Placer
from tests.e2e_kube.kubeapi import ApiError, Json, KubeApi, until
from tests.e2e_kube.rig import add_nodes
from tests.e2e_kube.shell import Shell

CONFIG: dict[str, Any] = {
    "physicalCluster": {
        "cellTypes": {"NODE": {"childCellType": "GPU", "childCellNumber": 4, "isNodeLevel": True}},
        "physicalCells": [{"cellType": "NODE", "cellAddress": f"printed-{i}"} for i in range(2)],
    },
    "virtualClusters": {
        "A": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]},
        "B": {"virtualCells": [{"cellType": "NODE", "cellNumber": 1}]},
    },
}
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
PLUGIN = "nvidia.com/gpu"


@pytest.fixture(scope="module")
def up(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Placer]:
    made = Placer(plane, api, CONFIG, tmp_path_factory.mktemp("printed"))
    try:
        with contextlib.suppress(ApiError):  # it already exists
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": SPACE, "labels": RESTRICTED}})
        made.objects = install(api, _printed("--config", str(made.config)))
        kubeconfig(made.conf(ACCOUNT), plane.server, plane.folder / "ca.crt", token(api, ACCOUNT))
        api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {GATE: "enabled"}}})
        add_nodes(api, CONFIG, plugin=True)
        api.await_nodes(2)
        plane.start_scheduler(json.dumps(STOCK))
        _start(made)
        yield made
    finally:
        made.stop()
        api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {GATE: None}, "annotations": {GRANTED: None}}})
        api.delete_all()
        uninstall(api, made.objects)
        api.call("DELETE", "/api/v1/nodes")


def _printed(*words: str) -> list[Json]:
    state = {"PAICTL_STATE": f"{tempfile.gettempdir()}/paictl-e2e-{os.getpid()}"}  # keeps the certificates
    command = [*PAICTL, "placer", "config", *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=os.environ | state)
    return list(yaml.safe_load_all(done.stdout))


def _start(up: Placer) -> None:
    """As its Deployment runs it, but for addresses, and where ConfigMap and Secret are mounted."""
    up.config.write_text(found(up.objects, "ConfigMap", ACCOUNT)["data"]["hivedscheduler.yaml"])
    folder = up.folder / "tls"
    folder.mkdir(mode=0o700)
    for name, data in found(up.objects, "Secret", f"{ACCOUNT}-tls")["data"].items():
        (folder / name).write_bytes(base64.b64decode(data))
    (container,) = found(up.objects, "Deployment", ACCOUNT)["spec"]["template"]["spec"]["containers"]
    command = list(container["command"])
    for word, value in (
        ("--config", up.config),
        ("--listen", f"{HOST}:{up.port}"),
        ("--pod", f"{SPACE}/{_replica(up.api)}"),
        ("--tls-cert", folder / "tls.crt"),
        ("--tls-key", folder / "tls.key"),
        ("--tls-client-ca", folder / "ca.crt"),
    ):
        command[command.index(word) + 1] = str(value)
    up.reading = ssl.create_default_context(cafile=folder / "ca.crt")
    up.reading.check_hostname = False
    conf = ["--kubeconfig", str(up.conf(ACCOUNT)), "--context", "x"]
    program = up.plane.run("placer", [*PAICTL, *command[1:], *conf, "--dump", str(up.folder)])
    program.wait_until(lambda: answers(f"{up.url}/readyz", up.reading))


def _replica(api: KubeApi) -> str:
    """One of the two pods of the Deployment."""
    path = f"/api/v1/namespaces/{SPACE}/pods?labelSelector=app.kubernetes.io/name={ACCOUNT}"
    until(lambda: len(api.get(path)["items"]) == 2, 30, "two pods of the placer")
    return str(api.get(path)["items"][0]["metadata"]["name"])


def ordinary(name: str, devices: int, priority: str | None = None, vc: str = "A") -> Json:
    """The pod that a user writes: a label and a resource; the policy sets the gate."""
    labels = {"paictl.io/virtual-cluster": vc} | ({"paictl.io/priority": priority} if priority else {})
    container = {"name": "c", "image": "i", "resources": {"limits": {PLUGIN: str(devices)}}}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"containers": [container]}}


def _create(api: KubeApi, pod: Json) -> Json:
    made: Json = api.call("POST", "/api/v1/namespaces/default/pods", pod)
    return made


def test_a_namespace_needs_a_grant_and_the_policy_sets_the_gate(up: Placer, api: KubeApi) -> None:
    made = _create(api, ordinary("train", 4))
    assert made["spec"]["schedulingGates"] == [{"name": "paictl.io/cells"}]
    until(
        lambda: "granted" in " ".join(event["message"] for event in api.events("train")),
        30,
        up.plane.programs["placer"].tail,
    )
    assert api.node_of("train") == ""
    api.patch("/api/v1/namespaces/default", {"metadata": {"annotations": {GRANTED: "A"}}})
    until(lambda: api.node_of("train").startswith("printed-"), 60, lambda: api.plight(["train"]))


def test_another_tenants_virtual_cluster_stays_closed(up: Placer, api: KubeApi) -> None:
    _create(api, ordinary("thief", 1, vc="B"))
    until(lambda: api.events("thief"), 30, up.plane.programs["placer"].tail)
    assert "virtual cluster B" in " ".join(event["message"] for event in api.events("thief"))
    assert api.node_of("thief") == ""
    api.delete("thief")


def test_who_is_stronger_gets_the_devices(up: Placer, api: KubeApi) -> None:
    _create(api, ordinary("urgent", 4, "5"))
    until(lambda: api.node_of("urgent") != "", 60, lambda: api.plight(["urgent"]) + up.plane.programs["placer"].tail())
    assert api.pod("train") is None


def test_a_support_bundle_decides_again_what_the_placer_decided(up: Placer, api: KubeApi, tmp_path: Path) -> None:
    """Follows the scene before; the placer begins anew and recovers what runs."""
    program = up.plane.programs["placer"]
    program.stop()
    program.start()
    program.wait_until(lambda: answers(f"{up.url}/readyz", up.reading))
    _create(api, ordinary("urgentest", 4, "9"))
    until(lambda: api.node_of("urgentest") != "", 60, lambda: api.plight(["urgentest"]) + program.tail())
    until(lambda: api.phase(_replica(api), SPACE) == "Running", 30, "the placer's pod runs")
    _, done = Shell(up.plane, tmp_path).replayed(ACCOUNT, up.port, tmp_path / "b.tar.gz")
    assert (done["same"], done["dropped"]) == (True, 0)
    decisions = [(one["kind"], one["subject"]) for one in done["decisions"]]
    assert decisions[0] == ("recover", "")
    stronger = "pod/default/urgentest"
    assert decisions.index(("preempt", stronger)) < decisions.index(("bind", stronger))


def test_looking_needs_a_token_of_a_reader(up: Placer, api: KubeApi) -> None:
    for name in ("looker", "stranger"):
        with contextlib.suppress(ApiError):
            api.call("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts", {"metadata": {"name": name}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{ACCOUNT}-reader"}
    subject = {"kind": "ServiceAccount", "name": "looker", "namespace": SPACE}
    api.call("POST", BINDINGS, {"metadata": {"name": "looker"}, "roleRef": role, "subjects": [subject]})
    try:
        for up.token, status in (("", 401), ("nonsense", 403), (token(api, "stranger"), 403)):
            with pytest.raises(urllib.error.HTTPError) as refusal:
                up.text("/metrics")
            assert refusal.value.code == status
        up.token = token(api, "looker")
        assert "paictl_placer_leader 1.0" in up.text("/metrics")
        assert "urgent" in up.text("/v1/inspect/affinitygroups/")
    finally:
        up.token = ""
        api.call("DELETE", f"{BINDINGS}/looker")


def test_no_right_is_missing(up: Placer, plane: ControlPlane) -> None:
    assert not refused(plane, up.objects, account=ACCOUNT)
