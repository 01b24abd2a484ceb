"""Tags and job templates on Kubernetes: what is written, and what happens when somebody else was faster."""

from __future__ import annotations

from typing import Any

import pytest

from paictl.cluster.interface import ConflictError
from paictl.cluster.kubernetes.jobs import JobStore
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAMESPACE
from paictl.cluster.kubernetes.paijob.names import TAGS, object_name, paijobs_path
from paictl.cluster.kubernetes.paijob.resource import read_paijob
from paictl.cluster.kubernetes.storages import TemplateStore
from paictl.cluster.templates import JobTemplate, TemplateLibrary
from tests.unit.cluster.fakekube import FakeKube

KEY = "ann~one"
PATH = paijobs_path(object_name(KEY))


def paijob(**noted: str) -> dict[str, Any]:
    return {
        "metadata": {
            "name": object_name(KEY),
            "namespace": JOBS_NAMESPACE,
            "resourceVersion": "1",
            "annotations": noted,
        },
        "spec": {"user": "ann", "job": {"name": "one", "extras": {"tags": ["paper", "a b", 7]}}},
    }


def test_tags_are_those_of_the_file_until_they_are_changed_and_odd_ones_are_left_out() -> None:
    assert read_paijob(paijob()).tags == ("paper",)
    assert read_paijob(paijob(**{TAGS: "x,a b,,y,x"})).tags == ("x", "y")
    assert read_paijob(paijob(**{TAGS: ""})).tags == ()


def test_a_change_is_made_over_what_another_has_written_meanwhile() -> None:
    kube = FakeKube({PATH: paijob()})
    faster = [2, 4]

    def before(number: int) -> None:
        if number + 1 in faster:  # between reading and writing
            about = kube.objects[PATH]["metadata"]
            about["resourceVersion"] = str(int(about["resourceVersion"]) + 1)
            about["annotations"][TAGS] = f"paper,other{number}"

    kube.before = before
    assert JobStore(kube).tag(KEY, ["best"], ["paper"]) == ("other3", "best")
    assert kube.objects[PATH]["metadata"]["annotations"][TAGS] == "other3,best"
    kube.before = lambda _: kube.objects[PATH]["metadata"].update(resourceVersion=str(len(kube.requests)))
    with pytest.raises(ConflictError):
        JobStore(kube).tag(KEY, ["never"], [])
    assert "never" not in kube.objects[PATH]["metadata"]["annotations"][TAGS]


def test_a_library_is_one_object_and_is_written_over_the_version_that_was_read() -> None:
    space = f"/api/v1/namespaces/{NAMESPACE}"
    kube = FakeKube({space: {"metadata": {"name": NAMESPACE, "creationTimestamp": "2026-01-01T00:00:00Z"}}})
    library = TemplateLibrary("vision", ("vc1",), (JobTemplate("a/b.yaml", "name: 实验\n", "b"),), "abc")
    store = TemplateStore(kube)
    store.put(library, new=True)
    with pytest.raises(ConflictError):
        TemplateStore(kube.again()).put(library, new=True)
    changed = TemplateLibrary("vision", ("*",), library.templates)
    store.put(changed, new=False)
    assert TemplateStore(kube.again()).read() == (changed,)
    assert [path for path in kube.objects if "templates" in path] == [f"{space}/configmaps/paictl-templates-vision"]
    store.remove("vision")
    assert store.read() == ()
