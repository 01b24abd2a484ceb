"""Templates → objects: what a template may use, and that every mistake is told with file and line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.manifests.context import ImageReferences, Renderer, RenderInputs, merged
from paictl.cluster.manifests.templating import Manifest, TemplateError, render_folder
from paictl.cluster.presets import preset_files
from paictl.config.pushing.push import seal_files, secrets_of
from paictl.controller.manifests import priority_class
from paictl.errors import PaictlError
from paictl.resources import resource_folder
from paictl.workload.job import PRIORITIES

SERVICES = "services-configuration.yaml"
HEAD = "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: thing\n"


@pytest.fixture(autouse=True)
def _cheap_seals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.secrets.sealing.COST", (4, 1, 1))


def renderer(folder: Path, template: str, files: dict[str, str] | None = None, defaults: str = "") -> Renderer:
    """A folder of templates with one service, `svc`."""
    (folder / "svc").mkdir(exist_ok=True)
    (folder / "svc" / "main.yaml.j2").write_text(template)
    (folder / "svc" / "defaults.yaml").write_text(defaults)
    (folder / "images.yaml").write_text("paictl: paictl\nother: reg.io/a/b/other:1.2\n")
    clear = files if files is not None else preset_files("lab")
    sealed = seal_files(clear)
    return Renderer(RenderInputs("pai", "sys", "jobs", "9.9", sealed, secrets_of(clear, sealed)), folder)


def rendered(folder: Path, value: str, files: dict[str, str] | None = None, defaults: str = "") -> Any:
    """What an expression comes to, as the value of a key of a Secret."""
    made = renderer(folder, f"{HEAD.format(kind='Secret')}data:\n  key: {value}\n", files, defaults).render("svc")
    return made[0].body["data"]["key"]


def test_the_context_is_what_was_agreed(tmp_path: Path) -> None:
    words = "{{ cluster.id }} {{ cluster.namespace }} {{ cluster.jobs_namespace }} {{ version }} {{ image('paictl') }}"
    assert rendered(tmp_path, words) == "pai sys jobs 9.9 paictl:9.9"
    machine = "{% for m in machines %}{{ m.name }}={{ m.role }}={{ m.devices }};{% endfor %}"
    assert rendered(tmp_path, machine) == "master1=master=0;worker1=worker=1;worker2=worker=1;"
    assert rendered(tmp_path, "n{{ services['nobody'] | length }}{{ services.neither | length }}") == "n00"
    assert rendered(tmp_path, "{{ layout['machine-list'] | length }} {{ files | length }}") == "3 2"


def test_a_section_lies_over_its_defaults(tmp_path: Path) -> None:
    files = {SERVICES: "svc:\n  port: 81\n  deep: {b: 3}\n  list: [9]\n  empty:\n"}
    defaults = "port: 80\nhost: h\ndeep: {a: 1, b: 2}\nlist: [1, 2]\nempty: {x: 1}\n"
    assert rendered(tmp_path, "{{ config | to_yaml | quote }}", files, defaults) == (
        "port: 81\nhost: h\ndeep:\n  a: 1\n  b: 3\nlist:\n- 9\nempty:\n  x: 1"
    )


@given(
    st.dictionaries(
        st.text(max_size=3), st.none() | st.integers() | st.dictionaries(st.text(max_size=2), st.integers())
    )
)
def test_to_merge_nothing_changes_nothing_and_own_values_win(own: dict[str, Any]) -> None:
    assert merged(own, {}) == own
    assert merged({}, own) == own
    assert merged(own, own) == own


@given(st.text() | st.integers() | st.booleans())
def test_quoted_values_come_back_as_text(value: Any) -> None:
    from paictl.cluster.manifests import templating

    assert yaml.safe_load(f"key: {templating._quote(value)}") == {"key": str(value)}


def test_secrets_come_with_their_type_and_only_into_secrets(tmp_path: Path) -> None:
    files = {SERVICES: "rest-server:\n  jwt-secret: hunter22\n  default-pai-admin-password: 12345\n"}
    value = "{{ services['rest-server']['jwt-secret'] | b64encode }}"
    assert rendered(tmp_path, value, files) == "aHVudGVyMjI="
    number = "{{ (services['rest-server']['default-pai-admin-password'] + 1) | string | quote }}"
    with pytest.raises(TemplateError):  # a seal in its place is a text: templates do no sums with secrets
        rendered(tmp_path, number, files)
    leak = HEAD.format(kind="ConfigMap") + "data:\n  key: {{ services['rest-server']['jwt-secret'] }}\n"
    with pytest.raises(TemplateError, match="ConfigMap thing would hold a secret"):
        renderer(tmp_path, leak, files).render("svc")
    plain = HEAD.format(kind="ConfigMap") + "data:\n  key: x\n"
    made = renderer(tmp_path, plain, files)
    assert made.sealed("svc") == made.render("svc")


def test_a_secret_that_the_cluster_lost_is_said(tmp_path: Path) -> None:
    files = seal_files({SERVICES: "rest-server:\n  jwt-secret: hunter22\n"})
    renderer(tmp_path, HEAD.format(kind="Secret"))
    with pytest.raises(PaictlError, match="not in the cluster any more"):
        Renderer(RenderInputs("pai", "sys", "jobs", "9.9", files), tmp_path).render("svc")


@pytest.mark.parametrize(
    ("template", "line", "message"),
    [
        (HEAD.format(kind="ConfigMap") + "data:\n  a: {{ config.nothing }}\n", 6, "nothing"),
        (HEAD.format(kind="ConfigMap") + "data:\n  a: {{ 1 + 'x' }}\n", 6, "unsupported operand"),
        (HEAD.format(kind="ConfigMap") + "{% if x %}\n", 5, "Unexpected end of template"),
        (HEAD.format(kind="ConfigMap") + "data:\n  a: {{ image('pictl') }}\n", 6, "no image 'pictl'"),
        (HEAD.format(kind="ConfigMap") + "data:\n  a: {{ fail('port 0 is none') }}\n", 6, "port 0 is none"),
        (HEAD.format(kind="ConfigMap") + "data:\n  a: {{ version }}: b\n", 6, "broken YAML"),
        (HEAD.format(kind="ConfigMap") + "data: {}\ndata: {}\n", 6, "'data' is there twice"),
        ("kind: ConfigMap\nmetadata: {name: x}\n", 1, "without apiVersion"),
        (HEAD.format(kind="ConfigMap") + "---\nversion: {{ version }}\n", 6, "without apiVersion, kind, metadata.name"),
        ("---\n- a list\n", 2, "to an object"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(tmp_path: Path, template: str, line: int, message: str) -> None:
    with pytest.raises(TemplateError) as caught:
        renderer(tmp_path, template).render("svc")
    assert message in str(caught.value)
    assert caught.value.where == f"{tmp_path}/svc/main.yaml.j2:{line}"


def test_an_included_file_is_named_and_files_come_in_order(tmp_path: Path) -> None:
    made = renderer(tmp_path, "{% include '_part.yaml.j2' %}")
    (tmp_path / "svc" / "_part.yaml.j2").write_text(HEAD.format(kind="ConfigMap") + "data:\n  a: {{ nothing }}\n")
    with pytest.raises(TemplateError) as caught:
        made.render("svc")
    assert caught.value.where == f"{tmp_path}/svc/_part.yaml.j2:6"
    (tmp_path / "svc" / "_part.yaml.j2").write_text(HEAD.format(kind="Secret"))
    (tmp_path / "svc" / "a.yaml.j2").write_text("# only words\n---\n" + HEAD.format(kind="ConfigMap"))
    assert [(one.kind, Path(one.source).name) for one in made.render("svc")] == [
        ("ConfigMap", "a.yaml.j2"),
        ("Secret", "main.yaml.j2"),
    ]


def test_dates_stay_text(tmp_path: Path) -> None:
    made: list[Manifest] = renderer(tmp_path, HEAD.format(kind="ConfigMap") + "data:\n  a: 2026-11-22\n").render("svc")
    assert made[0].body["data"] == {"a": "2026-11-22"}


def test_a_service_without_templates_has_no_objects(tmp_path: Path) -> None:
    assert render_folder(tmp_path, {}) == []


@pytest.mark.parametrize(
    ("services", "name", "reference"),
    [
        ({}, "paictl", "paictl:9.9"),
        ({}, "other", "reg.io/a/b/other:1.2"),
        ({"images": {"paictl": "own/x:2"}}, "paictl", "own/x:2"),
        ({"cluster": {"docker-registry": {"domain": "r:5000", "namespace": "gpu"}}}, "other", "r:5000/gpu/other:1.2"),
        ({"cluster": {"common": {"docker-registry": {"domain": "my.reg"}}}}, "paictl", "my.reg/paictl:9.9"),
        ({"cluster": {"docker-registry": {"domain": "docker.io", "namespace": "openpai"}}}, "paictl", "paictl:9.9"),
        ({"cluster": None}, "paictl", "paictl:9.9"),
    ],
)
def test_a_name_stands_for_an_image_of_the_wished_registry(services: dict[str, Any], name: str, reference: str) -> None:
    images = ImageReferences({"paictl": "paictl", "other": "reg.io/a/b/other:1.2"}, "9.9", services)
    assert images(name) == reference


def test_no_priority_class_of_jobs_has_the_name_of_that_of_services() -> None:
    """The classes are fixed, so that no job brings one; for pods of one called `service`, others would be evicted."""
    template = (resource_folder("templates") / "cluster-configuration" / "manifests.yaml.j2").read_text()
    names = re.findall(r"kind: PriorityClass\nmetadata:\n  name: ([a-z-]+)\n", template)
    assert names == ["paictl-service"]
    assert not {priority_class(name) for name in PRIORITIES} & {*names}
