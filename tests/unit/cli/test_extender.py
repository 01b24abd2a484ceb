"""`paictl extender` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from paictl.cli.main import run
from tests.conftest import ROOT
from tests.unit.extender.conftest import CONFIG
from tests.unit.extender.test_labels import SHAPES

OK, NEGATIVE, USAGE, UNREACHABLE = 0, 1, 2, 4


def test_config_prints_manifests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "hivedscheduler.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    assert run(["extender", "config", "--config", str(config), "--scheduler-name", "mine"]) == OK
    found = list(yaml.safe_load_all(capsys.readouterr().out))
    (data,) = (one["data"] for one in found if one["kind"] == "ConfigMap")
    assert yaml.safe_load(data["hivedscheduler.yaml"]) == CONFIG
    assert "schedulerName: mine" in data["scheduler.yaml"]


@pytest.mark.parametrize("door", ["extender", "placer"])
def test_no_manifests_give_mig_instances_by_claims(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, door: str
) -> None:
    config = tmp_path / "hivedscheduler.yaml"
    skus = {"GPU": {"gpu": 1, "cpu": 1, "memory": "1Gi", "migInstances": 4}}
    config.write_text(yaml.safe_dump(CONFIG | {"physicalCluster": CONFIG["physicalCluster"] | {"skuTypes": skus}}))
    assert run([door, "config", "--config", str(config)]) == OK
    assert "migInstances: 4" in capsys.readouterr().out
    assert run([door, "config", "--config", str(config), "--devices", "auto"]) == USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "leaf cells GPU are MIG instances" in said.err
    assert "--devices environment" in said.err


SERVICES = Path("examples/cluster/services-configuration.yaml")
SECRETS = ("chosen-when-you-deploy-1", "also-chosen-when-you-deploy")


def test_of_services_configuration_only_the_schedulers_part_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The file has secrets of other services, and who may read a ConfigMap must not read these."""
    text = (ROOT / SERVICES).read_text()
    assert all(secret in text for secret in SECRETS)
    assert run(["extender", "config", "--config", str(ROOT / SERVICES)]) == OK
    printed = capsys.readouterr().out
    (data,) = (one["data"] for one in yaml.safe_load_all(printed) if one["kind"] == "ConfigMap")
    assert yaml.safe_load(data["hivedscheduler.yaml"]) == yaml.safe_load(
        yaml.safe_load(text)["hivedscheduler"]["config"]
    )
    assert not any(secret in printed for secret in SECRETS)
    assert "rest-server" not in printed


def test_explain_pod_says_by_which_rule(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "pods.yaml"
    file.write_text(yaml.safe_dump({"kind": "List", "items": [{"kind": "Pod", **pod} for pod, _ in SHAPES.values()]}))
    assert run(["extender", "explain-pod", str(file)]) == OK
    out = capsys.readouterr().out
    assert "group: team/train.0a1b2c3d (label jobset.sigs.k8s.io/jobset-name (JobSet, TrainJob))" in out
    assert "leaf cells: 8 (limits of nvidia.com/gpu: 8)" in out
    assert run(["extender", "explain-pod", str(file), "-o", "json"]) == OK
    assert len(json.loads(capsys.readouterr().out)["items"]) == len(SHAPES)


def test_explain_pod_tells_what_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    pod = {"kind": "Pod", "metadata": {"name": "p", "labels": {"paictl.io/virtual-cluster": "v"}}, "spec": {}}
    file.write_text(yaml.safe_dump(pod))
    assert run(["extender", "explain-pod", str(file)]) == NEGATIVE
    assert "no container asks for devices" in capsys.readouterr().out
    file.write_text(yaml.safe_dump({"kind": "Pod", "metadata": {"name": "p"}}))
    assert run(["extender", "explain-pod", str(file)]) == NEGATIVE
    for text, said in (("kind: Service\nmetadata: {}", "found Service"), ("{", "not YAML"), ("", "no pod")):
        file.write_text(text)
        assert run(["extender", "explain-pod", str(file)]) == USAGE
        assert said in capsys.readouterr().err


def test_serve_does_not_start_on_a_configuration_with_errors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config, kubeconfig = tmp_path / "hivedscheduler.yaml", tmp_path / "kube.conf"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\n"
        "users: [{name: u, user: {token: t}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
        "current-context: x\n"
    )
    words = ["extender", "serve", "--config", str(config), "--kubeconfig", str(kubeconfig), "--context", "x"]
    config.write_text(
        yaml.safe_dump(CONFIG | {"virtualClusters": {"A": {"virtualCells": [{"cellType": "POOL", "cellNumber": 9}]}}})
    )
    assert run(words) == NEGATIVE
    assert "HVD525" in capsys.readouterr().err
    config.unlink()
    assert run(words) == USAGE
    config.write_text(yaml.safe_dump(CONFIG))
    assert run([*words[:-1], "nowhere"]) == USAGE
    assert run([*words, "--listen", "nonsense"]) == USAGE
    assert run([*words, "--tls-cert", "x"]) == USAGE
    assert run([*words, "--lease", "x"]) == USAGE
    capsys.readouterr()
    assert run([*words, "--tls-cert", str(kubeconfig), "--tls-key", str(kubeconfig)]) == USAGE
    said = capsys.readouterr().err
    assert "the certificate or its key cannot be used" in said
    assert "Traceback" not in said
