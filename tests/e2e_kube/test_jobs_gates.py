"""Jobs through the gates door: the placer beside a stock kube-scheduler, and what a change of the door does to them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from paictl.cluster.interface import Cluster
from paictl.scheduler.wire import ENABLE
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.jobrig import SPACE, JobRig, opened, rack_of_jobs, request, role
from tests.e2e_kube.kubeapi import KubeApi, devices, until
from tests.e2e_kube.test_jobs import PATIENCE, awaited, excluded, runs


@pytest.fixture(scope="module")
def jobs(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    with rack_of_jobs(plane, api, tmp_path_factory.mktemp("jobs-gates"), gates=True) as made:
        yield made


@pytest.fixture
def cluster(jobs: JobRig) -> Iterator[Cluster]:
    yield opened(jobs.plane)
    jobs.forget_jobs()


def held(api: KubeApi) -> list[tuple[str, int]]:
    """The devices of all pods of jobs that have a node and go on."""
    pods = [pod for pod in api.pods(SPACE) if pod["spec"].get("nodeName")]
    pods = [pod for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    return [(pod["spec"]["nodeName"], device) for pod in pods for device in devices(pod)]


def test_a_gang_runs_on_a_stock_kube_scheduler(cluster: Cluster, api: KubeApi) -> None:
    cluster.submit([request("gang", {"ps": role(1), "worker": role(4, 2)})])
    job = awaited(cluster, "ann~gang", runs)
    assert (job.devices, job.used) == (9, 9)
    pods = api.pods(SPACE)
    assert {pod["spec"]["schedulerName"] for pod in pods} == {"default-scheduler"}
    assert not any(
        ENABLE in (box["resources"].get("limits") or {}) for pod in pods for box in pod["spec"]["containers"]
    )
    assert sorted(held(api)) == sorted((task.node, device) for task in job.tasks for device in task.devices)
    assert len(set(held(api))) == 9


def test_a_vc_gets_back_what_is_lent(cluster: Cluster, api: KubeApi) -> None:
    cluster.submit([request("lent", {"worker": role(4, 8)}, vc="B", priority="oppo", gang=False)])
    awaited(cluster, "ann~lent", runs)
    cluster.submit([request("own", {"worker": role(4, 4)}, priority="prod")])
    awaited(cluster, "ann~own", runs)
    assert len(set(held(api))) == len(held(api))


def test_a_job_that_no_node_lets_in_is_not_said_to_run_now(cluster: Cluster, api: KubeApi) -> None:
    """kube-scheduler is never asked about it: the placer keeps its gate."""
    excluded(cluster, api, "no node accepts its pods: the pod does not tolerate its taint mine:NoSchedule (8)")


def test_a_job_that_waits_at_another_door_is_made_again(jobs: JobRig, cluster: Cluster, api: KubeApi) -> None:
    jobs.plane.programs["controller"].stop()
    jobs.start_controller("--door", "extender")
    cluster.submit([request("moved", {"ps": role(1), "worker": role(2, 2)})])
    until(lambda: len(api.pods(SPACE)) == 3, PATIENCE, lambda: str(jobs.works()))
    assert {pod["spec"]["schedulerName"] for pod in api.pods(SPACE)} == {"hivedscheduler"}
    jobs.plane.programs["controller"].stop()
    jobs.start_controller("--door", "gates")
    job = awaited(cluster, "ann~moved", runs)
    assert {task.attempt for task in job.tasks} == {0}, "it has not failed, so no try is used up"
    kept = {task.pod for task in job.tasks}
    jobs.plane.programs["controller"].stop()
    jobs.start_controller("--door", "extender")
    until(lambda: len(jobs.works()) == 2, PATIENCE, "its Jobs are there")
    assert {task.pod for task in awaited(cluster, "ann~moved", runs).tasks} == kept, "what runs goes on"
    jobs.plane.programs["controller"].stop()
    jobs.start_controller("--door", "gates")
