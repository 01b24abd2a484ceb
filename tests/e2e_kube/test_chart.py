"""The Helm chart by Helm itself: it lints, renders the objects of the base, refuses bad values, leaves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from paictl.cluster.kubernetes.names import INPUT_HASH, MANAGED_BY
from paictl.operate.exporting import ExportFormat, ExportRequest, export_secrets
from tests.conftest import ROOT
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.kubeapi import ApiError, KubeApi, until
from tests.unit.cluster.catalogue import CONFIGURATIONS
from tests.unit.cluster.test_exporting import documents, key, written

Json = dict[str, Any]
HASH: Final = "paictl.io/values-hash"
KINDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CLASSES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
LISTED: Final = (
    "/api/v1/namespaces",
    KINDS,
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    CLASSES,
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
)
"""Where a release could leave something beside its namespaces."""


class Helm:
    """The program, with settings, cache and repositories of its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        self._program = program
        self._environment = {
            **os.environ,
            **{f"HELM_{name}_HOME": str(folder / name) for name in ("CONFIG", "CACHE", "DATA")},
        }

    def run(self, *words: str | Path, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = self._environment | ({"KUBECONFIG": str(kubeconfig)} if kubeconfig else {})
        return subprocess.run(
            [self._program, *words], capture_output=True, text=True, check=False, timeout=120, env=environment
        )


@pytest.fixture(scope="module")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    build = str(ROOT / "tools" / "kube" / "build.sh")
    folder = subprocess.run([build, "--where", "helm"], check=True, capture_output=True, text=True).stdout.strip()
    program = Path(folder, "helm")
    if not program.is_file():
        pytest.skip(f"no Helm in {folder}: make kube")
    return Helm(program, tmp_path_factory.mktemp("helm"))


@pytest.fixture(autouse=True)
def _cheap_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))


def plain(body: Json) -> Json:
    """An object without what a release adds."""
    found: Json = json.loads(json.dumps(body, default=str))
    found["metadata"]["labels"].pop(MANAGED_BY, None)
    template = (found.get("spec") or {}).get("template")
    for about in (found["metadata"], *([template["metadata"]] if isinstance(template, dict) else [])):
        for name in (HASH, INPUT_HASH):  # the second is of sealed files, and seals have a salt
            about.get("annotations", {}).pop(name, None)
    return found


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_chart_lints_and_renders_to_the_objects_of_the_base(name: str, helm: Helm, tmp_path: Path) -> None:
    files = dict(CONFIGURATIONS[name])
    for kind in ExportFormat:
        (tmp_path / kind).mkdir()
        written(tmp_path / kind, files, kind)
    chart, base = tmp_path / ExportFormat.HELM / "target", tmp_path / ExportFormat.KUSTOMIZE / "target"
    linted = helm.run("lint", "--strict", chart)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    shown = helm.run("template", "paictl", chart, "--namespace", "elsewhere")
    assert shown.returncode == 0, shown.stderr
    found = {key(body): plain(body) for body in yaml.safe_load_all(shown.stdout) if body}
    wanted = {key(body): plain(body) for body in documents(base)}
    for one in list(found.keys() | wanted.keys()):
        if one[2].startswith("paictl-configuration-"):  # named after seals, which have a salt
            found.pop(one, None)
            wanted.pop(one, None)
    for bodies in (found, wanted):
        del bodies["ConfigMap", "paictl-system", "paictl-configuration"]["data"]
    assert found == wanted


def test_values_reach_the_objects_and_keep_their_types(helm: Helm, tmp_path: Path) -> None:
    written(tmp_path, dict(CONFIGURATIONS["preset lab"]), ExportFormat.HELM)
    own = {
        "hivedscheduler": {"replicas": 5, "scheduler-name": "true", "delete-after": 2_000_000},
        "prometheus": {"storage-retention-time": "7d"},
        "images": {"paictl": "reg.lab/paictl@sha256:00"},
        "grafana": {"enabled": False},
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(own))
    shown = helm.run("template", "p", tmp_path / "target", "-n", "paictl-system", "-f", tmp_path / "own.yaml")
    assert shown.returncode == 0, shown.stderr
    found = {key(body): body for body in yaml.safe_load_all(shown.stdout) if body}
    deployment = found["Deployment", "paictl-system", "hivedscheduler-extender"]["spec"]
    assert deployment["replicas"] == 5
    (container,) = deployment["template"]["spec"]["containers"]
    assert container["image"] == "reg.lab/paictl@sha256:00"
    words = container["command"]
    assert words[words.index("--delete-after") + 1] == "2000000", "no exponent, and a text"
    scheduler = yaml.safe_load(found["ConfigMap", "paictl-system", "hivedscheduler"]["data"]["scheduler.yaml"])
    assert scheduler["profiles"][0]["schedulerName"] in ("true", True)
    assert not [one for one in found if one[2].startswith("grafana")]
    assert ("Namespace", "", "paictl-system") not in found, "Helm makes the namespace of a release"


def test_a_value_out_of_range_is_refused_with_its_place(helm: Helm, tmp_path: Path) -> None:
    written(tmp_path, dict(CONFIGURATIONS["preset lab"]), ExportFormat.HELM)
    for value, said in (
        ("frameworkcontroller.replicas=0", "'/frameworkcontroller/replicas': minimum: got 0, want 1"),
        ("rest-server.node-port=80", "'/rest-server/node-port': minimum: got 80, want 30,000"),
        ("frameworkcontroller.replica=2", "'/frameworkcontroller': additional properties 'replica' not allowed"),
        ("graphana.enabled=true", "additional properties 'graphana' not allowed"),
        ("images.grafana=two words", "'/images/grafana': 'two words' does not match pattern"),
        ("hivedscheduler.replicas=many", "'/hivedscheduler/replicas': got string, want integer"),
    ):
        done = helm.run("template", "p", tmp_path / "target", "--set", value)
        assert done.returncode != 0
        assert said in done.stderr
        assert done.stdout == ""


@pytest.fixture
def before(api: KubeApi) -> dict[str, set[str]]:
    """What is in the cluster, by path; other modules' leftovers would be in the way."""
    spaces = [f"/api/v1/namespaces/{name}" for name in ("paictl-system", "paictl-jobs")]
    for path in spaces:
        if is_there(api, path):
            api.call("DELETE", path)
    until(lambda: not any(is_there(api, path) for path in spaces), 60, "no namespaces of ours")
    for path in (*LISTED[1:], "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"):
        if not path.endswith("/v1/rolebindings"):  # only those of one namespace can be deleted together
            api.call("DELETE", f"{path}?labelSelector=app.kubernetes.io/part-of=paictl")
    for path in (KINDS, CLASSES):  # other modules and the job controller make these without labels
        for name in _ours(api, path):
            api.call("DELETE", f"{path}/{name}")
    until(lambda: not _ours(api, KINDS), 60, "no kinds of ours")
    return listed(api)


def _ours(api: KubeApi, path: str) -> set[str]:
    return {name for name in listed(api)[path] if name.startswith("paictl-") or name.endswith(".paictl.io")}


def is_there(api: KubeApi, path: str) -> bool:
    try:
        api.get(path)
    except ApiError:
        return False
    return True


def listed(api: KubeApi) -> dict[str, set[str]]:
    return {path: {one["metadata"]["name"] for one in api.get(path)["items"]} for path in LISTED}


def apply_secrets(api: KubeApi, folder: Path) -> None:
    """What `paictl service secrets` prints, as `kubectl apply --server-side` applies it."""
    request = ExportRequest(str(folder / "source"), "pai")
    for body in yaml.safe_load_all(export_secrets(request, folder / "state", time.time())):
        space = body["metadata"].get("namespace")
        kind = f"namespaces/{space}/secrets" if space else "namespaces"
        path = f"/api/v1/{kind}/{body['metadata']['name']}?fieldManager=kubectl&fieldValidation=Strict"
        api.call("PATCH", path, body, "application/apply-patch+yaml")


def test_a_release_is_installed_upgraded_and_leaves_nothing(
    helm: Helm, plane: ControlPlane, api: KubeApi, before: dict[str, set[str]], tmp_path: Path
) -> None:
    written(tmp_path, dict(CONFIGURATIONS["preset lab"]), ExportFormat.HELM)
    apply_secrets(api, tmp_path)
    release = ("paictl", tmp_path / "target", "--namespace", "paictl-system")
    done = helm.run("install", *release, kubeconfig=plane.kubeconfig)
    assert done.returncode == 0, done.stderr
    deployments = "/apis/apps/v1/namespaces/paictl-system/deployments"
    about = api.get(f"{deployments}/rest-server")["metadata"]["labels"]
    assert about[MANAGED_BY] == "Helm"
    head = api.get("/api/v1/namespaces/paictl-system/configmaps/paictl-configuration")["data"]
    assert [one["number"] for one in json.loads(head["versions"])] == [1]
    secrets = {one["metadata"]["name"] for one in api.get("/api/v1/namespaces/paictl-system/secrets")["items"]}
    mounted = {
        volume["secret"]["secretName"]
        for one in api.get(deployments)["items"]
        for volume in one["spec"]["template"]["spec"].get("volumes") or ()
        if "secret" in volume
    }
    assert mounted
    assert mounted <= secrets
    first = api.get(f"{deployments}/frameworkcontroller")["spec"]
    done = helm.run("upgrade", *release, "--set", "frameworkcontroller.replicas=3", kubeconfig=plane.kubeconfig)
    assert done.returncode == 0, done.stderr
    after = api.get(f"{deployments}/frameworkcontroller")["spec"]
    assert after["replicas"] == 3
    assert after["template"]["metadata"]["annotations"][HASH] != first["template"]["metadata"]["annotations"][HASH]
    done = helm.run("uninstall", "paictl", "--namespace", "paictl-system", kubeconfig=plane.kubeconfig)
    assert done.returncode == 0, done.stderr
    api.call("DELETE", "/api/v1/namespaces/paictl-system")
    until(lambda: listed(api) == before, 180, lambda: f"{listed(api)} instead of {before}")
