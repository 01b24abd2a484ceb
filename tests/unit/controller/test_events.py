"""What the controller writes down of an attempt that is over, and the events that are made of it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from paictl.cluster.attempts import attempts_of
from paictl.cluster.interface import JobState
from paictl.units import rfc3339
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import Bench, FakeJobs


def turn(kube: FakeJobs, bench: Bench, times: int = 4) -> None:
    """The controller and the cluster go on for a while, and no pod ends by itself."""
    for _ in range(times):
        bench.tell()
        bench.look()
        kube.run(random.Random(3), {"a": None})  # noqa: S311 - not for secrets


def preempted(kube: FakeJobs, instances: int) -> list[str]:
    """What is told of a job of which one pod was evicted for another's group, as soon as it runs again."""
    cluster(kube).submit([request({"a": {"instances": instances}})])
    bench = Bench(kube)
    turn(kube, bench)
    victim = min(pod["metadata"]["name"] for pod in kube.live())
    path = next(path for path in kube.objects if path.endswith(f"/pods/{victim}"))
    kube.objects[path]["metadata"]["annotations"]["paictl.io/preempted-for"] = "bob~high/default"
    kube.disturb(victim)
    bench.tell()
    bench.look()
    for pod in kube.live():  # Kubernetes ends those whose Job is suspended
        kube.objects.pop(next(path for path in kube.objects if path.endswith(f"/pods/{pod['metadata']['name']}")))
    turn(kube, bench)
    assert (job(kube).attempt, job(kube).preemptions) == (1, 1)
    return [
        f"{one.kind} {one.data.get('index', '')} {one.data.get('by', '')}".strip()
        for one in cluster(kube).events("job/ann~job")
    ]


def test_who_was_preempted_by_whom_and_who_had_to_start_again_with_it(kube: FakeJobs) -> None:
    told = preempted(kube, 2)
    assert sorted(told) == sorted(
        ["Submitted", "Started 0", "Started 1", "Preempted 0 bob~high", "Killed 1", "Retried", "Started 0", "Started 1"]
    )


def test_of_more_tasks_than_are_kept_it_is_told_that_they_start_again(
    kube: FakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.controller.deciding.KEPT_TASKS", 1)
    assert sorted(preempted(kube, 2)) == sorted(["Submitted", "Retried", "Started 0", "Started 1"])


def end_suspended(kube: FakeJobs, *, gang: bool) -> None:
    """Kubernetes ends the pods of Jobs that are suspended: of a gang all, when one has failed."""
    for pod in kube.live() if gang else ():
        kube.objects.pop(next(path for path in kube.objects if path.endswith(f"/pods/{pod['metadata']['name']}")))


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity", "UnexpectedAdmissionError"])
@pytest.mark.parametrize("gang", [True, False])
def test_a_pod_that_the_kubelet_rejects_is_tried_again_free_of_charge(kube: FakeJobs, reason: str, gang: bool) -> None:
    cluster(kube).submit([request({"a": {"instances": 2}}, gang=gang)])
    bench = Bench(kube)
    for _ in range(3):  # more often than any retry count allows
        turn(kube, bench)
        kube.reject(min(pod["metadata"]["name"] for pod in kube.live()), reason)
        bench.tell()
        bench.look()
        end_suspended(kube, gang=gang)
        bench.ahead += timedelta(minutes=5)
    turn(kube, bench)
    assert job(kube).state is JobState.RUNNING
    assert len(kube.live()) == 2
    assert any(reason in str(one.data) for one in cluster(kube).events("job/ann~job")) or not gang


CANCELED = "failed to create containerd task: failed to create shim task: context canceled"


@pytest.mark.parametrize("gang", [True, False])
@pytest.mark.parametrize(
    ("reason", "message", "state"),
    [
        ("StartError", CANCELED, JobState.RUNNING),
        ("StartError", 'failed to create shim task: exec: "trian.py": not found', JobState.FAILED),
        ("StartError", 'runc: chdir to cwd ("/a: context canceled") failed: no such directory', JobState.FAILED),
        ("Error", CANCELED, JobState.FAILED),  # what a program has written into its termination message
    ],
)
def test_a_pod_whose_kubelet_died_while_it_started_is_tried_again_free_of_charge(
    kube: FakeJobs, gang: bool, reason: str, message: str, state: JobState
) -> None:
    cluster(kube).submit([request({"a": {"instances": 2}}, gang=gang)])
    bench = Bench(kube)
    turn(kube, bench)
    victim = min(pod["metadata"]["name"] for pod in kube.live())
    kube.reject(victim, "")
    path = next(path for path in kube.objects if path.endswith(f"/pods/{victim}"))
    ended = {"exitCode": 128, "reason": reason, "message": message, "finishedAt": rfc3339(datetime.now(UTC))}
    kube.objects[path]["status"]["containerStatuses"] = [{"state": {"terminated": ended}}]
    bench.tell()
    bench.look()
    end_suspended(kube, gang=gang)
    bench.ahead += timedelta(minutes=5)
    turn(kube, bench)
    assert job(kube).state is state


@pytest.mark.parametrize("gang", [True, False])
def test_a_rejected_pod_is_made_again_after_a_pause_that_grows(kube: FakeJobs, gang: bool) -> None:
    cluster(kube).submit([request({"a": {"instances": 2}}, gang=gang)])
    bench = Bench(kube)
    kube.clock = lambda: rfc3339(datetime.now(UTC) + bench.ahead)
    turn(kube, bench)
    pauses = []
    for _ in range(4):
        victim = min(pod["metadata"]["name"] for pod in kube.live())
        kube.reject(victim, "UnexpectedAdmissionError")
        bench.tell()
        bench.look()
        end_suspended(kube, gang=gang)
        begun = bench.ahead
        while len(kube.live()) < 2:
            bench.ahead += timedelta(seconds=5)
            turn(kube, bench, times=2)
        pauses.append((bench.ahead - begun).total_seconds())
    assert [10 <= pauses[0] <= 20, 20 <= pauses[1] <= 30, 40 <= pauses[2] <= 50, 80 <= pauses[3] <= 90] == [True] * 4


def ends_again(kube: FakeJobs, bench: Bench, code: int, lasts: timedelta) -> float:
    """The pod runs for a while and ends; seconds until the next one is there."""
    turn(kube, bench)
    (pod,) = kube.live()
    bench.ahead += lasts
    path = next(path for path in kube.objects if path.endswith(f"/pods/{pod['metadata']['name']}"))
    ended = {"exitCode": code, "reason": "Error", "finishedAt": rfc3339(datetime.now(UTC) + bench.ahead)}
    kube.objects[path]["status"] |= {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"state": {"terminated": ended}}],
    }
    begun = bench.ahead
    turn(kube, bench, times=6)
    while not kube.live():
        bench.ahead += timedelta(seconds=5)
        turn(kube, bench, times=2)
    return (bench.ahead - begun).total_seconds()


@pytest.mark.parametrize("kind", ["fails", "ends"])
def test_what_always_ends_at_once_starts_again_ever_less_often(kube: FakeJobs, kind: str) -> None:
    role, code = ({"taskRetryCount": -2}, 0) if kind == "ends" else ({}, 1)
    options = {"gang": False} if kind == "ends" else {"jobRetryCount": 1_000_000}
    cluster(kube).submit([request({"a": role}, **options)])
    bench = Bench(kube)
    kube.clock = lambda: rfc3339(datetime.now(UTC) + bench.ahead)
    soon, late = timedelta(seconds=1), timedelta(minutes=11)
    pauses = [ends_again(kube, bench, code, soon) for _ in range(9)]
    assert pauses[0] == 0
    assert [10 <= pauses[1] <= 20, 20 <= pauses[2] <= 30, 40 <= pauses[3] <= 50] == [True] * 3
    assert all(290 <= pause <= 310 for pause in pauses[6:])
    assert ends_again(kube, bench, code, late) == 0
    assert (ends_again(kube, bench, code, soon) == 0) is (kind == "fails")


def test_a_gang_that_was_preempted_again_and_again_starts_without_a_pause(kube: FakeJobs) -> None:
    cluster(kube).submit([request({"a": {}})])
    bench = Bench(kube)
    for _ in range(4):
        turn(kube, bench)
        kube.disturb(next(pod["metadata"]["name"] for pod in kube.live()))
    turn(kube, bench)
    assert (len(kube.live()), job(kube).attempt) == (1, 4)


def test_a_pod_that_ran_and_failed_counts_whatever_its_reason_is(kube: FakeJobs) -> None:
    cluster(kube).submit([request({"a": {}})])
    bench = Bench(kube)
    turn(kube, bench)
    (victim,) = kube.live()
    kube.reject(victim["metadata"]["name"], "OutOfcpu")
    path = next(path for path in kube.objects if path.endswith(f"/pods/{victim['metadata']['name']}"))
    kube.objects[path]["status"]["containerStatuses"] = [{"state": {"terminated": {"exitCode": 3}}}]
    bench.tell()
    bench.look()
    assert job(kube).state is JobState.FAILED


def test_of_a_job_that_was_retried_each_attempt_is_known_with_its_exit_code(kube: FakeJobs) -> None:
    cluster(kube).submit([request({"a": {}}, jobRetryCount=2)])
    bench = Bench(kube)
    for code in (3, 137, 5):
        turn(kube, bench)
        (victim,) = kube.live()
        kube.reject(victim["metadata"]["name"], "Error")
        path = next(path for path in kube.objects if path.endswith(f"/pods/{victim['metadata']['name']}"))
        kube.objects[path]["status"]["containerStatuses"] = [{"state": {"terminated": {"exitCode": code}}}]
        bench.tell()
        bench.look()
    turn(kube, bench)
    found = attempts_of(job(kube), cluster(kube).events("job/ann~job"))
    assert [(one.number, one.outcome, one.exit_code) for one in found] == [
        (0, "failed", 3),
        (1, "failed", 137),
        (2, "failed", 5),
    ]
    assert all(one.ended is not None for one in found)


def test_a_gang_that_failed_once_starts_at_once_however_often_it_was_preempted(kube: FakeJobs) -> None:
    cluster(kube).submit([request({"a": {}}, jobRetryCount=5)])
    bench = Bench(kube)
    kube.clock = lambda: rfc3339(datetime.now(UTC) + bench.ahead)
    for _ in range(4):
        turn(kube, bench)
        kube.disturb(next(pod["metadata"]["name"] for pod in kube.live()))
    assert ends_again(kube, bench, 1, timedelta(seconds=1)) == 0


def test_a_preempted_gang_starts_at_once_although_others_of_its_pods_failed_for_it(kube: FakeJobs) -> None:
    """Whoever loses a peer often fails before it is deleted."""
    cluster(kube).submit([request({"a": {"instances": 2}}, jobRetryCount=9)])
    bench = Bench(kube)
    kube.clock = lambda: rfc3339(datetime.now(UTC) + bench.ahead)
    for code in (1, 1, None):
        bench.ahead += timedelta(minutes=5)
        turn(kube, bench)
        first, second = sorted(pod["metadata"]["name"] for pod in kube.live())
        if code is None:
            kube.disturb(first)
        fail(kube, bench, second)
        bench.tell()
        bench.look()
        end_suspended(kube, gang=True)
    turn(kube, bench)
    assert (len(kube.live()), job(kube).attempt) == (2, 3)


def fail(kube: FakeJobs, bench: Bench, name: str) -> None:
    """A pod ends with an error."""
    path = next(path for path in kube.objects if path.endswith(f"/pods/{name}"))
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": rfc3339(datetime.now(UTC) + bench.ahead)}
    kube.objects[path]["status"] |= {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}


def test_a_lost_member_is_replaced_at_once_however_often_it_was(kube: FakeJobs) -> None:
    cluster(kube).submit([request({"a": {"instances": 2}}, extras={"gangAllocation": True, "restart": "member"})])
    bench = Bench(kube)
    kube.clock = lambda: rfc3339(datetime.now(UTC) + bench.ahead)
    for _ in range(4):
        turn(kube, bench)
        victim = max(pod["metadata"]["name"] for pod in kube.live())
        kube.disturb(victim)
        path = next(path for path in kube.objects if path.endswith(f"/pods/{victim}"))
        kube.objects[path]["status"]["conditions"][0] |= {
            "reason": "DeletionByTaintManager",
            "lastTransitionTime": kube.clock(),
        }
        turn(kube, bench)
        assert len(kube.live()) == 2
    assert job(kube).attempt == 0
