"""Jobs on Kubernetes: an error of the API server is what its user hears, unless it says that something is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paictl.cluster.kubernetes.jobs import JobStore
from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.kubernetes.paijob.names import object_name, paijobs_path
from paictl.cluster.values import ClusterError
from paictl.errors import PaictlError
from paictl.remote.kube.client import KubeError
from tests.unit.cluster.fakekube import FakeKube
from tests.unit.cluster.test_kubernetes_tags import KEY, paijob
from tests.unit.controller.conftest import cluster, request
from tests.unit.controller.conftest import kube as kube
from tests.unit.controller.fakejobs import FakeJobs

PATH = paijobs_path(object_name(KEY))
LOOKS: dict[str, Callable[[FakeJobs], object]] = {
    "submit": lambda kube: cluster(kube).submit([request({"a": {"instances": 1}})]),
    "stop": lambda kube: JobStore(kube).stop(KEY),
    "tag": lambda kube: JobStore(kube).tag(KEY, ["best"], []),
    "list": lambda kube: JobStore(kube).jobs(ended=True),
    "show": lambda kube: JobStore(kube).job(KEY),
}


def failing(kube: FakeKube, verbs: tuple[str, ...], *statuses: int) -> None:
    """Have requests about jobs answered with an error: one after the other, and the last one from then on."""
    pristine: Any = kube._done
    left = list(statuses)

    def answer(method: str, path: str, body: Any, query: dict[str, object]) -> Any:
        if method in verbs and path.startswith(paijobs_path()):
            raise KubeError("the API server says no", status=left.pop(0) if len(left) > 1 else left[0])
        return pristine(method, path, body, query)

    kube._done = answer  # type: ignore[method-assign]


@pytest.mark.parametrize("status", [400, 403, 409, 500])
@pytest.mark.parametrize("what", LOOKS)
def test_an_error_that_says_nothing_of_what_is_there_is_handed_on(kube: FakeJobs, what: str, status: int) -> None:
    kube.objects[PATH] = paijob()
    writing = {"submit": ("POST",), "stop": ("PATCH",), "tag": ("PATCH",)}
    if status == 409 and what in ("submit", "tag"):
        return  # a conflict, which has its own answer
    failing(kube, writing.get(what, ("GET",)), status)
    with pytest.raises(PaictlError, match="the API server says no"):
        LOOKS[what](kube)


def test_without_the_kind_there_are_no_jobs_and_none_can_be_made(kube: FakeJobs) -> None:
    failing(kube, ("GET", "POST", "PATCH"), 404)
    assert JobStore(kube).jobs(ended=True) == []
    assert cluster(kube).jobs(ended=True) == []
    with pytest.raises(ClusterError, match="cannot run jobs yet"):
        LOOKS["submit"](kube)
    assert f"/api/v1/namespaces/{JOBS_NAMESPACE}" in kube.objects


def test_a_job_that_goes_while_it_is_stopped_is_said_to_be_gone(kube: FakeJobs) -> None:
    kube.objects[PATH] = paijob()
    failing(kube, ("PATCH",), 404)
    with pytest.raises(ClusterError, match="no job"):
        LOOKS["stop"](kube)


@pytest.mark.parametrize("status", [400, 403, 500])
def test_an_error_once_the_namespace_is_there_is_handed_on(kube: FakeJobs, status: int) -> None:
    failing(kube, ("POST",), 404, status)
    with pytest.raises(PaictlError, match="the API server says no"):
        LOOKS["submit"](kube)
