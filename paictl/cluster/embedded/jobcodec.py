"""Jobs of the embedded cluster as JSON values and back, complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple
from typing import Any

from paictl.cluster.embedded.jobs import LiveJob, Run, TaskRepair
from paictl.scheduler.wire import bind_info_json, read_bind_info
from paictl.units import Millis
from paictl.workload.job import Job
from paictl.workload.lifecycle import JobStatus, RunState, TaskStatus
from paictl.workload.pods import GroupPlan, JobPlan, Pod


def dump_job(job: LiveJob) -> dict[str, Any]:
    """The job as JSON values."""
    status = job.status
    return {
        "key": job.key,
        "number": job.number,
        "data": job.data,
        "plan": dump_plan(job.plan),
        "durations": job.durations,
        "submitted": job.submitted,
        "status": {
            "state": status.state.value, "attempt": status.attempt, "counted": status.counted,
            "tasks": [[t.role, t.index, t.state.value, t.incarnation, t.retries, t.counted] for t in status.tasks],
        },
        "started": job.started,
        "ended": job.ended,
        "preemptions": job.preemptions,
        "runs": [
            [*place, run.incarnation, run.started, bind_info_json(run.info), run.ended, run.reason]
            for place, run in job.runs.items()
        ],
        "demoted_by": job.demoted_by,
        **({"stopped_for": job.stopped_for} if job.stopped_for else {}),
        **({"repairs": [astuple(one) for one in job.repairs]} if job.repairs else {}),
    }  # fmt: skip


def load_job(data: Mapping[str, Any]) -> LiveJob:
    """The inverse of `dump_job`."""
    status = data["status"]
    tasks = tuple(TaskStatus(row[0], row[1], RunState(row[2]), *row[3:]) for row in status["tasks"])
    return LiveJob(
        key=data["key"],
        number=data["number"],
        data=data["data"],
        job=Job.from_mapping(data["data"]),
        plan=load_plan(data["plan"]),
        durations=data["durations"],
        submitted=Millis(data["submitted"]),
        status=JobStatus(RunState(status["state"]), tasks, status["attempt"], status["counted"]),
        started=data["started"],
        ended=data["ended"],
        preemptions=data["preemptions"],
        runs={
            (role, index): Run(incarnation, started, read_bind_info(info), ended, reason)
            for role, index, incarnation, started, info, ended, reason in data["runs"]
        },
        demoted_by=data["demoted_by"],
        stopped_for=data.get("stopped_for", ""),
        repairs=[TaskRepair(*row) for row in data.get("repairs", ())],
    )


def dump_plan(plan: JobPlan) -> dict[str, Any]:
    """A plan as JSON values; kept because the configuration it was made with may change while the job runs."""
    return {
        "job": plan.job, "user": plan.user, "vc": plan.vc, "priority": plan.priority, "gang": plan.gang,
        "groups": [asdict(group) for group in plan.groups.values()],
        "pods": [[pod.name, pod.uid, pod.role, pod.index, pod.leaf_number, pod.group] for pod in plan.pods],
    }  # fmt: skip


def load_plan(data: Mapping[str, Any]) -> JobPlan:
    """The inverse of `dump_plan`."""
    groups = [GroupPlan(**{**row, "members": tuple(map(tuple, row["members"]))}) for row in data["groups"]]
    return JobPlan(
        data["job"], data["user"], data["vc"], data["priority"], data["gang"],
        {group.name: group for group in groups}, tuple(Pod(*row) for row in data["pods"]),
    )  # fmt: skip
