"""By which door a pod comes, and how its containers get devices, as `explain-pod` says it."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cli.main import run
from tests.conftest import ROOT

LAB = ROOT / "labs" / "24_doors"
OK, NEGATIVE = 0, 1


def documents(name: str) -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all((LAB / name).read_text(encoding="utf-8"))}


def explained(found: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    file = tmp_path / "pod.yaml"
    file.write_text(yaml.safe_dump_all(found.values()))
    code = run(["extender", "explain-pod", str(file)])
    return code, capsys.readouterr().out


def changed(name: str, kind: str, path: str, value: object) -> dict[str, Any]:
    """The documents of a file with one field changed, or removed by None; `path` has dots and numbers."""
    found = deepcopy(documents(name))
    *before, last = path.split(".")
    holder: Any = found[kind]
    for word in before:
        holder = holder[int(word)] if word.isdecimal() else holder[word]
    if value is None:
        del holder[last]
    else:
        holder[int(last) if last.isdecimal() else last] = value
    return found


GATED, CLAIMED = "gated.yaml", "claimed.yaml"
COUNT = "spec.spec.devices.requests.0.exactly.count"
GATES = "spec.schedulingGates"
TEMPLATE = "ResourceClaimTemplate"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (documents("extender.yaml"), "door: extender (schedulerName hivedscheduler)"),
        (documents("extender.yaml"), "devices: the environment (main), which the container could overwrite"),
        (changed(GATED, "Pod", "spec.containers.0.resources", None), "door: gates (paictl.io/cells), then"),
        (changed(GATED, "Pod", GATES, None), "door: none: it has neither the gate paictl.io/cells nor a schedulerName"),
        (changed("extender.yaml", "Pod", "spec.containers.0.env", None), "devices: unknown: no claim"),
        (changed("extender.yaml", "Pod", "spec.activeDeadlineSeconds", 7200), "run time: at most 2h"),
        (
            changed("extender.yaml", "Pod", "metadata.annotations", {"paictl.io/max-run-time": "7200000ms"}),
            "run time: no limit: paictl.io/max-run-time counts for jobs of paictl only",
        ),
        (changed(CLAIMED, TEMPLATE, COUNT, 2), "devices: claims, which the kubelet enforces (cells: 2)"),
        ({"Pod": documents(CLAIMED)["Pod"]}, "claims (ResourceClaimTemplate some-gpus: not in the file"),
    ],
)
def test_door_and_devices_are_said(
    found: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = explained(found, tmp_path, capsys)
    assert said in out
    assert code == OK


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (documents(GATED), "which no node provides: remove the limit"),
        (changed(GATED, "Pod", GATES, [{"name": "paictl.io/cell"}]), "no door uses the gate paictl.io/cell"),
        (changed(GATED, "Pod", GATES, ["paictl.io/cells"]), "schedulingGates[0]: expected a list of mappings"),
        (changed(GATED, "Pod", GATES, "paictl.io/cells"), "schedulingGates: expected a list of mappings"),
        (documents(CLAIMED), "asks for 2 leaf cells, but its claims for 4 devices; make them equal"),
        (changed(CLAIMED, TEMPLATE, COUNT, "2"), "some-gpus: count is not a whole number"),
        (changed(CLAIMED, TEMPLATE, "metadata.name", "two"), "some-gpus is not in the file, which has two"),
        (changed(CLAIMED, TEMPLATE, "spec.spec", {"devices": []}), "ResourceClaimTemplate some-gpus cannot be read"),
        (
            changed(CLAIMED, "Pod", "spec.resourceClaims.0", {"name": "cells", "resourceClaimName": "mine"}),
            "for this pod alone",
        ),
        (
            changed(CLAIMED, "Pod", "metadata.labels", {"paictl.io/virtual-cluster": "a", "paictl.io/leaf-cells": "4"})
            | {"None": {"kind": "Pod", "metadata": {"name": "x"}}},
            "it does not ask for this scheduler",
        ),
    ],
)
def test_what_no_door_or_kubelet_would_take_is_named(
    found: dict[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = explained(found, tmp_path, capsys)
    assert said in out
    assert code == NEGATIVE


def test_a_template_of_another_namespace_is_not_the_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = changed(CLAIMED, TEMPLATE, COUNT, 2)
    own, pod = found[TEMPLATE], found["Pod"]
    other = deepcopy(own)
    other["spec"]["spec"]["devices"] = []  # cannot be read
    pod["metadata"]["namespace"] = own["metadata"]["namespace"] = "vision"
    other["metadata"]["namespace"] = "speech"
    for templates in ([own, other], [other, own]):
        code, out = explained({"Pod": pod, "one": templates[0], "two": templates[1]}, tmp_path, capsys)
        assert (code, "devices: claims, which the kubelet enforces" in out) == (OK, True), out
    _, out = explained({"Pod": pod, TEMPLATE: other}, tmp_path, capsys)
    assert "not in the file" in out


def test_a_claim_that_no_container_has_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = changed(CLAIMED, TEMPLATE, COUNT, 2)
    del found["Pod"]["spec"]["containers"][0]["resources"]
    code, out = explained(found, tmp_path, capsys)
    assert "no container has claim cells: add it to resources.claims" in out
    assert code == NEGATIVE


@pytest.mark.parametrize(
    ("name", "old", "new", "where", "said"),
    [
        (CLAIMED, 'leaf-cells: "2"', "leaf-cells: 2", "", 'put it in quotes: paictl.io/leaf-cells: "2"'),
        (CLAIMED, "\n---", "", ":14:1", "the key apiVersion is given twice, first in line 2"),
        (CLAIMED, "kind: Pod", "kind Pod", ":16:1", "a colon is missing after 'kind'"),
        (GATED, "  schedulingGates:", "   schedulingGates:", ":10:4", "indented deeper than its own list in line 11"),
        (GATED, "  labels:", "\tlabels:", ":6:1", "a tab indents this line"),
    ],
)
def test_a_file_that_kubectl_would_refuse_is_refused_with_its_place(
    name: str, old: str, new: str, where: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (LAB / name).read_text(encoding="utf-8")
    assert text.count(old) == 1
    file = tmp_path / name
    file.write_text(text.replace(old, new))
    assert run(["extender", "explain-pod", str(file)]) == 2
    shown = capsys.readouterr().err
    assert f"{name}{where}: " in shown
    assert said in shown


def test_in_chinese_nothing_but_names_stays_english(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_LANG", "zh")
    code, out = explained(changed(CLAIMED, TEMPLATE, COUNT, 2), tmp_path, capsys)
    assert code == OK
    assert "入口: 调度门（paictl.io/cells），然后由 default-scheduler 调度" in out
    assert "惰性抢占: 否" in out
    assert not [line for line in out.splitlines()[1:] if line.lstrip()[:1].isascii()]
    code, out = explained(documents(GATED) | {}, tmp_path, capsys)
    assert code == NEGATIVE
    assert "请删除该 limit" in out
