"""Services as files for Helm and kustomize: the objects of `service start`, without secrets and nodes."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from paictl.cluster.kubernetes.exporting.chart import semantic
from paictl.errors import PaictlError
from paictl.operate import RefusedFilesError
from paictl.operate.exporting import NOTE, ExportFormat, ExportRequest, Written, export, export_secrets
from paictl.service.order import ServiceError
from tests.unit.cluster.catalogue import ALL_OPTIONS, CONFIGURATIONS, LAYOUT, MIXED, SERVICES, objects, rendered

Json = dict[str, Any]
AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NOT_EXPORTED = ("Secret", "Node")


@pytest.fixture(autouse=True)
def _cheap_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))


def written(
    folder: Path, files: dict[str, str], kind: ExportFormat, *names: str, at: datetime = AT, checked: bool = False
) -> Written:
    """Export files; those that all templates have to cope with break rules, so they are checked only on demand."""
    source = folder / "source"
    source.mkdir(exist_ok=True)
    for name, text in files.items():
        (source / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        if not checked:
            patch.setattr("paictl.operate.exporting.check_whole", lambda *_: None)
        return export(ExportRequest(str(source), "pai", names), kind, folder / "target", at)


def documents(folder: Path) -> Iterator[Json]:
    """The objects of a base."""
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert {path.name for path in folder.glob("*.yaml")} == {*listed, "kustomization.yaml"}
    for name in listed:
        yield from yaml.safe_load_all((folder / name).read_text())


def key(body: Json) -> tuple[str, str, str]:
    return body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_base_has_the_objects_of_service_start_but_secrets_and_nodes(name: str, tmp_path: Path) -> None:
    files = dict(CONFIGURATIONS[name])
    written(tmp_path, files, ExportFormat.KUSTOMIZE)
    found = {key(body): body for body in documents(tmp_path / "target")}
    wanted = {key(body): body for _, body in objects(rendered(files)) if body["kind"] not in NOT_EXPORTED}
    configuration = {one for one in found if one[2].startswith("paictl-configuration")}
    assert found.keys() - configuration == wanted.keys()
    assert len(configuration) == 2
    for one, body in wanted.items():
        if body["kind"] not in ("Deployment", "DaemonSet", "ConfigMap"):  # these carry hashes of version and seals
            assert found[one].get("spec") == body.get("spec"), one
            assert found[one].get("rules") == body.get("rules"), one
        assert found[one]["metadata"]["labels"]["app.kubernetes.io/part-of"] == "paictl"


@pytest.mark.parametrize("kind", ExportFormat)
def test_no_secret_is_in_any_file(kind: ExportFormat, tmp_path: Path) -> None:
    written(tmp_path, {LAYOUT: MIXED, SERVICES: ALL_OPTIONS}, kind)
    text = "".join(path.read_text() for path in (tmp_path / "target").rglob("*") if path.is_file())
    for secret in ("p'w", "12345678", "1234567890", "token@chat", "oidc p"):
        assert secret not in text
    assert not re.search(r"^kind: (Secret|Node)$", text, re.MULTILINE)


def test_the_values_of_a_chart_are_what_its_schema_allows(tmp_path: Path) -> None:
    written(tmp_path, {LAYOUT: MIXED, SERVICES: ALL_OPTIONS}, ExportFormat.HELM)
    values = yaml.safe_load((tmp_path / "target" / "values.yaml").read_text())
    schema = json.loads((tmp_path / "target" / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(values, schema)
    assert values["hivedscheduler"] == {
        "enabled": True,
        "scheduler-name": "hivedscheduler",
        "replicas": 3,
        "delete-after": 30,
        "longest-grace": 300,
    }
    assert "door" not in values["hivedscheduler"], "which door it is decides which objects there are"
    assert "tls" not in values["hivedscheduler"]
    for path, wrong in (
        (("hivedscheduler", "replicas"), 0),
        (("rest-server", "node-port"), 80),
        (("prometheus", "port"), "x"),
        (("device-plugin", "nvidia", "mig-strategy"), "half"),
        (("images", "grafana"), "two words"),
        (("frameworkcontroller", "keep"), "soon"),
        (("hivedscheduler", "replica"), 3),
        (("graphana", "port"), 1),
    ):
        other = json.loads(json.dumps(values))
        inner = other
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
        inner[path[-1]] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(other, schema)


def test_a_chart_keeps_no_mark_and_escapes_what_looks_like_an_expression(tmp_path: Path) -> None:
    written(tmp_path, {LAYOUT: MIXED, SERVICES: ALL_OPTIONS}, ExportFormat.HELM)
    texts = {path.name: path.read_text() for path in (tmp_path / "target" / "templates").glob("*.yaml")}
    whole = "".join(texts.values())
    assert not re.search("qzvalue|qzmanager", whole), "two letters alone may stand in a sealed value"
    assert not re.search(r"70017\d{3}", whole)
    assert '{{ "{{" }} $labels.node }}' in texts["prometheus.yaml"]
    assert 'replicas: {{ index .Values "hivedscheduler" "replicas" | int64 }}' in texts["hivedscheduler.yaml"]
    assert texts["grafana.yaml"].startswith('{{- if index .Values "grafana" "enabled" }}\n')


@pytest.mark.parametrize("kind", ExportFormat)
def test_the_same_again_changes_no_byte_and_another_configuration_is_the_next_version(
    kind: ExportFormat, tmp_path: Path
) -> None:
    files = {LAYOUT: MIXED, SERVICES: ALL_OPTIONS}
    assert written(tmp_path, files, kind).changed
    before = {path: path.read_bytes() for path in (tmp_path / "target").rglob("*") if path.is_file()}
    again = written(tmp_path, files, kind, at=datetime(2027, 1, 1, tzinfo=UTC))
    assert not again.changed
    assert {path: path.read_bytes() for path in (tmp_path / "target").rglob("*") if path.is_file()} == before
    assert written(tmp_path, files | {SERVICES: ALL_OPTIONS.replace("keep: 7d", "keep: 8d")}, kind).changed
    assert json.loads((tmp_path / "target" / NOTE).read_text())["number"] == 2


def test_some_services_bring_what_they_need_and_files_of_others_go(tmp_path: Path) -> None:
    files = dict(CONFIGURATIONS["preset lab"])
    assert len(written(tmp_path, files, ExportFormat.KUSTOMIZE).services) == 13
    (tmp_path / "target" / "OWNERS").write_text("ours\n")
    again = written(tmp_path, files, ExportFormat.KUSTOMIZE, "frameworkcontroller")
    assert again.services == ("cluster-configuration", "frameworkcontroller")
    assert "grafana.yaml" in again.removed
    assert (tmp_path / "target" / "OWNERS").exists(), "it was not ours"
    assert {body["kind"] for body in documents(tmp_path / "target")} >= {"CustomResourceDefinition", "Deployment"}


def test_nothing_is_written_for_bad_input(tmp_path: Path) -> None:
    files = dict(CONFIGURATIONS["preset lab"])
    with pytest.raises(ServiceError, match="graphana"):
        written(tmp_path, files, ExportFormat.HELM, "graphana")
    with pytest.raises(RefusedFilesError):
        written(tmp_path, files | {SERVICES: "rest-server: [1]\n"}, ExportFormat.HELM, checked=True)
    assert not (tmp_path / "target").exists()
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "notes.txt").write_text("mine")
    with pytest.raises(PaictlError, match="did not write"):
        written(tmp_path, files, ExportFormat.HELM)
    assert [path.name for path in (tmp_path / "target").iterdir()] == ["notes.txt"]
    (tmp_path / "target" / NOTE).write_text('{"number": "x"}')
    with pytest.raises(PaictlError, match="is not a file that paictl has written"):
        written(tmp_path, files, ExportFormat.HELM)


def test_the_secrets_are_all_that_pods_mount_and_charts_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.operate.exporting.check_whole", lambda *_: None)
    files = {LAYOUT: MIXED, SERVICES: ALL_OPTIONS}
    written(tmp_path, files, ExportFormat.KUSTOMIZE)
    request = ExportRequest(str(tmp_path / "source"), "pai")
    first = export_secrets(request, tmp_path / "state", time.time())
    found = list(yaml.safe_load_all(first))
    assert key(found[0]) == ("Namespace", "", "paictl-system")
    assert {body["kind"] for body in found[1:]} == {"Secret"}
    names = {body["metadata"]["name"] for body in found[1:]}
    mounted = set(re.findall(r"secretName: ([\w-]+)", (tmp_path / "target" / "hivedscheduler.yaml").read_text()))
    pulled = set(re.findall(r"imagePullSecrets:\n *- name: ([\w-]+)", (tmp_path / "target/grafana.yaml").read_text()))
    wanted = {one.name for services in rendered(files).values() for one in services if one.kind == "Secret"}
    assert names >= wanted >= mounted | pulled
    assert mounted
    kept = json.loads((tmp_path / "state" / "extender" / "paictl-system.json").read_text())
    (ca,) = [body["data"]["ca_crt"] for body in found if body["metadata"]["name"] == "hivedscheduler-ca"]
    assert base64.b64decode(ca).decode() == kept["ca_crt"]
    assert pulled == {"pull"}


def test_the_script_labels_and_taints_machines(tmp_path: Path) -> None:
    written(tmp_path, {LAYOUT: MIXED, SERVICES: ALL_OPTIONS}, ExportFormat.HELM)
    script = tmp_path / "target" / "nodes.sh"
    subprocess.run(["sh", "-n", script], check=True)
    lines = script.read_text().splitlines()
    assert (
        "kubectl label node w2 --overwrite paictl.io/role=worker paictl.io/sku=amd paictl.io/devices=amd.com" in lines
    )
    assert "kubectl taint node w-1.lab --overwrite paictl.io/jobs:NoSchedule owner=lab-2:PreferNoSchedule" in lines


@pytest.mark.parametrize(
    ("python", "helm"),
    [
        ("0.1.0.dev0", "0.1.0-dev.0"),
        ("1.2.3", "1.2.3"),
        ("1.2rc1", "1.2.0-rc.1"),
        ("2.0.0+lab.1", "2.0.0+lab.1"),
        ("1.10.0.post2", "1.10.0-post.2"),
    ],
)
def test_versions_are_as_helm_wants_them(python: str, helm: str) -> None:
    assert semantic(python) == helm
