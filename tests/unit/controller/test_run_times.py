"""Run-time limits of jobs on Kubernetes: the controller stops them, whenever it was killed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from paictl.cluster.interface import JobState
from paictl.cluster.kubernetes.cluster import KubernetesCluster
from paictl.cluster.presets import preset_files
from paictl.units import rfc3339
from tests.unit.controller.conftest import cluster, job, request
from tests.unit.controller.fakejobs import Bench, FakeJobs

DICE = random.Random(3)  # noqa: S311 - not for secrets
LIMIT = {"extras": {"gangAllocation": True, "maxRunTime": "2h"}}


def begun(kube: FakeJobs, **more: Any) -> Bench:
    """A job of two tasks that runs."""
    kube.clock = lambda: rfc3339(datetime.now(UTC).replace(microsecond=0))
    cluster(kube).submit([request({"a": {"instances": 2}}, **more)])
    bench = Bench(kube)
    for _ in range(4):
        bench.tell()
        bench.look()
        kube.run(DICE, {"a": None})
    bench.tell()
    bench.look()
    assert job(kube).state is JobState.RUNNING
    return bench


def test_a_job_is_stopped_at_its_limit_by_a_controller_that_knows_only_what_is_written(kube: FakeJobs) -> None:
    begun(kube, **LIMIT)
    assert job(kube).max_run_time == 7_200_000
    assert {pod["metadata"]["annotations"]["paictl.io/max-run-time"] for pod in kube.pods()} == {"7200000ms"}
    bench = Bench(kube)  # another process
    bench.ahead = timedelta(hours=1, minutes=58)
    bench.tell()
    bench.look()
    assert job(kube).state is JobState.RUNNING
    bench = Bench(kube)
    bench.ahead = timedelta(hours=2, seconds=30)
    bench.tell()
    bench.look()
    kube.run(DICE, {"a": None})
    found = job(kube)
    assert (found.state, found.reason) == (JobState.STOPPED, "ran longer than its maxRunTime of 2h")
    assert kube.live() == []
    told = cluster(kube).events("job/ann~job")
    assert [event.message for event in told if event.kind.value == "Stopped"] == [found.reason]


def test_the_controller_looks_again_at_the_limit_without_being_told(kube: FakeJobs) -> None:
    bench = begun(kube, **LIMIT)
    waits: list[float] = []

    def note(name: str, after: float = 0.0) -> None:  # noqa: ARG001 - of the only job
        waits.append(after)

    bench.loop.queue.add = note  # type: ignore[method-assign]
    bench.look()
    assert waits
    assert 7_190 < waits[-1] <= 7_200


def test_a_job_that_ended_in_time_is_not_stopped_by_a_controller_that_comes_late(kube: FakeJobs) -> None:
    begun(kube, **LIMIT)
    for _ in range(20):
        kube.run(DICE, {"a": 0})
    late = Bench(kube)
    late.ahead = timedelta(hours=5)
    late.tell()
    late.look()
    assert job(kube).state is JobState.SUCCEEDED


def test_without_a_limit_nothing_is_noted_and_nobody_is_stopped(kube: FakeJobs) -> None:
    bench = begun(kube)
    bench.ahead = timedelta(days=900)
    bench.look()
    assert job(kube).state is JobState.RUNNING
    assert not any("paictl.io/max-run-time" in pod["metadata"]["annotations"] for pod in kube.pods())


def test_a_job_made_by_hand_that_breaks_its_tenants_rule_fails_with_it(kube: FakeJobs) -> None:
    cluster(kube).submit([request({"a": {}})])
    files = preset_files("three-tenants")
    files["services-configuration.yaml"] += "sharing:\n  run-times: [{vc: tenanta, required: true}]\n"
    KubernetesCluster(kube, "fake").push(files, "rules")
    bench = Bench(kube)
    bench.tell()
    bench.look()
    found = job(kube)
    assert found.state is JobState.FAILED
    assert "must set a maximum run time" in found.reason


def test_a_job_that_saves_its_work_on_sigterm_has_the_time_for_it(kube: FakeJobs) -> None:
    begun(kube, extras={"saveOnSigterm": "90.5s"})
    assert {pod["spec"]["terminationGracePeriodSeconds"] for pod in kube.pods()} == {91}
    assert {pod["metadata"]["annotations"]["paictl.io/saves-on-sigterm"] for pod in kube.pods()} == {"true"}
