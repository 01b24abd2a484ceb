"""Jobs with more ports than a task may have: none begins, and what an earlier version has begun can be ended."""

from __future__ import annotations

import random

import pytest

from paictl.cluster.interface import JobRequest, JobState
from paictl.controller import loop
from paictl.errors import PaictlError
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import JOBS, Bench, FakeJobs

FILE = "services-configuration.yaml"


def asking(ports: int, name: str = "job") -> JobRequest:
    resources = {"gpu": 1, "cpu": 1, "memoryMB": 64, "ports": {"x": ports}}
    return request({"a": {"instances": 3, "resourcePerInstance": resources}}, name)


def taken_earlier(kube: FakeJobs, ports: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job as its client of an earlier version makes it, or whoever writes the object by hand."""
    with monkeypatch.context() as earlier:
        earlier.setattr("paictl.cluster.storages.refuse_ports", lambda _: None)
        cluster(kube).submit([asking(ports)])


def look(bench: Bench) -> None:
    draw = random.Random(3)  # noqa: S311 - reproducible
    for _ in range(5):
        bench.tell()
        bench.look()
        bench.kube.run(draw, {"a": None})


def test_a_job_of_an_earlier_version_is_followed_and_stopped(kube: FakeJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    files = dict(cluster(kube).configuration().files)
    files[FILE] += "sharing: {task-limits: [{tasks: 4}]}\n"
    cluster(kube).push(files, "limits")
    with monkeypatch.context() as earlier:
        earlier.setattr(loop, "refuse_ports", lambda _: None)
        taken_earlier(kube, 1_500, monkeypatch)
        look(Bench(kube))
    assert job(kube).state is JobState.RUNNING
    bench = Bench(kube)
    look(bench)
    assert job(kube).state is JobState.RUNNING
    cluster(kube).stop_job("ann~job")
    look(bench)
    assert (job(kube).state, kube.live()) == (JobState.STOPPED, [])
    cluster(kube).submit([request({"a": {"instances": 4}}, "next")])  # its tasks do not count any more


@pytest.mark.parametrize("ports", [1_001, 2_000_000_000, 10**30])
def test_no_such_job_begins(kube: FakeJobs, monkeypatch: pytest.MonkeyPatch, ports: int) -> None:
    for ask in (lambda one: cluster(kube).submit([one]), cluster(kube).foresee):
        with pytest.raises(PaictlError, match="at most 1,000 ports"):
            ask(asking(ports))
    taken_earlier(kube, ports, monkeypatch)
    look(Bench(kube))
    assert (job(kube).state, kube.made) == (JobState.FAILED, {})
    (body,) = [body for path, body in kube.objects.items() if path.startswith(f"{JOBS}/")]
    assert "at most 1,000 ports" in body["status"]["reason"]


@pytest.mark.parametrize("ports", [50_536, 2_000_000_000, 10**30])
def test_a_job_whose_ports_no_task_can_have_fails_though_it_has_begun(
    kube: FakeJobs, monkeypatch: pytest.MonkeyPatch, ports: int
) -> None:
    """The controller of an earlier version has died of it; each port would be a number in memory."""
    taken_earlier(kube, ports, monkeypatch)
    bench = Bench(kube)
    with monkeypatch.context() as earlier:
        earlier.setattr(loop, "refuse_ports", lambda _: None)
        look(bench)
    look(bench)
    assert (job(kube).state, kube.made) == (JobState.FAILED, {})
    (body,) = [body for path, body in kube.objects.items() if path.startswith(f"{JOBS}/")]
    assert "at most 50,535 ports" in body["status"]["reason"]
