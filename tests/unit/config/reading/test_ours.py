"""Files of a repository that are ours, and those that are not, whatever is wrong with either."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.config.linting.validate import validate
from paictl.config.reading.load import Loaded, load

MANIFESTS = """\
apiVersion: v1
kind: Service
metadata: {name: a}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: a, name: b}
"""
TEMPLATE = """\
{{- if .Values.enabled }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "x.name" . }}
data:
{{ toYaml .Values.data | indent 2 }}
{{- end }}
"""
LAYOUT = "machine-sku: {}\nmachine-list: []\n"

FOREIGN = {
    "two manifests": ("k8s/all.yaml", MANIFESTS),
    "a template of a chart": ("charts/x/templates/map.yaml", TEMPLATE),
    "a template named as a service": ("charts/x/templates/service.yaml", TEMPLATE),
    "a template named as ours": ("charts/hived/templates/hivedscheduler.yaml", TEMPLATE),
    "a template without a kind": ("charts/x/templates/_x.yaml", '{{ include "x" . }}\n{{- range .Values }}\n'),
    "values of a chart": ("charts/x/values.yaml", "grafana: {}\nprometheus: {}\nkubernetes: {a: 1, a: 2}\n"),
    "another program's config.yaml": ("app/config.yaml", "user: me\npassword: x\nhost: db\nhost: db2\n"),
    "another config.yaml that is broken": ("app/config.yaml", "user: [\n"),
    "another config.yaml beside a job": ("app/config.yaml", "model: resnet\nlr: 1e-3\n"),
    "a compose file": ("compose.yaml", "services:\n  db: {image: x}\nnetworks: {}\n"),
    "a pipeline": ("azure-pipelines.yml", "trigger: [main]\nsteps: []\nchecks: []\n"),
    "a layout of a page": ("site/layout.yml", "header: {}\nfooter: [\n"),
    "a table of workers": ("hr/workers.csv", "name,age\nann,3\n"),
    "a wide table with addresses": ("logs/master.csv", "a,b,c,d,e,f\n1,2,3,4,10.0.0.1,x\n"),
    "any table": ("data/big.csv", "a: [\n"),
    "bytes": ("x.yaml", "\x00\x01\udcff"),
    "an empty file": ("empty.yaml", ""),
    "an alias bomb": ("bomb.yaml", "a: &a [1]\nb: &b [*a,*a]\nc: *nothing\n"),
}

OURS = {
    "a broken job": ("jobs/train.yaml", "protocolVersion: 2\nname: x\n\ttype: job\n"),
    "a job of two documents": ("jobs/train.yaml", "protocolVersion: 2\nname: x\n---\nname: y\n"),
    "a layout whose first line is broken": ("layout.yaml", "machine-sku\n  a: [\n"),
    "a name that is only ours": ("lone/services-configuration.yaml", ""),
    "a name beside ours": ("cluster/config.yaml", "docker_image_tg: v1\n"),
    "a host list without a comma": ("hosts/worker.csv", "w1 10.0.0.1\n"),
    "JSON": ("jobs/train.yaml", '{"protocolVersion": 2, "name": "x", \n'),
    "a default section": ("src/pylon/config/pylon.yaml", "port: 1\n"),
}


def repository(folder: Path, path: str, text: str) -> Path:
    """A folder with one file, a job beside it, and a cluster in `cluster`."""
    for name, content in {
        "cluster/layout.yaml": LAYOUT,
        "app/job.yaml": "protocolVersion: 2\n",
        "src/pylon/deploy/service.yaml": "prerequisite: [x]\n",
        path: text,
    }.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode("utf-8", "surrogateescape"))
    return folder / path


@pytest.mark.parametrize("named", [False, True], ids=["in a folder", "by a hook"])
@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_not_ours_is_passed_over(case: str, named: bool, tmp_path: Path) -> None:
    file = repository(tmp_path, *FOREIGN[case])
    loaded = load([str(file)], skip_unknown=True) if named else load([str(tmp_path)])
    assert loaded.skipped == (str(file),)
    assert not loaded.failures


@pytest.mark.parametrize("named", [False, True], ids=["in a folder", "by a hook"])
@pytest.mark.parametrize("case", OURS)
def test_a_mistake_does_not_hide_a_file_of_ours(case: str, named: bool, tmp_path: Path) -> None:
    file = repository(tmp_path, *OURS[case])
    loaded = load([str(file)], skip_unknown=True) if named else load([str(tmp_path)])
    assert not loaded.skipped
    assert str(file) in {document.path for document in loaded.documents}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_file_that_is_named_has_to_be_readable(case: str, tmp_path: Path) -> None:
    file = repository(tmp_path, *FOREIGN[case])
    loaded = load([str(file)])
    assert not loaded.skipped
    assert file.name in problem_files(loaded)


def test_strict_passes_over_nothing(tmp_path: Path) -> None:
    file = repository(tmp_path, *FOREIGN["two manifests"])
    loaded = load([str(tmp_path)], strict=True)
    assert not loaded.skipped
    assert [problem.rule for problem in validate(loaded).problems if problem.place.path == str(file)] == ["TXT015"]


def problem_files(loaded: Loaded) -> set[str]:
    """Names of the files that something is said about."""
    return {Path(problem.place.path).name for problem in validate(loaded).problems}
