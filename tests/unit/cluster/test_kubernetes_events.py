"""The life of jobs on Kubernetes, told in the order in which it must have been though pods know seconds only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest

from paictl.cluster.eventtext import detail
from paictl.cluster.kubernetes.jobviews import events_of
from paictl.cluster.kubernetes.paijob.record import AttemptLine, JobRecord, LastRun, Place
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, read_pod
from paictl.cluster.timeline import timeline
from paictl.cluster.values import AttemptOutcome
from paictl.units import from_unix
from paictl.workload.lifecycle import JobStatus, PodChange, RunState, TaskStatus

BEGAN = from_unix(1_795_000_000)
PLACE: Place = ("train", 0)


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def job(name: str, submitted: float, record: JobRecord) -> PaiJob:
    return PaiJob(
        name=name,
        uid=f"uid-{name}",
        version="1",
        key=f"ann~{name}",
        user="ann",
        vc="vc1",
        priority="prod",
        data={"name": name},
        submitted=at(submitted),
        order=name,
        duration=None,
        secret="",
        stopped=False,
        deleting=False,
        record=record,
    )


def record(state: RunState, run: LastRun, *lines: AttemptLine, ended: datetime | None = None) -> JobRecord:
    tasks = (TaskStatus("train", 0, state, len(lines), 0, 0),)
    return JobRecord(
        JobStatus(state, tasks, len(lines)), started=run.started, ended=ended, runs={PLACE: run}, attempts=lines
    )


def run(start: float, end: float, reason: str = "", what: str = "") -> LastRun:
    return LastRun("n1", (0,), at(start), at(end), reason, what)


def told(*jobs: PaiJob) -> list[str]:
    found = events_of(jobs, {})
    assert [one.at for one in found] == sorted(one.at for one in found)
    assert [one.number for one in found] == sorted({one.number for one in found})
    return [f"{one.subject.removeprefix('job/ann~')} {one.kind}" for one in found]


LOSER = AttemptLine(0, at(1), at(60.3), "x", {PLACE: run(1, 60, "preempted by ann~high", "preempted")})
LOW = job("low", 0, record(RunState.SUCCEEDED, run(90, 120), LOSER, ended=at(120)))


def test_who_preempts_comes_first_then_the_victim_goes_then_the_other_begins_all_in_one_second() -> None:
    high = job("high", 60, record(RunState.SUCCEEDED, run(60, 90), ended=at(90)))
    assert told(LOW, high) == [
        "low Submitted",
        "low Started",
        "high Submitted",
        "low Preempted",
        "low Retried",
        "high Started",
        "high Finished",
        "high Succeeded",
        "low Started",
        "low Finished",
        "low Succeeded",
    ]


def test_a_job_that_is_over_within_a_second_is_told_from_its_beginning() -> None:
    quick = job("quick", 5, record(RunState.SUCCEEDED, run(5, 5), ended=at(5)))
    assert told(quick) == ["quick Submitted", "quick Started", "quick Finished", "quick Succeeded"]


def test_a_preempted_attempt_says_by_whom_and_is_drawn_as_one() -> None:
    found = events_of([LOW], {})
    (gone,) = (one for one in found if one.kind == "Preempted")
    assert str(detail(gone)) == "train[0]: preempted by ann~high"
    (again,) = (one for one in found if one.kind == "Retried")
    assert str(again.message) == "starts again from the beginning, attempt 2: x"
    assert gone.data["by"] == "ann~high"
    (line,) = timeline(found, at(200)).jobs
    assert [one.outcome for one in line.tasks[0].attempts] == [AttemptOutcome.PREEMPTED, AttemptOutcome.FINISHED]


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        (PodChange.LOST, "Lost"),
        (PodChange.FAILED, "Failed"),
        (PodChange.SUCCEEDED, "Finished"),
        (PodChange.STARTED, "Killed"),
        ("", "Killed"),
        ("what a newer paictl says", "Killed"),
    ],
)
def test_how_a_run_of_an_attempt_before_ended_is_told(what: str, kind: str) -> None:
    line = AttemptLine(0, at(1), at(9), "x", {PLACE: run(1, 9, "why", what)})
    assert f"low {kind}" in told(job("low", 0, record(RunState.RUNNING, run(20, 21), line)))


def pod(annotations: Mapping[str, str], disruption: str) -> PodSummary:
    """A pod that was taken away."""
    found: dict[str, Any] = {
        "metadata": {
            "name": "low-0",
            "uid": "u",
            "labels": {"paictl.io/job": "low", "paictl.io/attempt": "0"},
            "annotations": {"paictl.io/role": "train", "batch.kubernetes.io/job-completion-index": "0", **annotations},
        },
        "status": {
            "phase": "Failed",
            "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": disruption, "message": "away"}],
        },
    }
    seen = read_pod(found)
    assert seen is not None
    return seen


@pytest.mark.parametrize(
    ("group", "who"),
    [
        ("ann~high/default", "ann~high"),
        ("ann~high/default#1", "ann~high"),
        ("paictl-jobs/high-train-0", "high-train-0"),
        ("others", "others"),
    ],
)
def test_a_pod_says_for_whom_it_was_evicted(group: str, who: str) -> None:
    noted = {"paictl.io/preempted-for": group}
    assert pod(noted, "EvictionByEvictionAPI").reason == f"preempted by {who}"
    assert pod(noted, "DeletionByTaintManager").reason == "away", "it was noted, and then something else happened"
    assert pod({}, "EvictionByEvictionAPI").reason == "away"
