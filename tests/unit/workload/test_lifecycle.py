"""The life of jobs, as stories in case files and as properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.workload.job import Job
from paictl.workload.lifecycle import JobStatus, PodChange, RunState, TaskRef, Transition, advance, stop, submit
from tests.unit.workload.cases import Json, cases, complete_job, load

LETTERS = {
    RunState.WAITING: "W",
    RunState.RUNNING: "R",
    RunState.SUCCEEDED: "S",
    RunState.FAILED: "F",
    RunState.STOPPED: "X",
}


def job_of(short: Json) -> Job:
    """A job from its short form in a case."""
    roles = {}
    for name, given_role in short["roles"].items():
        role = dict(given_role)
        completion = {key: role.pop(key) for key in ("minFailedInstances", "minSucceededInstances") if key in role}
        roles[name] = role | {"completion": completion}
    extras = {"gangAllocation": short.get("gangAllocation", True)}
    patch = {"taskRoles": roles, "jobRetryCount": short.get("jobRetryCount", 0), "extras": extras}
    return Job.from_mapping(complete_job(patch))


def ref(text: str) -> TaskRef:
    """``role/index.incarnation``"""
    role, _, rest = text.partition("/")
    index, _, incarnation = rest.partition(".")
    return TaskRef(role, int(index), int(incarnation))


def take(job: Job, status: JobStatus, do: str) -> Transition:
    if do == "stop":
        return stop(status)
    pod, what = do.split()
    return advance(job, status, ref(pod), PodChange(what))


@pytest.mark.parametrize("path", cases("lifecycle"), ids=lambda path: path.stem)
def test_lifecycle_case(path: Path) -> None:
    case = load(path)
    job = job_of(case["job"])
    first = submit(job)
    assert first.start == tuple(task.ref for task in first.status.tasks)
    status = first.status
    assert status.state is RunState.WAITING
    for number, wanted in enumerate(case["steps"]):
        step = take(job, status, wanted["do"])
        status = step.status
        where = f"step {number}: {wanted['do']}"
        assert "".join(LETTERS[task.state] for task in status.tasks) == wanted["tasks"], where
        assert status.state == wanted["job"], where
        assert list(step.kill) == [ref(text) for text in wanted.get("kill", [])], where
        assert list(step.start) == [ref(text) for text in wanted.get("start", [])], where
        assert status.attempt == wanted.get("attempt", status.attempt), where
        assert status.counted == wanted.get("counted", status.counted), where


def test_a_task_that_the_job_does_not_have_is_an_error() -> None:
    job = job_of({"roles": {"w": {"instances": 2}}})
    for pod in (TaskRef("w", 2, 0), TaskRef("x", 0, 0)):
        with pytest.raises(KeyError, match="has no task"):
            advance(job, submit(job).status, pod, PodChange.STARTED)


@given(st.data(), st.booleans(), st.integers(0, 2), st.integers(-2, 2))
def test_pods_started_and_killed_are_those_of_the_status(
    data: st.DataObject, gang: bool, job_retries: int, task_retries: int
) -> None:
    """Whatever happens, the pods that were started and have not ended are those of the tasks that live."""
    role = {"instances": 2, "taskRetryCount": task_retries}
    job = job_of({"roles": {"a": role, "b": role}, "gangAllocation": gang, "jobRetryCount": job_retries})
    step = submit(job)
    status, alive, known = step.status, set(step.start), set(step.start)
    for _ in range(data.draw(st.integers(0, 25))):
        pod = data.draw(st.sampled_from(sorted(known, key=repr)))
        what = data.draw(st.sampled_from(list(PodChange)))
        before, step = status, advance(job, status, pod, what)
        status = step.status
        if step == Transition(before):
            continue
        assert pod in alive, "a pod that has ended changes nothing"
        if what is not PodChange.STARTED:
            alive.remove(pod)
        assert alive.issuperset(step.kill)
        assert known.isdisjoint(step.start), "no pod is started twice"
        alive = (alive - set(step.kill)) | set(step.start)
        known |= set(step.start)
        assert alive == {task.ref for task in status.tasks if not task.state.final}
        assert status.state.final == (not alive)
        assert status.counted <= job_retries


@given(st.lists(st.sampled_from([PodChange.PREEMPTED, PodChange.LOST]), max_size=20), st.booleans())
def test_preemption_never_ends_a_job(happenings: list[PodChange], gang: bool) -> None:
    job = job_of({"roles": {"w": {}}, "gangAllocation": gang})
    step = submit(job)
    for what in happenings:
        step = advance(job, step.status, step.start[0], what)
        assert step.status.state is not RunState.FAILED
        assert step.status.counted == step.status.tasks[0].counted == 0
    assert step.status.tasks[0].incarnation == len(happenings)


def member_job(restart: str, **roles: Json) -> Job:
    patch = {"taskRoles": roles or {"r": {"instances": 3}}, "extras": {"restart": restart}, "jobRetryCount": 1}
    return Job.from_mapping(complete_job(patch))


def running(job: Job) -> JobStatus:
    status = submit(job).status
    for task in status.tasks:
        status = advance(job, status, task.ref, PodChange.STARTED).status
    return status


def test_a_lost_member_starts_again_alone() -> None:
    job = member_job("member")
    step = advance(job, running(job), TaskRef("r", 1, 0), PodChange.LOST)
    assert (step.kill, step.start) == ((), (TaskRef("r", 1, 1),))
    assert (step.status.attempt, step.status.state, step.status.counted) == (0, RunState.RUNNING, 0)
    assert [(task.state, task.retries, task.counted) for task in step.status.tasks] == [
        (RunState.RUNNING, 0, 0),
        (RunState.WAITING, 1, 0),
        (RunState.RUNNING, 0, 0),
    ]


@pytest.mark.parametrize(
    ("restart", "what"),
    [
        ("member", PodChange.PREEMPTED),
        ("member", PodChange.FAILED),
        ("gang", PodChange.LOST),
    ],
)
def test_everything_else_takes_the_whole_gang(restart: str, what: PodChange) -> None:
    job = member_job(restart)
    step = advance(job, running(job), TaskRef("r", 1, 0), what)
    assert step.status.attempt == 1
    assert step.start == tuple(TaskRef("r", index, 1) for index in range(3))


def test_a_member_may_be_lost_as_often_as_it_likes() -> None:
    job = member_job("member")
    status = running(job)
    for number in range(40):
        status = advance(job, status, TaskRef("r", 0, number), PodChange.LOST).status
        status = advance(job, status, TaskRef("r", 0, number + 1), PodChange.STARTED).status
    assert (status.attempt, status.tasks[0].retries, status.tasks[1].incarnation) == (0, 40, 0)


def test_without_a_gang_the_word_changes_nothing() -> None:
    patch: Json = {"taskRoles": {"r": {"instances": 3}}, "extras": {"restart": "member", "gangAllocation": False}}
    job = Job.from_mapping(complete_job(patch))
    assert not job.repairs
