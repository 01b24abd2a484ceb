"""Pods with their owners, as files: which gang a pod is in, and what its owner says of the gang's size."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.cli.main import run
from paictl.cluster.pods.labels import Rules
from paictl.cluster.pods.reading import read_pod
from paictl.doors.owners import gang_of, owner_of
from paictl.scheduler.errors import RequestError

CASES = sorted((Path(__file__).parents[2] / "cases" / "extender").glob("*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_gang_of_a_pod_and_what_its_owner_says(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = yaml.safe_load(path.read_text())
    expect = case["expect"]
    _, pod = case["items"]
    request = read_pod(pod, "uid", f"team/{pod['metadata']['name']}", Rules()).request
    assert request.group == expect["group"]
    assert [[pods, cells] for cells, pods in request.members] == expect["members"]
    assert run(["extender", "explain-pod", str(path), "-o", "json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["owner"] == expect["owner"]


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}}
    return {"kind": "Job", "metadata": {"name": "train"}, "spec": {"template": template, **spec}}


def test_a_number_that_is_none_is_said() -> None:
    for wrong in ("4", -1, True, 1.5):
        with pytest.raises(RequestError, match="parallelism: expected a whole number"):
            gang_of(job(parallelism=wrong), Rules())


def test_a_job_that_is_suspended_runs_nothing() -> None:
    assert gang_of(job(parallelism=0), Rules()) == ()


def test_leaf_cells_of_a_template_are_counted_as_those_of_a_pod() -> None:
    assert gang_of(job(parallelism=3), Rules(skus={"DUO": {"gpu": 2}})) == ((3, 2),)
    labelled = job(parallelism=3)
    labelled["spec"]["template"]["metadata"] = {"labels": {"paictl.io/leaf-cells": "7"}}
    assert gang_of(labelled, Rules()) == ((3, 7),)


def test_an_owner_of_another_namespace_or_name_is_another() -> None:
    pod = {"metadata": {"namespace": "b", "ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}}
    assert owner_of(pod, [job()]) is None
    there = job()
    there["metadata"]["namespace"] = "b"
    assert owner_of(pod, [job(), there]) is there
    assert owner_of({"metadata": {"namespace": "b"}}, [there]) is None
