"""Jobs from submission to end, by a real API server, job controller of Kubernetes, kube-scheduler and extender."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from paictl.cluster.interface import Cluster, ClusterError, JobState, JobView, TaskPlace
from paictl.operate import explaining
from paictl.remote import Pipes
from tests.e2e_kube.controlplane import ControlPlane
from tests.e2e_kube.jobrig import HIVED, SPACE, JobRig, files, finish, live, opened, rack_of_jobs, request, role
from tests.e2e_kube.kubeapi import ApiError, KubeApi, until
from tests.e2e_kube.shell import Shell

PATIENCE = 60.0


@pytest.fixture(scope="module")
def rig(plane: ControlPlane, api: KubeApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobRig]:
    with rack_of_jobs(plane, api, tmp_path_factory.mktemp("jobs")) as made:
        yield made


@pytest.fixture
def cluster(rig: JobRig) -> Iterator[Cluster]:
    yield opened(rig.plane)
    rig.forget_jobs()


def awaited(cluster: Cluster, key: str, wanted: Callable[[JobView], bool]) -> JobView:
    until(lambda: wanted(cluster.job(key)), PATIENCE, lambda: str(cluster.job(key)))
    return cluster.job(key)


def runs(job: JobView) -> bool:
    return bool(job.tasks) and all(task.state == "Running" for task in job.tasks)


def excluded(cluster: Cluster, api: KubeApi, why: str) -> None:
    """A job for which devices are free is explained by what keeps it from their nodes, and runs when that is gone."""

    def said() -> str:
        return "\n".join(map(str, explaining.lines(cluster.explain("ann~kept"))))

    names = [node["metadata"]["name"] for node in api.get("/api/v1/nodes")["items"]]
    try:
        for name in names:
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": "mine", "effect": "NoSchedule"}]}})
        cluster.submit([request("kept", {"worker": role(1, 2)})])
        until(lambda: why in said(), PATIENCE, said)
        assert "can run now" not in said()
    finally:
        for name in names:
            api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    awaited(cluster, "ann~kept", runs)


def test_a_job_that_no_node_lets_in_is_not_said_to_run_now(cluster: Cluster, api: KubeApi) -> None:
    number = len(api.get("/api/v1/nodes")["items"])  # other modules may have left some
    why = f"kube-scheduler says 0/{number} nodes are available: {number} node(s) had untolerated taint(s)"
    excluded(cluster, api, why)


def test_a_role_that_has_done_enough_ends_the_job_and_the_others(cluster: Cluster, api: KubeApi) -> None:
    workers = role(2, 2, completion={"minFailedInstances": 1, "minSucceededInstances": 1})
    cluster.submit([request("train", {"worker": workers, "ps": role(1)})])  # Kubernetes does not keep this order
    job = awaited(cluster, "ann~train", runs)
    assert (job.devices, job.used) == (5, 5)
    finish(api, next(task.pod for task in job.tasks if (task.role, task.index) == ("worker", 1)), "0")
    done = awaited(cluster, "ann~train", lambda job: job.state.ended)
    states = {(task.role, task.index): task.state for task in done.tasks}
    assert done.state is JobState.SUCCEEDED
    assert states == {("ps", 0): "Stopped", ("worker", 0): "Stopped", ("worker", 1): "Succeeded"}
    assert all(task.node and task.devices for task in done.tasks)
    until(lambda: not live(api), PATIENCE, lambda: str(live(api)))


def test_a_gang_starts_again_as_a_whole_and_then_has_failed(cluster: Cluster, api: KubeApi) -> None:
    cluster.submit([request("gang", {"worker": role(2, 3)}, jobRetryCount=1)])
    first = awaited(cluster, "ann~gang", runs)
    finish(api, first.tasks[1].pod, "7")
    second = awaited(cluster, "ann~gang", lambda job: job.attempt == 1 and runs(job))
    assert not {task.pod for task in first.tasks} & {task.pod for task in second.tasks}
    assert {task.attempt for task in second.tasks} == {1}
    finish(api, second.tasks[0].pod, "9")
    done = awaited(cluster, "ann~gang", lambda job: job.state.ended)
    assert (done.state, done.reason) == (JobState.FAILED, "worker[0]: exit code 9")
    told = [event for event in cluster.events("job/ann~gang") if event.kind.value == "Retried"]
    assert [event.data["reason"] for event in told] == ["worker[1]: exit code 7"]
    until(lambda: not live(api), PATIENCE, lambda: str(live(api)))


def test_tasks_are_retried_alone_as_often_as_their_role_says(cluster: Cluster, api: KubeApi) -> None:
    """Once after a failure, as Kubernetes does it; always after somebody deleted the pod, as it does not."""
    tolerant = role(1, 2, taskRetryCount=1, completion={"minFailedInstances": 2, "minSucceededInstances": 2})
    cluster.submit([request("alone", {"worker": tolerant}, gang=False)])
    first = awaited(cluster, "ann~alone", runs)
    finish(api, first.tasks[0].pod, "1")
    api.delete(first.tasks[1].pod, SPACE, grace=1)
    again = awaited(cluster, "ann~alone", lambda job: runs(job) and {task.attempt for task in job.tasks} == {1})
    assert again.attempt == 0
    api.delete(again.tasks[1].pod, SPACE, grace=1)
    third = awaited(cluster, "ann~alone", lambda job: runs(job) and job.tasks[1].attempt == 2)
    finish(api, third.tasks[0].pod, "3")
    last = awaited(cluster, "ann~alone", lambda job: job.tasks[0].state == "Failed")
    assert (last.state, last.tasks[0].reason, last.tasks[1].state) == (JobState.RUNNING, "exit code 3", "Running")
    finish(api, last.tasks[1].pod, "0")
    assert awaited(cluster, "ann~alone", lambda job: job.state.ended).state is JobState.SUCCEEDED


def test_who_is_preempted_waits_and_runs_again_without_counting(cluster: Cluster) -> None:
    cluster.submit([request("low", {"worker": role(4, 8)}, priority="oppo")])
    awaited(cluster, "ann~low", runs)
    cluster.submit([request("high", {"worker": role(4, 2)}, priority="prod")])
    awaited(cluster, "ann~high", runs)
    low = awaited(cluster, "ann~low", lambda job: job.attempt == 1 and job.state is JobState.WAITING)
    assert low.preemptions > 0
    assert cluster.explain("ann~low").situation.value == "no room"
    cluster.stop_job("ann~high")
    awaited(cluster, "ann~low", runs)
    cluster.stop_job("ann~low")
    assert awaited(cluster, "ann~low", lambda job: job.state.ended).state is JobState.STOPPED


def test_secrets_are_in_secrets_alone_and_everything_goes_with_the_job(
    cluster: Cluster, rig: JobRig, api: KubeApi
) -> None:
    image = {
        "name": "image",
        "type": "dockerimage",
        "uri": "private/image",
        "auth": {"username": "me", "password": "<% $secrets.door %>", "registryuri": "r.example"},
    }
    told = role(1, 2, commands=["curl -H <% $secrets.token %>", "echo <% $parameters.lr %>"])
    told["resourcePerInstance"]["ports"] = {"ssh": 1, "http": 2}
    told["extraContainerOptions"] = {"shmMB": 64}
    cluster.submit(
        [
            request(
                "quiet",
                {"worker": told},
                secrets={"token": "hush-1", "door": "hush-2"},
                parameters={"lr": 0.1},
                prerequisites=[image],
            )
        ]
    )
    awaited(cluster, "ann~quiet", runs)
    for thing in (*rig.jobs(), *rig.works(), *api.pods(SPACE)):
        assert "hush" not in json.dumps(thing)
    secrets = {one["metadata"]["name"]: one["data"] for one in api.get(f"/api/v1/namespaces/{SPACE}/secrets")["items"]}
    name = rig.jobs()[0]["metadata"]["name"]
    script = base64.b64decode(secrets[f"{name}-scripts-0"]["worker.sh"]).decode()
    assert "curl -H hush-1" in script
    assert "echo 0.1" in script
    assert "hush-2" in base64.b64decode(secrets[f"{name}-pull"][".dockerconfigjson"]).decode()
    container = api.pods(SPACE)[0]["spec"]["containers"][0]
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert (values["PAI_TASK_ROLE_LIST"], values["PAI_TASK_ROLE_TASK_COUNT_worker"]) == ("worker", "2")
    assert values["PAI_CONTAINER_HOST_PORT_LIST"] == "http:15000,15001;ssh:15002;"
    rig.api.call("DELETE", f"/apis/paictl.io/v1alpha1/namespaces/{SPACE}/paijobs/{name}")
    kinds = (f"/api/v1/namespaces/{SPACE}/secrets", f"/api/v1/namespaces/{SPACE}/services", "")
    until(
        lambda: not (rig.works() or api.pods(SPACE) or any(api.get(kind)["items"] for kind in kinds if kind)),
        PATIENCE,
        "nothing of the job is left",
    )


def test_what_a_job_is_never_changes(cluster: Cluster, rig: JobRig, api: KubeApi) -> None:
    cluster.submit([request("one", {"worker": role()})])
    path = f"/apis/paictl.io/v1alpha1/namespaces/{SPACE}/paijobs/{rig.jobs()[0]['metadata']['name']}"
    for change in (
        {"user": "bob"},
        {"virtualCluster": "B"},
        {"job": {"taskRoles": {"worker": {"instances": 9}}}},
        {"secretName": "another"},
        {"priority": "prod"},
        {"priority": None},
        {"submitted": "2020"},
        {"duration": 7},
    ):
        with pytest.raises(ApiError) as caught:
            api.patch(path, {"spec": change})
        assert caught.value.status == 422
    cluster.tag_job("ann~one", ["kept"], [])
    cluster.stop_job("ann~one")
    with pytest.raises(ApiError):
        api.patch(path, {"spec": {"stopped": False}})


def test_what_a_task_has_written_is_shown_and_commands_run_beside_it(
    cluster: Cluster, api: KubeApi, plane: ControlPlane
) -> None:
    cluster.submit([request("talk", {"worker": role(1, 2)})])
    job = awaited(cluster, "ann~talk", runs)
    task, heard = TaskPlace("worker", 1), list[bytes]()
    assert b"".join(cluster.output("ann~talk", task)) == b"first\nsecond\n"
    assert b"".join(cluster.output("ann~talk", task, lines=1)) == b"second\n"

    def follow() -> None:
        with contextlib.suppress(ClusterError):  # later tests take the server away
            heard.extend(cluster.output("ann~talk", task, follow=True))

    threading.Thread(target=follow, daemon=True).start()
    until(lambda: b"".join(heard).endswith(b"second\n"), PATIENCE, lambda: str(heard))
    with (plane.folder / "container.log").open("a") as log:
        log.write("2026-11-22T05:00:01.0Z stdout F third\n")
    until(lambda: b"".join(heard).endswith(b"third\n"), PATIENCE, lambda: str(heard))
    out, err = list[bytes](), list[bytes]()
    said: list[bytes | None] = [b"one\n", None, b"two\n"]
    pipes = Pipes(out.append, err.append, lambda: said.pop(0) if said else None)
    assert cluster.execute("ann~talk", task, ["sh", "-c", "head -n 2; echo bad >&2"], pipes) == 0
    assert (b"".join(out), b"".join(err)) == (b"one\ntwo\n", b"bad\n")
    finish(api, job.tasks[0].pod, "5")
    awaited(cluster, "ann~talk", lambda job: job.state.ended)
    assert b"first" in b"".join(cluster.output("ann~talk", TaskPlace("worker")))  # its pod ended by itself and is there
    with pytest.raises(ClusterError, match="is not running"):
        cluster.execute("ann~talk", TaskPlace("worker"), ["true"], pipes)


def test_other_quotas_are_tried_on_the_jobs_that_it_has_run(
    cluster: Cluster, plane: ControlPlane, tmp_path: Path
) -> None:
    """Old is what was pushed; A is promised 16 devices, and its second job waits for the first until it has more."""
    for number in range(2):
        cluster.submit([request(f"a{number}", {"worker": role(4, 4)}, seconds=2)])
    cluster.submit([request("b", {"worker": role(2, 3)}, vc="B", priority="oppo", seconds=1)])
    cluster.submit([request("goes-on", {"worker": role(1)}, vc="B")])
    for key in ("ann~a0", "ann~a1", "ann~b"):
        awaited(cluster, key, lambda job: job.state is JobState.SUCCEEDED)
    awaited(cluster, "ann~goes-on", runs)
    hived = {**HIVED, "virtualClusters": {"A": {"virtualCells": [{"cellType": "RACK.NODE", "cellNumber": 8}]}}}
    (tmp_path / "new.yaml").write_text(yaml.safe_dump(hived, sort_keys=False))
    shell = Shell(plane, tmp_path)
    found = shell.tried("sim", "what-if", "--from-cluster", "pai", "--config", str(tmp_path / "new.yaml"), "-o", "json")
    assert found[0] == 0, found[2]
    data = json.loads(found[1])
    assert data["old"]["cluster"] == "configuration 1"
    assert {row["vc"]: (row["jobs"], row["promised_before"], row["promised_after"]) for row in data["tenants"]} == {
        "A": (2, 16, 32),
        "B": (1, 16, 0),
    }
    first = data["tenants"][0]
    assert (first["less"], first["more"], first["mean_waiting_after"]) == (1, 0, 0.0)
    assert [job["id"] for job in first["gained"]] == ["ann~a1"]
    said = " ".join(found[2].split())
    assert "goes-on: is running, its duration is not known" in said
    assert "keeps jobs for 30d after they end" in said
    assert "new.yaml promises nothing to 'B': 1 of their jobs run as opportunistic" in said
    named = shell.done("sim", "what-if", "--from-cluster", "--cluster", "pai", "--config", str(tmp_path / "new.yaml"))
    assert "old: configuration 1 (32 devices)" in named


def test_of_submissions_at_the_same_time_those_get_in_for_which_a_limit_has_room(rig: JobRig, cluster: Cluster) -> None:
    """The API server lists the jobs as they were when each one came."""
    content = yaml.safe_load(files()["services-configuration.yaml"])
    limited = {**content, "sharing": {"task-limits": [{"tasks": 4}]}}
    cluster.push(
        {"services-configuration.yaml": yaml.safe_dump(limited)}, "limited", base=cluster.configurations()[-1].number
    )
    clients = [opened(rig.plane) for _ in range(4)]

    def submitted(client: Cluster, name: str) -> bool:
        try:
            client.submit([request(name, {"worker": role(1, 2)})])
        except ClusterError as error:
            assert "are limited to 4" in str(error)  # noqa: PT017 - two get in
            return False
        return True

    with ThreadPoolExecutor(len(clients)) as threads:
        for attempt in range(5):
            names = [f"at-once-{attempt}-{number}" for number in range(len(clients))]
            got_in = list(threads.map(submitted, clients, names))
            there = {job.key.partition("~")[2] for job in cluster.jobs(ended=False)}
            assert there == {name for name, inside in zip(names, got_in, strict=True) if inside}
            assert len(there) == 2
            rig.forget_jobs()
