"""How much can be asked at once, and how soon a refusal comes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from paictl.cluster import admission
from paictl.cluster.embedded import sharing, world
from paictl.cluster.interface import ClusterError, JobRequest, JobState, TaskPlace
from paictl.errors import PaictlError
from paictl.units import Millis
from paictl.workload.template import Values
from tests.unit.cluster.conftest import MINUTE, MakeBench


def refused(lab: Any, name: str = "big", **options: Any) -> PaictlError:
    began = time.process_time()
    with pytest.raises(PaictlError) as caught:
        lab.submit(name, **options)
    assert time.process_time() - began < 5, "a refusal must not cost what the job would"
    assert lab.cluster.jobs() == []
    return caught.value


@pytest.mark.parametrize("instances", [1_001, 100_001, 10**6, 10**12])
def test_more_tasks_than_can_ever_be_worked_on_are_refused_at_once(bench: MakeBench, instances: int) -> None:
    error = refused(bench(), instances=instances, gang=False)
    if instances > 100_000:
        assert f"{instances:,} tasks cannot be submitted together" in error.message
    else:
        assert f"the job has {instances:,} tasks, on a cluster of 2 leaf cells it may have 1,000" in error.message


def test_a_gang_of_more_tasks_than_devices_is_refused(bench: MakeBench) -> None:
    assert "can never run" in refused(bench(), instances=3).message


def test_all_tasks_of_a_submission_and_of_the_cluster_are_counted(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = bench()
    monkeypatch.setattr(admission, "MOST_WAITING", 10)
    monkeypatch.setattr(world, "MOST_WAITING", 10)
    requests = [JobRequest("ann", lab.job(f"j{n}", "default", instances=4, gang=False)) for n in range(3)]
    with pytest.raises(ClusterError, match="12 tasks cannot be submitted together, at most 10 can"):
        lab.cluster.submit(requests)
    lab.cluster.submit(requests[:2])
    with pytest.raises(ClusterError, match="8 tasks wait or run, and at most 10 can"):
        lab.cluster.submit(requests[2:])
    assert len(lab.cluster.jobs()) == 2


def test_as_many_tasks_as_are_allowed_are_taken(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = bench()
    monkeypatch.setattr(admission, "MOST_WAITING", 10)
    monkeypatch.setattr(world, "MOST_WAITING", 10)
    lab.cluster.submit([JobRequest("ann", lab.job(f"j{n}", "default", instances=5, gang=False)) for n in range(2)])
    assert len(lab.cluster.jobs()) == 2


def test_one_user_cannot_make_every_command_of_others_slow_with_tasks_that_wait(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = bench()
    monkeypatch.setattr(sharing, "MOST_OF_USER", 7)
    first = JobRequest("ann", lab.job("first", "default", instances=4, gang=False))
    lab.cluster.submit([first])
    more = [JobRequest(user, lab.job("more", "default", instances=4, gang=False)) for user in ("ann", "bob")]
    with pytest.raises(ClusterError, match="tasks of user ann are limited to 7: 4 in jobs that have not ended, 4 more"):
        lab.cluster.submit([more[0]])
    lab.cluster.submit([more[1]])
    lab.cluster.stop_job("ann~first")
    lab.cluster.submit([more[0]])
    assert lab.cluster.replayed() == lab.cluster.stored()
    monkeypatch.setattr(sharing, "MOST_OF_USER", 3)
    assert lab.again().replayed() == lab.again().stored(), "what was taken stays"


def test_a_job_of_an_earlier_version_with_more_ports_than_today_does_not_end_its_cluster(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = bench()
    data = lab.job("many", "default", instances=1)
    role = next(iter(data["taskRoles"].values()))
    role["resourcePerInstance"] = {**role["resourcePerInstance"], "ports": {"a": 1000, "b": 1}}
    with monkeypatch.context() as earlier:
        earlier.setattr("paictl.cluster.storages.refuse_ports", lambda _: None)
        lab.cluster.submit([JobRequest("ann", data)])
    again = lab.again()
    again.tick(Millis(MINUTE))
    assert [job.key for job in again.jobs()] == ["ann~many"]
    assert again.replayed() == again.stored()
    for ask in (lambda one: again.submit([one]), again.foresee):
        with pytest.raises(PaictlError, match="at most 1,000 ports"):
            ask(JobRequest("bob", data))
    again.stop_job("ann~many")
    assert again.job("ann~many").state is JobState.STOPPED


def test_the_commands_of_all_jobs_of_a_submission_are_counted(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = bench()
    job = lab.job("j", "default")
    size = sum(len(command) for role in job["taskRoles"].values() for command in role["commands"])
    monkeypatch.setattr(admission, "MOST_TOGETHER", 3 * size)
    requests = [JobRequest("ann", {**job, "name": f"j{n}"}) for n in range(4)]
    with pytest.raises(ClusterError, match="the commands of these jobs have more than"):
        lab.cluster.submit(requests)
    assert lab.cluster.jobs() == []
    assert len(lab.cluster.submit(requests[1:])) == 3


def test_one_user_cannot_slow_down_all_commands_by_large_jobs_that_wait(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = bench()
    job = lab.job("j", "default", commands=["sleep 5m", "# " + "x" * 1_000])
    monkeypatch.setattr(admission, "MOST_KEPT", 5_000)
    one, two, three, four = (JobRequest("ann", {**job, "name": f"j{n}"}) for n in range(4))
    lab.cluster.submit([one, two])
    lab.cluster.submit([three])
    for ask in (lambda: lab.cluster.submit([four]), lambda: lab.cluster.foresee(four)):
        with pytest.raises(ClusterError, match=r"user ann's .* characters together; at most 5,000 are allowed"):
            ask()
    with pytest.raises(ClusterError, match="the files of user bob's waiting and running jobs"):
        lab.cluster.submit([JobRequest("bob", {**job, "name": f"k{n}"}) for n in range(5)])
    assert [view.key for view in lab.cluster.jobs()] == ["ann~j0", "ann~j1", "ann~j2"]
    lab.cluster.submit([JobRequest("bob", job)])
    lab.cluster.stop_job("ann~j1")  # what has ended does not count
    lab.cluster.submit([four])


def test_looking_at_a_cluster_reads_no_commands_of_jobs_that_wait(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = bench()
    key = lab.submit("many", commands=["sleep 5m", *["true"] * 100])
    read: list[str] = []
    render = Values.render

    def counted(values: Values, command: str, path: str) -> Any:
        read.append(command)
        return render(values, command, path)

    monkeypatch.setattr(Values, "render", counted)
    assert [view.key for view in lab.again().jobs()] == [key]
    lab.again().tick(Millis(MINUTE))
    assert read == []
    written = b"".join(lab.again().output(key, TaskPlace("train", 0))).decode()
    assert written.count("#   true") == 100
    assert len(read) == 101


@pytest.mark.parametrize(("size", "allowed"), [(255, True), (256, False), (400_000, False)])
def test_the_name_of_an_affinity_group_which_each_task_repeats_is_short(
    bench: MakeBench, size: int, allowed: bool
) -> None:
    lab = bench()
    hived = {"taskRoles": {"train": {"affinityGroupName": "g" * size}}}
    if allowed:
        assert lab.state(lab.submit("one", hived=hived)) == "Running"
        return
    error = refused(lab, hived=hived)
    assert "at most 255 are allowed" in error.message
    assert "affinityGroupName" in str(error)
    assert len(str(error)) < 300


def test_nobody_waits_while_too_much_is_refused(bench: MakeBench, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = bench()
    monkeypatch.setattr(lab.cluster._store, "writing", lambda: pytest.fail("the file was locked"))
    refused(lab, instances=10**12)


def test_what_the_newest_configuration_would_take_says_who_has_not_loaded_it(bench: MakeBench) -> None:
    lab = bench()
    files = dict(lab.cluster.configuration().files)
    name = "services-configuration.yaml"
    lab.cluster.push({**files, name: files[name].replace("vc1:", "vision:")}, "renamed", base=1)
    with pytest.raises(PaictlError) as caught:
        lab.submit("one", "vision")
    assert caught.value.hint is not None
    assert "version 2 of the configuration would take it, but is not loaded" in caught.value.hint
    assert "paictl service refresh -n hivedscheduler -n rest-server" in caught.value.hint
    lab.cluster.restart_services(["hivedscheduler", "rest-server"])
    lab.submit("one", "vision")
    with pytest.raises(PaictlError) as caught:
        lab.submit("two", "nowhere")
    assert "not loaded" not in str(caught.value.hint)


def test_the_password_of_a_registry_is_not_stored(bench: MakeBench) -> None:
    lab = bench()
    data = lab.job("one", "default")
    image = {**data["prerequisites"][0], "auth": {"username": "me", "password": "hunter2-registry", "registryuri": "r"}}
    lab.cluster.submit([JobRequest("ann", {**data, "prerequisites": [image]})])
    stored = b"".join(path.read_bytes() for path in lab.folder.iterdir())
    assert b"hunter2-registry" not in stored
    assert b'"username":"me"' in stored
