"""A change of the scheduler's door: Waiting jobs are made again, what runs goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from paictl.cluster.kubernetes.jobs import PODS
from paictl.cluster.kubernetes.paijob.names import RETRY, TASK
from paictl.cluster.kubernetes.paijob.summaries import INDEX
from paictl.controller.cache import WORKS
from paictl.remote.kube.client import Json
from paictl.scheduler.wire import ENABLE, GATE
from tests.unit.controller.conftest import cluster, request
from tests.unit.controller.fakejobs import Bench, FakeJobs

ROLES = {"ps": {}, "worker": {"instances": 2}}


def works(kube: FakeJobs) -> dict[str, Json]:
    """The Jobs by role."""
    found = [one for path, one in kube.objects.items() if path.startswith(f"{WORKS}/")]
    return {one["metadata"]["annotations"]["paictl.io/role"]: one for one in found}


def begin(kube: FakeJobs, placed: Callable[[Json], bool], *, gang: bool, gated: bool) -> dict[str, str]:
    """A job at one door, of which the pods for which `placed` holds have a node; the uids of its Jobs by role."""
    cluster(kube).submit([request(ROLES, gang=gang)])
    bench = Bench(kube)
    bench.loop.gated = gated
    bench.tell()
    bench.look()
    for work in works(kube).values():
        kube._control(work)
    for pod in kube.pods():
        if not placed(pod):
            del pod["spec"]["nodeName"]
    return {role: work["metadata"]["uid"] for role, work in works(kube).items()}


def change_door(kube: FakeJobs, *, gated: bool) -> None:
    """Another controller, for the other door, looks until it has made what it deletes; Kubernetes deletes the pods."""
    bench = Bench(kube)
    bench.loop.gated = gated
    for _ in range(3):
        bench.tell()
        bench.look()
        here = {work["metadata"]["uid"] for work in works(kube).values()}
        for pod in list(kube.pods()):
            if pod["metadata"]["ownerReferences"][0]["uid"] not in here:
                del kube.objects[f"{PODS}/{pod['metadata']['name']}"]


def role_of(pod: Json) -> str:
    return str(pod["metadata"]["annotations"]["paictl.io/role"])


def is_gated(work: Json) -> bool:
    """Whether a Job is all for the gate; otherwise it is all for the extender."""
    spec = work["spec"]["template"]["spec"]
    gated = spec.get("schedulingGates") == [{"name": GATE}]
    assert ("schedulerName" not in spec) is gated
    assert (ENABLE not in spec["containers"][0]["resources"]["limits"]) is gated
    return gated


@pytest.mark.parametrize("gated", [True, False])
@pytest.mark.parametrize("gang", [True, False])
def test_a_job_that_waits_is_made_again(kube: FakeJobs, gang: bool, gated: bool) -> None:
    before = begin(kube, lambda _: False, gang=gang, gated=not gated)
    assert {is_gated(work) for work in works(kube).values()} == {not gated}
    change_door(kube, gated=gated)
    after = {role: work["metadata"]["uid"] for role, work in works(kube).items()}
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert {is_gated(work) for work in works(kube).values()} == {gated}


def test_it_is_left_alone_at_the_same_door(kube: FakeJobs) -> None:
    before = begin(kube, lambda _: False, gang=True, gated=True)
    change_door(kube, gated=True)
    assert {role: work["metadata"]["uid"] for role, work in works(kube).items()} == before


def test_a_gang_of_which_one_pod_has_its_node_is_left_whole(kube: FakeJobs) -> None:
    before = begin(kube, lambda pod: role_of(pod) == "ps", gang=True, gated=False)
    change_door(kube, gated=True)
    assert {role: work["metadata"]["uid"] for role, work in works(kube).items()} == before


def test_without_a_gang_only_the_roles_that_wait_are_made_again(kube: FakeJobs) -> None:
    before = begin(kube, lambda pod: role_of(pod) == "ps", gang=False, gated=False)
    change_door(kube, gated=True)
    after = {role: work["metadata"]["uid"] for role, work in works(kube).items()}
    assert after["ps"] == before["ps"]
    assert after["worker"] != before["worker"]
    assert is_gated(works(kube)["worker"])


@pytest.mark.parametrize(("index", "stays"), [("0", True), ("1", False)])
def test_of_a_single_task_its_own_pod_decides(kube: FakeJobs, index: str, stays: bool) -> None:
    """Other tasks of its role may run."""
    begin(kube, lambda pod: pod["metadata"]["annotations"][INDEX] == "0", gang=False, gated=False)
    single = copy.deepcopy(works(kube)["worker"])
    single["metadata"]["name"] += f"-{index}r1"
    single["metadata"]["annotations"] |= {TASK: index, RETRY: "1"}
    path = f"{WORKS}/{single['metadata']['name']}"
    kube.objects[path] = single
    change_door(kube, gated=True)
    assert (path in kube.objects) is stays
