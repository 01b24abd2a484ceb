"""When a job that has ended lets go of the cluster: nothing of it may still hold devices."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from paictl.cluster.kubernetes.paijob.names import ROLE, TASK, labels_of, work_name
from paictl.cluster.kubernetes.paijob.record import AttemptLine, JobRecord
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, WorkSummary, newest_of, read_pod, tries_of
from paictl.controller.deciding import OVERDUE, closed, follow, wanted
from paictl.controller.observation import JobObjects
from paictl.scheduler.decision import BindInfo, PodPlacement
from paictl.scheduler.wire import BIND_INFO, ISOLATION, bind_info_text
from paictl.units import from_unix
from paictl.workload.job import Job
from paictl.workload.lifecycle import JobStatus, RunState, TaskStatus

NOW = from_unix(1_795_000_000)
JOB = Job.from_mapping(
    {
        "protocolVersion": 2,
        "name": "j",
        "type": "job",
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "x"}],
        "taskRoles": {
            "r": {
                "instances": 1,
                "dockerImage": "i",
                "commands": ["true"],
                "resourcePerInstance": {"cpu": 1, "memoryMB": 1, "gpu": 1},
            }
        },
    }
)
ENDED = JobRecord(JobStatus(RunState.SUCCEEDED, (), 0, 0), {}, 0, NOW, NOW, 0, "")


def pod(phase: str, seconds: float | None) -> PodSummary:
    """A pod of the job, which has to be gone in so many seconds (None: it is not deleted)."""
    about: dict[str, Any] = {
        "name": "p",
        "uid": "u",
        "namespace": "jobs",
        "labels": labels_of("j", 0),
        "annotations": {ROLE: "r", TASK: "0"},
    }
    if seconds is not None:
        about["deletionTimestamp"] = (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = read_pod({"metadata": about, "spec": {}, "status": {"phase": phase}})
    assert found is not None
    return found


@pytest.mark.parametrize(("deleting", "missing"), [(False, ()), (True, ("r",))])
def test_a_role_whose_job_somebody_deletes_gets_another(deleting: bool, missing: tuple[str, ...]) -> None:
    begun = JobRecord(JobStatus(RunState.WAITING, (TaskStatus("r", 0),), 0, 0), {}, 0, NOW, NOW, 0, "")
    name = work_name("j", "r", 0)
    work = WorkSummary(name, "u", "j", "o", 0, "r", None, 0, False, False, deleting, False, 0, "", "")
    assert wanted(begun, JobObjects("j", JOB, begun.status, [work]), NOW).roles == missing


@pytest.mark.parametrize(("disturbed", "waits"), [(0, True), (1, False)])
def test_only_what_became_of_the_last_pods_says_whether_an_attempt_failed_by_itself(
    disturbed: int, waits: bool
) -> None:
    lines = tuple(AttemptLine(number, NOW, NOW, "exit code 1", {}) for number in range(3))
    record = JobRecord(JobStatus(RunState.WAITING, (TaskStatus("r", 0),), 3, 3), attempts=lines)
    tries = [replace(pod("Failed", None), attempt=2, retry=retry, uid=str(retry)) for retry in range(2)]
    tries[disturbed] = replace(tries[disturbed], disruption="DeletionByTaintManager")
    actions = wanted(record, JobObjects("j", JOB, record.status, pods=tries), NOW)
    assert (actions.roles, actions.later) == (((), 20.0) if waits else (("r",), None))


def test_of_a_try_that_was_begun_again_the_pod_counts_that_goes_on() -> None:
    ended = replace(pod("Failed", None), uid="a")
    running = replace(pod("Running", None), uid="b")
    later, before = replace(running, uid="c", retry=1), replace(running, uid="d", attempt=1)
    for pods in ([ended, running, later, before], [before, later, running, ended]):
        tries = tries_of(pods, 0)
        assert {retry: known.uid for retry, known in tries["r", 0].items()} == {0: "b", 1: "c"}
        assert len(tries) == 1
        assert newest_of(pods, 0)["r", 0].uid == "c"


def test_nobody_asks_the_api_server_about_what_it_has_just_said() -> None:
    runs = JobRecord(JobStatus(RunState.RUNNING, (TaskStatus("r", 0, RunState.RUNNING),)), started=NOW)
    told, asked = (JobObjects("j", JOB, runs.status, sure=sure) for sure in (False, True))
    assert follow(runs, told, NOW, stopped=False) is None
    lost = follow(runs, asked, NOW, stopped=False)
    assert lost is not None
    assert (lost.status.state, lost.status.attempt) == (RunState.WAITING, 1), "its pod was lost"
    stopped = follow(runs, told, NOW, stopped=True)
    assert stopped is not None
    assert stopped.status.state is RunState.STOPPED


@pytest.mark.parametrize("told", ["3,9", "0:3,1:2"])
def test_a_task_has_the_leaf_cells_of_its_pod_whatever_the_container_is_told(told: str) -> None:
    info = BindInfo("n", (3, 9), "NODE", ((PodPlacement("n", (3, 9), ("NODE",)),),))
    noted = {ROLE: "r", TASK: "0", ISOLATION: told, BIND_INFO: bind_info_text(info)}
    about = {"name": "p", "uid": "u", "labels": labels_of("j", 0), "annotations": noted}
    found = read_pod({"metadata": about, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}})
    assert found is not None
    assert found.devices == (3, 9)


@pytest.mark.parametrize(
    ("phase", "seconds", "open_"),
    [("Running", None, True), ("Running", 5, True), ("Succeeded", None, False), ("Pending", None, True)],
)
def test_a_job_is_closed_when_none_of_its_pods_holds_devices(phase: str, seconds: float | None, open_: bool) -> None:
    seen = JobObjects("j", JOB, ENDED.status, pods=[pod(phase, seconds)])
    asked = wanted(ENDED, seen, NOW)
    assert closed(ENDED, asked).closed is not open_


def test_the_next_look_is_after_the_pod_has_been_given_up() -> None:
    """A look at the very instant would find it not yet overdue, and nobody would look again."""
    seen = JobObjects("j", JOB, ENDED.status, pods=[pod("Running", 10)])
    later = wanted(ENDED, seen, NOW).later
    assert later is not None
    assert later > (timedelta(seconds=10) + OVERDUE).total_seconds()
    then = NOW + timedelta(seconds=later)
    assert closed(ENDED, wanted(ENDED, seen, then)).closed
