"""`job explain` of a job for which cells are free, and which kube-scheduler does not take."""

from __future__ import annotations

import pytest

from paictl.cluster.kubernetes.paijob.seen import read_pod
from paictl.cluster.kubernetes.scheduling import ClusterSnapshot, explain_job
from paictl.cluster.scheduling import JobSituation
from paictl.operate import explaining
from paictl.units import Millis
from paictl.workload.windows import Windows
from tests.unit.controller.conftest import cluster, request
from tests.unit.controller.fakejobs import Bench, FakeJobs
from tests.unit.controller.test_events import turn

LACKING = "0/6 nodes are available: 6 Insufficient rdma/hca."


@pytest.mark.parametrize(
    ("message", "situation"),
    [
        (LACKING, JobSituation.NOT_OFFERED),
        ("", JobSituation.NO_ROOM),
        ("0/6 nodes are available: 6 pod waits: insufficient capacity in VC tenanta.", JobSituation.NO_ROOM),
    ],
)
def test_what_kube_scheduler_says_is_not_contradicted(kube: FakeJobs, message: str, situation: JobSituation) -> None:
    cluster(kube).submit([request({"a": {}})])
    turn(kube, Bench(kube), 1)
    looker = cluster(kube)._looker
    pai, configuration = looker._jobs.find("ann~job"), looker._configuration()
    (pod,) = kube.live()
    pod["spec"].pop("nodeName")
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
