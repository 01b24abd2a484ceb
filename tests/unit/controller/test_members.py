"""What a record tells of members of a gang that are replaced alone."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from paictl.cluster.kubernetes.paijob.record import KEPT_REPAIRS, JobRecord, RepairLine, read_record, status_json
from paictl.controller.observation import JobObjects, PodTransition, repaired
from paictl.units import from_unix
from paictl.workload.lifecycle import JobStatus, PodChange, RunState, TaskRef, TaskStatus
from tests.unit.controller.test_deciding import JOB, pod

NOW = from_unix(1_795_000_000)
RUNS = JobStatus(RunState.RUNNING, (TaskStatus("r", 0, RunState.RUNNING), TaskStatus("r", 1, RunState.RUNNING)))
WAITS = replace(RUNS, tasks=(replace(RUNS.tasks[0], state=RunState.WAITING, incarnation=1, retries=1), RUNS.tasks[1]))
BACK = replace(WAITS, tasks=(replace(WAITS.tasks[0], state=RunState.RUNNING), RUNS.tasks[1]))
LOST = (PodTransition(0.0, 0, 1, TaskRef("r", 0, 0), PodChange.LOST, "node n1 is lost: it is not Ready"),)


def seen(node: str, retry: int) -> JobObjects:
    return JobObjects("j", JOB, RUNS, pods=[replace(pod("Running", None), node=node, retry=retry)])


def test_a_lost_member_and_its_return_are_kept() -> None:
    record = JobRecord(WAITS)
    record = replace(record, repairs=repaired(record, RUNS, LOST, seen("n1", 0), NOW))
    assert record.repairs == (RepairLine("r", 0, NOW, "n1", "node n1 is lost: it is not Ready"),)
    later = NOW + timedelta(seconds=9)
    record = replace(record, status=BACK)
    record = replace(record, repairs=repaired(record, WAITS, (), seen("n2", 1), later))
    assert [(one.back, one.node) for one in record.repairs] == [(later, "n2")]
    assert read_record(json.loads(json.dumps(status_json(record)))) == record
    again = replace(record, status=replace(WAITS, tasks=(replace(WAITS.tasks[0], retries=2), RUNS.tasks[1])))
    assert len(repaired(again, BACK, LOST, seen("n2", 1), later)) == 2, "the first stays"


def test_another_attempt_or_the_end_leaves_nobody_waiting() -> None:
    line = RepairLine("r", 0, NOW, "n1", "lost")
    for after in (replace(WAITS, attempt=1), replace(WAITS, state=RunState.FAILED)):
        assert repaired(JobRecord(after, repairs=(line,)), WAITS, (), seen("n1", 0), NOW) == ()


def test_only_the_last_ones_are_kept() -> None:
    lines = tuple(RepairLine("r", 1, NOW, "n1", "lost", NOW, f"n{at}") for at in range(KEPT_REPAIRS))
    found = repaired(JobRecord(WAITS, repairs=lines), RUNS, LOST, seen("n1", 0), NOW)
    assert len(found) == KEPT_REPAIRS
    assert found[-1].back is None
