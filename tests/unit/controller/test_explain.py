"""`job explain` of a job for which cells are free, and which kube-scheduler does not take."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from paictl.cluster.jobwords import refuse_many_tasks
from paictl.cluster.kubernetes.paijob.summaries import read_pod
from paictl.cluster.kubernetes.scheduling import ClusterSnapshot, explain_job
from paictl.cluster.kubernetes.submitting import JobTaker
from paictl.cluster.presets import preset_files
from paictl.cluster.scheduling import JobExplanation, JobSituation, LatestStart
from paictl.cluster.values import ClusterError
from paictl.i18n import translated
from paictl.operate import explaining
from paictl.remote.kube.client import Json, KubeError
from paictl.scheduler.wire import GATE
from paictl.units import Millis
from paictl.workload.windows import Windows
from tests.unit.controller.conftest import cluster, request
from tests.unit.controller.fakejobs import Bench, FakeJobs
from tests.unit.controller.test_events import turn

LACKING = "0/6 nodes are available: 6 Insufficient rdma/hca."


def _waiting(kube: FakeJobs) -> tuple[Any, Any, Json]:
    """A job whose only pod is not bound: the job, the configuration, the pod."""
    cluster(kube).submit([request({"a": {}})])
    turn(kube, Bench(kube), 1)
    (pod,) = kube.live()
    pod["spec"].pop("nodeName")
    looker = cluster(kube)._looker
    return looker._jobs.find("ann~job"), looker._configuration(), pod


@pytest.mark.parametrize(
    ("message", "situation"),
    [
        (LACKING, JobSituation.NOT_OFFERED),
        ("", JobSituation.NO_ROOM),
        ("0/6 nodes are available: 6 pod waits: insufficient capacity in VC tenanta.", JobSituation.NO_ROOM),
    ],
)
def test_what_kube_scheduler_says_is_not_contradicted(kube: FakeJobs, message: str, situation: JobSituation) -> None:
    pai, configuration, pod = _waiting(kube)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod["status"] = {"phase": "Pending", "conditions": [condition] if message else []}
    seen = read_pod(pod)
    assert seen is not None
    names = ClusterSnapshot([], [], [pai], {}).recovered(configuration).engine.state.physical.nodes
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"metadata": {"name": name}, "status": ready} for name in names]
    found = explain_job(
        ClusterSnapshot(nodes, [pod], [pai], {pai.name: [seen]}), configuration, pai, Windows(), Millis(0)
    )
    assert found.situation is situation
    lines = [str(line) for line in explaining.lines(found)]
    assert ("can run now" in lines[0]) is (situation is JobSituation.NO_ROOM), lines
    assert (LACKING in lines[0]) is (situation is JobSituation.NOT_OFFERED), lines


@pytest.mark.parametrize(
    ("cores", "cordoned", "needs", "why"),
    [
        (8, (), 2, ""),
        (8, (), 16, "Insufficient cpu (4)"),
        (8, (), 6, "Insufficient cpu (4)"),  # of two pods on one node
        (8, (0,), 2, ""),
        (8, (0, 1, 2), 16, "the pod does not tolerate its taint k=v:NoSchedule (3); Insufficient cpu (1)"),
    ],
)
def test_a_gated_pod_that_no_node_would_take_cannot_run_now(
    kube: FakeJobs, cores: int, cordoned: tuple[int, ...], needs: int, why: str
) -> None:
    """kube-scheduler says nothing about it: the placer keeps the gate on the pod until a node would take it."""
    cluster(kube).submit([request({"a": {"instances": 2}})])
    turn(kube, Bench(kube), 1)
    looker = cluster(kube)._looker
    pai, configuration = looker._jobs.find("ann~job"), looker._configuration()
    pods = kube.live()
    for pod in pods:
        pod["spec"].pop("nodeName")
        pod["spec"]["schedulingGates"] = [{"name": GATE}]
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": str(needs)}}
    names = ClusterSnapshot([], [], [pai], {}).recovered(configuration).engine.state.physical.nodes
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": str(cores), "pods": "9"}}
    nodes = [{"metadata": {"name": name}, "spec": {}, "status": status} for name in names]
    for number in cordoned:
        nodes[number]["spec"] = {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    seen = {pai.name: [one for one in map(read_pod, pods) if one is not None]}
    found = explain_job(ClusterSnapshot(nodes, pods, [pai], seen), configuration, pai, Windows(), Millis(0))
    said = "\n".join(map(str, explaining.lines(found)))
    assert found.situation is (JobSituation.EXCLUDED if why else JobSituation.NO_ROOM)
    assert ("can run now" in said) is (not why), said
    assert found.reason == why


def test_a_limit_for_users_and_a_budget_are_named_before_the_scheduler_is_asked(kube: FakeJobs) -> None:
    name = "services-configuration.yaml"
    files = dict(preset_files("three-tenants"))
    section = "sharing: {user-limits: [{vc: tenanta, devices: 2}], budgets: [{vc: tenanta, device-hours: 1}]}\n"
    cluster(kube).push({**files, name: files[name] + section}, "sharing")
    cluster(kube).submit([request({"a": {"instances": 2}})])
    looker = cluster(kube)._looker
    pai = looker._jobs.find("ann~job")
    turn(kube, Bench(kube), 1)
    pai, configuration = looker._jobs.find("ann~job"), looker._configuration()
    for pod in kube.live():
        pod["spec"].pop("nodeName")
    pods = kube.live()
    seen = {pai.name: [one for one in map(read_pod, pods) if one is not None]}
    scene = ClusterSnapshot([], pods, [pai], seen)
    spent = {("tenanta", "bob"): 3_600_000}

    def explained(month: Mapping[tuple[str, str], int] | None) -> JobExplanation:
        return explain_job(scene, configuration, pai, Windows(), Millis(0), month)

    found = explained(spent)
    assert found.situation is JobSituation.HELD_BACK
    assert "the budget of virtual cluster tenanta is used up" in str(explaining.lines(found)[0])
    assert explained({}).situation is JobSituation.NO_ROOM, "two devices are allowed"
    assert explained(None).situation is JobSituation.NO_ROOM, "nobody here can know"


def test_a_job_beyond_its_users_limit_is_not_taken(kube: FakeJobs) -> None:
    name = "services-configuration.yaml"
    files = dict(preset_files("three-tenants"))
    cluster(kube).push(
        {**files, name: f"{files[name]}sharing: {{user-limits: [{{vc: tenanta, devices: 2}}]}}\n"}, "limit"
    )
    with pytest.raises(ClusterError, match="needs 3 devices at once, and user ann may hold 2"):
        cluster(kube).submit([request({"a": {"instances": 3}})])
    assert cluster(kube).submit([request({"a": {"instances": 3}}, gang=False)])


def test_tasks_beyond_their_users_limit_are_not_taken_even_from_two_clients_at_once(
    kube: FakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "services-configuration.yaml"
    files = dict(preset_files("three-tenants"))
    cluster(kube).push({**files, name: f"{files[name]}sharing: {{task-limits: [{{tasks: 4}}]}}\n"}, "limit")
    with pytest.raises(ClusterError, match="are limited to 4: 0 in jobs that have not ended, 5 more requested"):
        cluster(kube).submit([request({"a": {"instances": 5}}, gang=False)])
    make = JobTaker._make

    def late(taker: JobTaker, *args: Any) -> Any:
        with monkeypatch.context() as patch:  # the other client has looked and is just faster
            patch.setattr(JobTaker, "_make", make)
            cluster(kube).submit([request({"a": {"instances": 3}}, "other")])
        return make(taker, *args)

    with monkeypatch.context() as patch:
        patch.setattr(JobTaker, "_make", late)
        with pytest.raises(ClusterError, match="3 in jobs that have not ended, 2 more requested"):
            cluster(kube).submit([request({"a": {"instances": 2}})])
    assert [job.key for job in cluster(kube).jobs()] == ["ann~other"]
    assert cluster(kube).submit([request({"a": {"instances": 1}}), replace(request({"a": {}}), user="bob")])


@pytest.mark.parametrize(("tasks", "taken"), [((3, 3), 1), ((4, 1), 1), ((2, 2), 2), ((2, 2, 2), 2), ((1, 1, 1), 3)])
def test_of_clients_that_submit_at_the_very_same_time_each_gets_in_for_whom_there_is_room(
    kube: FakeJobs, monkeypatch: pytest.MonkeyPatch, tasks: tuple[int, ...], taken: int
) -> None:
    name = "services-configuration.yaml"
    files = dict(preset_files("three-tenants"))
    cluster(kube).push({**files, name: f"{files[name]}sharing: {{task-limits: [{{tasks: 4}}]}}\n"}, "limit")
    together, alone = threading.Barrier(len(tasks), timeout=20), threading.Lock()
    answered, ask = kube.request, refuse_many_tasks

    def one_at_a_time(*args: Any, **options: Any) -> Any:
        with alone:
            return answered(*args, **options)

    def in_step(*args: Any) -> None:
        """All have looked before any makes its job, all have made it before any looks again, or takes it back."""
        together.wait()
        try:
            ask(*args)
        finally:
            together.wait()

    def submitted(number: int) -> bool:
        try:
            cluster(kube).submit([request({"a": {"instances": tasks[number]}}, f"job{number}")])
        except ClusterError as error:
            assert "are limited to 4" in str(error)  # noqa: PT017 - most get in
            return False
        return True

    monkeypatch.setattr(kube, "request", one_at_a_time)
    monkeypatch.setattr("paictl.cluster.kubernetes.submitting.refuse_many_tasks", in_step)
    with ThreadPoolExecutor(len(tasks)) as clients:
        got_in = list(clients.map(submitted, range(len(tasks))))
    assert sum(got_in) == taken
    there = {job.key for job in cluster(kube).jobs()}
    assert there == {f"ann~job{number}" for number, inside in enumerate(got_in) if inside}


def refusing(kube: FakeJobs, monkeypatch: pytest.MonkeyPatch, status: int, *whats: str) -> None:
    """The API server answers some requests, a GET at a version or a DELETE, with an error."""
    answered = kube.request

    def request_of(method: str, path: str, body: Any = None, **options: Any) -> Any:
        query = options.get("query") or {}
        if ("Exact" if "resourceVersionMatch" in query else method) in whats:
            raise KubeError("is not possible", status=status)
        return answered(method, path, body, **options)

    monkeypatch.setattr(kube, "request", request_of)


def test_a_limit_counts_what_is_there_now_where_nobody_knows_any_more_what_was(
    kube: FakeJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_tasks(kube)
    refusing(kube, monkeypatch, 410, "Exact")
    assert cluster(kube).submit([request({"a": {"instances": 3}})])
    assert [job.key for job in cluster(kube).jobs()] == ["ann~job"]


@pytest.mark.parametrize(("whats", "there"), [(("Exact",), []), (("Exact", "DELETE"), ["ann~job", "ann~two"])])
def test_jobs_that_cannot_be_counted_are_taken_back_or_named(
    kube: FakeJobs, monkeypatch: pytest.MonkeyPatch, whats: tuple[str, ...], there: list[str]
) -> None:
    limit_tasks(kube)
    refusing(kube, monkeypatch, 500, *whats)
    with pytest.raises(ClusterError, match="is not possible") as refused:
        cluster(kube).submit([request({"a": {}}, "job"), request({"a": {}}, "two")])
    assert ("ann~job, ann~two were accepted anyway" in str(refused.value.hint)) == bool(there)
    assert [job.key for job in cluster(kube).jobs()] == there


def limit_tasks(kube: FakeJobs) -> None:
    name = "services-configuration.yaml"
    files = dict(preset_files("three-tenants"))
    cluster(kube).push({**files, name: f"{files[name]}sharing: {{task-limits: [{{tasks: 4}}]}}\n"}, "limit")


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_the_latest_start_is_named_unless_only_the_door_knows_it(kube: FakeJobs, mode: str) -> None:
    name = "services-configuration.yaml"
    files = dict(preset_files("three-tenants"))
    cluster(kube).push({**files, name: files[name] + f"sharing: {{backfill: [{{mode: {mode}}}]}}\n"}, "backfill")
    pai, configuration, pod = _waiting(kube)
    seen = read_pod(pod)
    assert seen is not None
    names = ClusterSnapshot([], [], [pai], {}).recovered(configuration).engine.state.physical.nodes
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    nodes = [{"metadata": {"name": name}, "status": ready} for name in names]
    scene = ClusterSnapshot(nodes, [pod], [pai], {pai.name: [seen]})
    found = explain_job(scene, configuration, pai, Windows(), Millis(3_600_000))
    if mode == "conservative":
        assert found.start is None
        return
    assert found.start == LatestStart("1970-01-01T01:00:00Z")
    said = explaining.lines(found)
    assert "  it starts at 1970-01-01T01:00:00Z at the latest" in map(str, said)
    assert "  最迟于 1970-01-01T01:00:00Z 开始" in [translated(line, "zh") for line in said]


def test_no_word_of_an_explanation_is_english_in_a_chinese_session(kube: FakeJobs) -> None:
    """What excludes nodes is said in the reader's language, not in kube-scheduler's words."""
    pai, configuration, pod = _waiting(kube)
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "16"}}
    names = ClusterSnapshot([], [], [pai], {}).recovered(configuration).engine.state.physical.nodes
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8", "pods": "9"}}
    nodes = [{"metadata": {"name": name}, "spec": {}, "status": status} for name in names]
    taint, keyless = {"key": "k", "value": "v", "effect": "NoSchedule"}, {"kubernetes.io/os": "linux"}
    nodes[0]["spec"], nodes[1]["spec"] = {"taints": [taint]}, {"unschedulable": True}
    seen = {pai.name: [one for one in [read_pod(pod)] if one is not None]}

    def said() -> str:
        snapshot = ClusterSnapshot(nodes, [pod], [pai], seen)
        found = explain_job(snapshot, configuration, pai, Windows(), Millis(0))
        assert found.situation is JobSituation.EXCLUDED
        return translated(explaining.lines(found)[0], "zh")

    assert "cpu 不足 (2)" in said()
    assert "pod 不容忍它的污点 k=v:NoSchedule (1)" in said()
    assert "它已被封锁 (1)" in said()
    pod["spec"]["nodeSelector"] = keyless
    assert "它没有 pod 的 nodeSelector 所要求的标签 kubernetes.io/os=linux (" in said()
