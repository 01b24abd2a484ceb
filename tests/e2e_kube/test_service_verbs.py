"""`paictl service` as people type it, against a real API server, with the services that paictl comes with.

kwok runs the pods: what is started are Deployments, and pods that are Ready because kwok says so.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import tarfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from paictl.cluster.presets import preset_files
from paictl.plan.events import RunEnded
from paictl.plan.folder import RunFolder
from tests.conftest import ROOT
from tests.e2e_kube.accounts import install, token
from tests.e2e_kube.controlplane import ControlPlane, kubeconfig
from tests.e2e_kube.kubeapi import KubeApi, until
from tests.e2e_kube.shell import Shell

SPACE: Final = "/api/v1/namespaces/paictl-system"
FILE: Final = "services-configuration.yaml"
EXTENDER: Final = {"hivedscheduler", "hivedscheduler-extender"}
"""The Deployments of the scheduler that kube-scheduler asks."""
SCHEDULER: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: "@KUBECONFIG@"}
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
"""


@pytest.fixture(scope="module")
def shell(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Three nodes, kube-scheduler, and the first configuration."""
    api.add_nodes(["master1", "worker1", "worker2"])
    api.await_nodes(3)
    plane.start_scheduler(SCHEDULER)
    made = Shell(plane, tmp_path_factory.mktemp("admin"))
    made.push(preset_files("lab"))
    yield made
    made.tried("service", "delete", "--with-data", "--cluster-id", "pai")
    plane.programs["kube-scheduler"].stop()
    api.call("DELETE", "/api/v1/nodes")


def pods(api: KubeApi, service: str) -> set[str]:
    found = api.get(f"{SPACE}/pods?labelSelector=paictl.io/service={service}")["items"]
    return {one["metadata"]["name"] for one in found}


def test_all_services_start_in_one_go(shell: Shell, api: KubeApi) -> None:
    """Others have applied objects of the scheduler in this namespace before: that has to be wished."""
    out = shell.done("service", "start", "--take-over").splitlines()
    names = list(shell.listed())
    (run,) = (shell.folder / "XDG_STATE_HOME" / "paictl" / "runs").glob("*-service-start")
    assert list(RunFolder(run).events())[-1] == RunEnded(True)
    assert sorted(out) == sorted(f"{name}: started" for name in names)
    assert {one["state"] for one in shell.listed().values()} == {"running"}
    assert shell.done("service", "status").count(" yes") == len(names)
    assert len(pods(api, "hivedscheduler")) == 4
    code, out_again, err = shell.tried("service", "start")
    assert (code, out_again, err.count("is running already")) == (0, "", len(names))


def test_a_support_bundle_has_every_part_of_a_real_cluster_and_no_secret(shell: Shell, tmp_path: Path) -> None:
    """All pods have written the same: lines with secrets, one of them only known by what the Secrets hold."""
    secret = re.search(r"jwt-secret: [\"']?([^\"'\n]+)", preset_files("lab")[FILE])
    assert secret is not None
    written = shell.plane.folder / "container.log"
    before = written.read_text()
    lines = ["begin", f"seen {secret[1]}", "Authorization: Bearer planted-header", "api_key=planted-pair", "end"]
    written.write_text("".join(f"2026-11-22T05:00:00.0Z stdout F {line}\n" for line in lines))
    file = tmp_path / "b.tar.gz"
    try:
        code, out, _ = shell.tried("support", "bundle", "--file", str(file), "--lines", "4", "-o", "json")
    finally:
        written.write_text(before)
    why = "no pod of hivedscheduler-extender leads, so nothing records decisions"  # kwok runs no process in it
    assert (code, json.loads(out)["missing"]) == (3, {"scheduler": why})
    with tarfile.open(file) as tar:
        parts = {one.name.partition("/")[2]: tar.extractfile(one) for one in tar.getmembers()}
        texts = {name: part.read().decode() for name, part in parts.items() if part is not None}
    services = {one["name"]: one["running"] for one in json.loads(texts["services.json"])["services"]}
    assert services == dict.fromkeys(services, True)
    assert len(json.loads(texts["nodes.json"])) == 3
    assert not [name for name, text in texts.items() if secret[1] in text or "planted" in text]
    logs = {name.split("/")[2].rpartition("-")[0]: text for name, text in texts.items() if name.startswith("logs/")}
    assert {name for name in logs if name.startswith(("hivedscheduler-", "rest-server-"))}, sorted(logs)
    assert set(logs.values()) == {"seen ***\nAuthorization: ***\napi_key=***\nend\n"}
    states = {one["service"]: one["phase"] for one in json.loads(texts["pods.json"]) if one["service"]}
    assert states["hivedscheduler"] == "Running"
    assert any("Scheduled" in line or "Created" in line for line in texts["kubernetes-events.jsonl"].splitlines())


def test_the_textbooks_reconfiguration_as_it_is_written(shell: Shell, api: KubeApi) -> None:
    """What runs goes on: no pod of anybody else is touched."""
    bystander = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bystander"}}
    spec = {"nodeName": "worker1", "containers": [{"name": "c", "image": "none"}]}
    uid = api.create({**bystander, "spec": spec})["metadata"]["uid"]
    until(lambda: api.phase("bystander") == "Running", 30, "it runs")
    out = shell.done("service", "stop", "-n", "rest-server", "hivedscheduler")
    assert out == "rest-server: stopped\nhivedscheduler: stopped\n"
    assert pods(api, "hivedscheduler") == set(), "nobody decides any more"
    assert api.get(f"{SPACE}/configmaps/hivedscheduler")["data"], "its configuration stays"
    text = preset_files("lab")[FILE]
    (shell.folder / FILE).write_text(text.replace("vc1:", "vc2:"))
    shell.done("config", "push", "-p", str(shell.folder), "-m", "service", "--cluster-id", "pai")
    before = shell.listed()
    out = shell.done("service", "start", "-n", "rest-server", "hivedscheduler")
    assert sorted(out.splitlines()) == ["hivedscheduler: started", "rest-server: started"]
    after = shell.listed()
    assert after["hivedscheduler"]["configuration_version"] == before["grafana"]["configuration_version"] + 1
    assert "vc2:" in api.get(f"{SPACE}/configmaps/hivedscheduler")["data"]["hivedscheduler.yaml"]
    assert len(pods(api, "hivedscheduler")) == 4
    pod = api.pod("bystander")
    assert pod is not None
    assert (pod["metadata"]["uid"], pod["status"]["phase"]) == (uid, "Running")
    api.delete("bystander")


def test_the_documented_roles_suffice_to_look_and_to_push(
    shell: Shell, plane: ControlPlane, api: KubeApi, tmp_path: Path
) -> None:
    """The roles of docs/clusters.md, word for word, while services run."""
    text = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8").split("\n## Rights\n", 1)[1]
    blocks = re.findall(r"(?:^ {4}.*\n)+", text, re.MULTILINE)
    roles = [role for block in blocks for role in yaml.safe_load_all(textwrap.dedent(block))]
    about = {"name": "reader", "namespace": "paictl-system"}
    install(api, [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about}, *roles, *map(bound, roles)])
    conf = tmp_path / "reader.conf"
    kubeconfig(conf, plane.server, plane.folder / "ca.crt", token(api, "reader"))
    shell.done("cluster", "add", "narrow", "--kubeconfig", str(conf), "--context", "x")
    here, files = ["--cluster", "narrow"], str(shell.folder)
    for words in (
        "cluster status",
        "node list",
        "config history",
        "config get-id",
        f"config pull -o {tmp_path}/pulled",
    ):
        shell.done(*words.split(), *here)
    code, _, err = shell.tried("config", "diff", files, *here)
    assert (code in (0, 1), "forbidden" in err) == (True, False), err
    (shell.folder / FILE).write_text(preset_files("lab")[FILE] + "# pushed with few rights\n")
    shell.done("config", "push", "-p", files, "-m", "service", "--cluster-id", "pai", *here)
    code, out, _ = shell.tried("support", "bundle", "--file", f"{tmp_path}/narrow.tar.gz", "-o", "json", *here)
    made = json.loads(out)
    missing = {"comparison of services", "drift", "scheduler", "values of Secrets"}  # these take more rights
    assert (code, set(made["missing"])) == (3, missing), made["missing"]
    assert {"pods.json", "kubernetes-events.jsonl"} <= set(made["files"])
    assert [name for name in made["files"] if name.startswith("logs/paictl-system/")]
    shell.push({FILE: preset_files("lab")[FILE].replace("vc1:", "vc2:")})  # as the next test expects it


def bound(role: dict[str, Any]) -> dict[str, Any]:
    """The binding of a role to the account `reader`."""
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "paictl-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]}
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": dict(role["metadata"]),
        "roleRef": reference,
        "subjects": [subject],
    }


def test_a_refresh_names_who_changed_and_leaves_the_others_alone(shell: Shell, api: KubeApi) -> None:
    code, out, err = shell.tried("service", "refresh", "--cluster-id", "pai")
    changed = [line for line in out.splitlines() if line]
    assert code == 0
    assert "hivedscheduler is already up to date" in err
    before = pods(api, "hivedscheduler")
    text = preset_files("lab")[FILE]
    shell.push({FILE: text})
    assert shell.listed()["hivedscheduler"]["changed"] is True
    out = shell.done("service", "refresh", "--cluster-id", "pai")
    assert "hivedscheduler: refreshed" in out.splitlines()
    assert not before & pods(api, "hivedscheduler")
    code, out, err = shell.tried("service", "refresh", "--cluster-id", "pai")
    assert (code, out) == (0, ""), changed


def test_an_edit_by_hand_is_told_and_undone(shell: Shell, api: KubeApi) -> None:
    path = "/apis/apps/v1/namespaces/paictl-system/deployments/hivedscheduler"
    api.call("PATCH", f"{path}?fieldManager=kubectl-edit", {"spec": {"replicas": 3}}, "application/merge-patch+json")
    code, _, err = shell.tried("service", "status", "-n", "hivedscheduler")
    assert code == 1
    assert "Deployment paictl-system/hivedscheduler: spec.replicas is 3, applied was 2" in err
    code, _, err = shell.tried("service", "restart", "-n", "hivedscheduler", "--cluster-id", "pai")
    assert code != 0
    assert "replicas belongs to kubectl-edit" in err
    shell.done("service", "restart", "-n", "hivedscheduler", "--take-over", "--cluster-id", "pai")
    assert api.get(path)["spec"]["replicas"] == 2
    shell.done("service", "status", "-n", "hivedscheduler")


def test_a_policy_that_is_gone_is_told_and_certificates_are_kept(shell: Shell, api: KubeApi) -> None:
    kept = "/api/v1/namespaces/paictl-system/secrets/hivedscheduler-ca"
    policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/hivedscheduler-devices"
    before = api.get(kept)["data"]
    api.call("DELETE", policy)
    code, _, err = shell.tried("service", "status", "-n", "hivedscheduler")
    assert code == 1
    assert "ValidatingAdmissionPolicyBinding hivedscheduler-devices: is gone" in err
    shell.done("service", "restart", "-n", "hivedscheduler", "--cluster-id", "pai")
    assert api.get(policy)["spec"]["validationActions"] == ["Deny"]
    assert api.get(kept)["data"] == before
    api.patch(kept, {"data": {"client_crt": "eA=="}})
    assert shell.listed()["hivedscheduler"]["changed"] is True, "they are due"
    shell.done("service", "refresh", "--cluster-id", "pai", "--take-over")
    assert api.get(kept)["data"]["client_crt"] not in ("eA==", before["client_crt"])
    assert api.get(kept)["data"]["ca_crt"] == before["ca_crt"]


def test_the_scheduler_changes_its_door_and_back(shell: Shell, api: KubeApi) -> None:
    """The placer takes the place of the extender and its kube-scheduler, and the job controller learns of it."""
    deployments = "/apis/apps/v1/namespaces/paictl-system/deployments"
    text = preset_files("lab")[FILE]
    doors: tuple[tuple[str, set[str], list[str]], ...] = (
        ("gates", {"hivedscheduler-placer"}, ["--door", "gates"]),
        ("extender", EXTENDER, []),
    )
    for name, there, door in doors:
        shell.push({FILE: text.replace("hivedscheduler:\n", f"hivedscheduler:\n  door: {name}\n", 1)})
        # as at the first start, accounts of other modules' tests may be there
        out = shell.done("service", "refresh", "--take-over", "--cluster-id", "pai").splitlines()
        assert {"hivedscheduler: refreshed", "frameworkcontroller: refreshed"} <= set(out)
        found = {one["metadata"]["name"]: one for one in api.get(deployments)["items"]}
        assert {one for one in found if one.startswith("hivedscheduler")} == there
        command = found["frameworkcontroller"]["spec"]["template"]["spec"]["containers"][0]["command"]
        assert command[command.index("--keep") + 2 :] == door
        metrics = "paictl_placer_" if door else "paictl_extender_"
        assert f"absent({metrics}leader == 1)" in api.get(f"{SPACE}/configmaps/prometheus")["data"]["rules.yml"]
        server = api.get(f"{SPACE}/secrets/hivedscheduler-ca")["data"]["server_crt"]
        shown = subprocess.run(
            ["openssl", "x509", "-noout", "-ext", "subjectAltName"],
            input=base64.b64decode(server),
            capture_output=True,
            check=True,
        ).stdout.decode()
        assert f"DNS:hivedscheduler-{'placer' if door else 'extender'}.paictl-system.svc" in shown
        shell.done("service", "status", "-n", "hivedscheduler")


def test_ctrl_c_while_it_waits_leaves_what_is_applied_and_a_second_start_goes_on(
    shell: Shell, plane: ControlPlane, api: KubeApi
) -> None:
    shell.done("service", "stop", "-n", "rest-server", "hivedscheduler")
    plane.programs["kube-scheduler"].stop()
    process = shell.begun("service", "start", "-n", "hivedscheduler")
    until(lambda: len(pods(api, "hivedscheduler")) == 4, 60, "applied")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), err
    assert "Traceback" not in err
    (found,) = json.loads(shell.tried("service", "status", "-n", "hivedscheduler", "-o", "json")[1])["items"]
    assert found["state"] == "starting"
    code, _, err = shell.tried("service", "start", "-n", "hivedscheduler", "--timeout", "1")
    assert code == 4
    assert "no scheduler has looked at its pod yet: does default-scheduler run?" in err
    plane.start_scheduler(SCHEDULER)
    assert "rest-server: started" in shell.done("service", "start", "-n", "hivedscheduler", "rest-server")
    shell.done("service", "status", "-n", "hivedscheduler")
    assert len(pods(api, "hivedscheduler")) == 4


def test_delete_says_what_stays_and_a_service_that_was_given_up_is_named(shell: Shell, api: KubeApi) -> None:
    code, _, err = shell.tried("service", "delete", "-n", "frameworkcontroller", "cluster-configuration", "--dry-run")
    assert code == 0
    versions = len(json.loads(shell.done("config", "history", "-o", "json"))["items"])
    assert f"kept for cluster-configuration: {versions} versions of the configuration; --with-data deletes it" in err
    code, _, err = shell.tried("service", "start", "-n", "pylon")
    assert code == 2
    assert "paictl no longer has a service pylon" in err
    shell.done("service", "delete", "-n", "hivedscheduler", "--cluster-id", "pai")
    assert shell.listed()["hivedscheduler"]["state"] == "absent"
    until(lambda: not pods(api, "hivedscheduler"), 30, "its pods are gone")
    shell.done("service", "delete", "-n", "cluster-configuration", "--with-data", "--cluster-id", "pai")
    for space in ("paictl-system", "paictl-jobs"):  # with which everything of everybody would have gone
        assert api.get(f"/api/v1/namespaces/{space}")["status"]["phase"] == "Active"
