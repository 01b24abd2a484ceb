"""Whose Secret a job may read."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from paictl.cluster.interface import JobState
from paictl.remote.kube.client import Json
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import JOBS, SPACE, FakeJobs
from tests.unit.controller.test_mounts import run_controller

SECRETS = f"{SPACE}/secrets"
HERS = "hers-1234"


def submitted(kube: FakeJobs, name: str, **more: Any) -> Json:
    """The `PaiJob` of a job that prints a secret; no controller has seen it."""
    before = set(kube.objects)
    cluster(kube).submit([request({"worker": {"commands": ["echo <% $secrets.word %>"]}}, name, **more)])
    (path,) = [path for path in set(kube.objects) - before if path.startswith(f"{JOBS}/")]
    return kube.objects[path]


def scripts(kube: FakeJobs) -> str:
    """What all jobs run."""
    found = [one["data"] for path, one in kube.objects.items() if path.startswith(SECRETS) and "-scripts-" in path]
    return "\n".join(base64.b64decode(value).decode() for data in found for value in data.values())


@pytest.mark.parametrize("adopted", [True, False])
def test_a_job_that_names_the_secret_of_another_fails(kube: FakeJobs, adopted: bool) -> None:
    hers = submitted(kube, "hers", secrets={"word": HERS})
    if adopted:
        run_controller(kube)
    his = submitted(kube, "his")
    his["spec"]["secretName"] = hers["spec"]["secretName"]
    if not adopted:
        del kube.objects[f"{JOBS}/{hers['metadata']['name']}"]
    run_controller(kube)
    assert job(kube, "ann~his").state is JobState.FAILED
    assert "does not belong to this job" in job(kube, "ann~his").reason
    assert scripts(kube).count(HERS) == (1 if adopted else 0)


@pytest.mark.parametrize(
    ("labels", "state"),
    [
        ({"app.kubernetes.io/part-of": "paictl", "app.kubernetes.io/name": "storage"}, JobState.FAILED),
        ({"team": "vision"}, JobState.WAITING),
        ({}, JobState.WAITING),
    ],
)
def test_a_secret_made_by_hand_becomes_the_job_s_but_none_of_paictl(
    kube: FakeJobs, labels: dict[str, str], state: JobState
) -> None:
    path = f"{SECRETS}/by-hand"
    data = {"word": base64.b64encode(b"mine-5678").decode()}
    kube.objects[path] = {"metadata": {"name": "by-hand", "labels": labels, "resourceVersion": "1"}, "data": data}
    made = submitted(kube, "mine")
    made["spec"]["secretName"] = "by-hand"
    run_controller(kube)
    assert job(kube, "ann~mine").state is state
    owners = kube.objects[path]["metadata"].get("ownerReferences") or []
    taken = state is not JobState.FAILED
    assert [one["uid"] for one in owners] == ([made["metadata"]["uid"]] if taken else [])
    assert ("mine-5678" in scripts(kube)) == taken
