"""Table D8 of policies.md: ElasticFlow's testbed trace on 16 nodes of 4, with the scaling of Pollux' profiles."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from paictl.sim.cluster import homogeneous
from paictl.sim.goodput import TrainingProfile
from paictl.sim.job import Job
from paictl.sim.traces.pollux import packed
from paictl.sim.traces.source import source
from tests.conftest import SHARED
from tests.sim_reference.support import measure, trace

CLUSTER = homogeneous(16, 4)
MOST = {"bert": 16, "cifar10": 16, "yolov3": 4, "ncf": 1}
"""Devices beyond which the artifact does not scale an application."""


def rates(training: TrainingProfile, batch: int) -> dict[int, float]:
    """Steps a second by number of devices, packed."""
    found = {}
    for count in (1, 2, 4, 8, 16, 32, 64):
        size = training.asked(batch, count, "", packed(count))
        step = training.types[""].step(packed(count), size.local)
        if step is not None:
            found[count] = 1 / (step[0] + (size.passes - 1) * (step[0] - step[1]))
    return found


def elastic(job: Job, training: TrainingProfile, batch: int) -> Job:
    """The job, with what other numbers of devices make of it."""
    most = max(job.gpus, MOST.get(job.model, 32 if (job.model, batch) == ("deepspeech2", 320) else 64))
    known = {count: rate for count, rate in rates(training, batch).items() if count <= most}
    scaling = {count: rate / known[job.gpus] for count, rate in known.items()}
    return replace(job, elastic=(1, max(scaling)), scaling=scaling)


def test_most_of_its_testbed_jobs_are_in_time() -> None:
    """Published: 72.8 % (Pollux 52.3, Themis 31.2, EDF 11.8): so it is if a slot's jobs are admitted all or none.

    Admitting each for itself keeps more deadlines (81.0 %).
    """
    given = trace("elasticflow", "elasticVpollux_e.csv", "itp")
    trainings = {job.model: job.training for job in trace("pollux", "workloads/workload-1.csv", "pollux").jobs}
    table = source(f"{SHARED}/traces/elasticflow.tar.gz/elasticflow/elasticVpollux_e.csv").text()
    batches = {row["job_id"]: int(row["batch_size"]) for row in csv.DictReader(io.StringIO(table))}
    assert rates(trainings["cifar10"], 4096)[16] == pytest.approx(4.4744, abs=1e-4)  # type: ignore[arg-type]
    scaled = tuple(elastic(job, trainings[job.model], batches[job.id]) for job in given.jobs)  # type: ignore[arg-type]
    theirs = measure(replace(given, jobs=scaled), CLUSTER, "elasticflow:admission=slot")
    assert 1 - (theirs.deadline_misses or 0) / 195 == pytest.approx(0.728, abs=0.01)
    got = measure(replace(given, jobs=scaled), CLUSTER, "elasticflow")
    assert got.jobs == 195
    assert 1 - (got.deadline_misses or 0) / 195 == pytest.approx(0.81, abs=0.01)
    assert (got.admitted_misses or 0) <= 1
    rigid = measure(given, CLUSTER, "themis")
    assert (rigid.deadline_misses or 0) > 2 * (got.deadline_misses or 0)
