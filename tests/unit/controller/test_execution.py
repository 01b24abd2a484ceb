"""What the controller makes and takes away, and what somebody else has left behind or has already taken away."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import yaml

from paictl.cluster.kubernetes.paijob.summaries import INDEX
from paictl.controller.cache import WORKS
from paictl.controller.execution import LaterError
from paictl.remote.kube.client import Json, KubeError
from paictl.scheduler.wire import SCHEDULING_SPEC
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import JOBS, SPACE, Bench, FakeJobs
from tests.unit.controller.test_events import end_suspended, turn

TWO: Json = {"a": {"instances": 2}}


def begun(kube: FakeJobs, roles: Json, **more: Any) -> tuple[Bench, str]:
    """A job that has been looked at once, and the name of its object."""
    cluster(kube).submit([request(roles, **more)])
    bench = Bench(kube)
    bench.tell()
    bench.look()
    (name,) = (path.rpartition("/")[2] for path in kube.objects if path.startswith(f"{JOBS}/"))
    return bench, name


def refusing(kube: FakeJobs, method: str, path: str, status: int) -> Callable[[int], None]:
    """The API server's answer to requests that begin like this."""

    def answer(number: int) -> None:
        asked, where = kube.requests[number]
        if asked == method and where.startswith(path):
            raise KubeError("no", status=status)

    return answer


@pytest.mark.parametrize(("roles", "names"), [({"a": {}}, False), (TWO, True), ({"a": {}, "b": {}}, True)])
def test_tasks_that_are_not_alone_get_names(kube: FakeJobs, roles: Json, names: bool) -> None:
    _, name = begun(kube, roles)
    assert (f"{SPACE}/services/{name}" in kube.objects) is names


def test_what_a_job_of_the_same_name_has_left_behind_is_not_used(kube: FakeJobs) -> None:
    """Kubernetes deletes it a moment later: pods that had begun with it would wait for it for ever."""
    bench, name = begun(kube, TWO)
    left = kube.objects[f"{SPACE}/services/{name}"]
    left["metadata"]["ownerReferences"][0]["uid"] = "of the job before"
    for path in [path for path in kube.objects if path.startswith(f"{WORKS}/")]:
        del kube.objects[path]
    bench.tell()
    with pytest.raises(LaterError, match="belongs to another job of the same name"):
        bench.look()
    assert not [path for path in kube.objects if path.startswith(f"{WORKS}/")]
    del kube.objects[f"{SPACE}/services/{name}"]
    bench.look()
    assert [path for path in kube.objects if path.startswith(f"{WORKS}/")]


@pytest.mark.parametrize(("status", "raises"), [(404, False), (409, False), (403, True), (500, True)])
def test_a_job_whose_pods_somebody_else_has_taken_away_is_stopped(kube: FakeJobs, status: int, raises: bool) -> None:
    bench, _ = begun(kube, TWO)
    cluster(kube).stop_job("ann~job")
    bench.tell()
    kube.before = refusing(kube, "PATCH", f"{WORKS}/", status)
    if raises:
        with pytest.raises(KubeError):
            bench.look()
    else:
        bench.look()
    assert kube.requests[-1][0] == "PATCH"
    assert job(kube).state.value == "Stopped"


@pytest.mark.parametrize(("status", "raises"), [(404, False), (409, False), (403, True)])
def test_a_job_that_is_old_is_forgotten_unless_the_api_server_refuses(
    kube: FakeJobs, status: int, raises: bool
) -> None:
    bench, name = begun(kube, TWO)
    path = f"{JOBS}/{name}"
    cluster(kube).stop_job("ann~job")
    for _ in range(3):
        bench.tell()
        bench.look()
    bench.tell()
    bench.ahead = timedelta(days=1)
    assert bench.loop.sweep(2 * 86_400.0) == 0
    kube.before = refusing(kube, "DELETE", path, status)
    if raises:
        with pytest.raises(KubeError):
            bench.loop.sweep(3600.0)
    else:
        assert bench.loop.sweep(3600.0) == 1
    kube.before = lambda _: None
    assert bench.loop.sweep(3600.0) == 1
    assert path not in kube.objects


def test_a_task_that_is_retried_for_ever_asks_for_as_many_tries_as_kubernetes_knows(kube: FakeJobs) -> None:
    begun(kube, {"a": {"taskRetryCount": -2}}, gang=False)
    (work,) = (one for path, one in kube.objects.items() if path.startswith(f"{WORKS}/"))
    assert work["spec"]["backoffLimitPerIndex"] == 2**31 - 1


@pytest.mark.parametrize("gang", [True, False])
def test_what_begins_again_has_the_number_of_its_task_and_never_meets_its_own_past(kube: FakeJobs, gang: bool) -> None:
    cluster(kube).submit([request(TWO, gang=gang)])
    bench = Bench(kube)
    turn(kube, bench)
    (before,) = {group_of(pod) for pod in kube.live()} if gang else {""}
    kube.reject(max(pod["metadata"]["name"] for pod in kube.live()), "UnexpectedAdmissionError")
    bench.tell()
    bench.look()
    end_suspended(kube, gang=gang)
    bench.ahead += timedelta(minutes=5)
    turn(kube, bench)
    assert not gang or {group_of(pod) for pod in kube.live()} == {f"{before}#1"}
    numbers = [number_of(one) for path, one in kube.objects.items() if path.startswith(f"{WORKS}/")]
    field = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}}
    assert numbers == ([field, field] if gang else [field, {"value": "1"}])


def group_of(pod: Json) -> str:
    spec = yaml.safe_load(pod["metadata"]["annotations"][SCHEDULING_SPEC])
    return str(spec["affinityGroup"]["name"])


def number_of(work: Json) -> Json:
    """What a pod of a Job is told of which task of its role it is."""
    (entry,) = (
        entry
        for entry in work["spec"]["template"]["spec"]["containers"][0]["env"]
        if entry["name"] == "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"
    )
    return {name: value for name, value in entry.items() if name != "name"}


@pytest.mark.parametrize(("status", "later"), [(409, True), (404, True), (403, False)])
def test_another_client_that_was_faster_is_waited_for(kube: FakeJobs, status: int, later: bool) -> None:
    cluster(kube).submit([request({"a": {}})])
    bench = Bench(kube)
    bench.tell()
    kube.before = refusing(kube, "PUT", f"{JOBS}/", status)
    with pytest.raises(LaterError if later else KubeError):
        bench.look()
