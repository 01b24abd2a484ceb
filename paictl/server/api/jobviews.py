"""Jobs as OpenPAI's clients know them: its names of states, milliseconds since 1970, null where nothing is known."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from paictl.cluster.attempts import JobAttempt
from paictl.cluster.interface import Event, EventKind, JobState, JobView, MemberRepair, TaskView

STATES: Final = {state: state.value.upper() for state in JobState}
"""WAITING, RUNNING, SUCCEEDED, FAILED, STOPPED."""
_SUB_STATES: Final = {JobState.WAITING: "AttemptCreationPending", JobState.RUNNING: "AttemptRunning"}
_WARNINGS: Final = frozenset({EventKind.FAILED, EventKind.PREEMPTED, EventKind.LOST, EventKind.DEMOTED})


def summary(job: JobView) -> dict[str, Any]:
    """A job in a list."""
    user, _, name = job.key.partition("~")
    return {
        "name": name,
        "username": user,
        "state": STATES[job.state],
        "subState": _SUB_STATES.get(job.state, "Completed"),
        "executionType": "STOP" if job.state is JobState.STOPPED else "START",
        "retries": job.attempt,
        "retryDetails": {"user": job.attempt, "platform": job.preemptions, "resource": 0},
        "retryDelayTime": None,
        "createdTime": millis(job.submitted),
        "launchedTime": millis(job.started),
        "completedTime": millis(job.ended),
        "appExitCode": 0 if job.state is JobState.SUCCEEDED else None,
        "virtualCluster": job.vc,
        "jobPriority": job.priority,
        "totalGpuNumber": job.devices,
        "tags": list(job.tags),
    }


def detail(job: JobView) -> dict[str, Any]:
    """A job with its tasks."""
    short = summary(job)
    status = {
        **{
            name: value
            for name, value in short.items()
            if name not in ("name", "launchedTime", "totalGpuNumber", "tags")
        },
        "appId": job.key,
        "appLaunchedTime": millis(job.started),
        "appCompletedTime": millis(job.ended),
        "appExitSpec": None,
        "appExitDiagnostics": job.reason or None,
        "appExitMessages": None,
        "appExitTriggerMessage": None,
        "appExitTriggerTaskRoleName": None,
        "appExitTriggerTaskIndex": None,
        "appExitType": None,
        "maxRunTime": job.max_run_time,
        **({"repairs": [_repair(repair) for repair in job.repairs]} if job.repairs else {}),
    }
    roles: dict[str, Any] = {}
    for task in job.tasks:
        role = roles.setdefault(task.role, {"taskRoleStatus": {"name": task.role}, "taskStatuses": []})
        role["taskStatuses"].append(_task(task))
    totals = {"totalGpuNumber": job.devices, "totalTaskNumber": len(job.tasks), "totalTaskRoleNumber": len(roles)}
    return {"name": short["name"], "jobStatus": status, "taskRoles": roles, "tags": short["tags"], **totals}


def _repair(repair: MemberRepair) -> dict[str, Any]:
    return {
        "taskRoleName": repair.role,
        "taskIndex": repair.index,
        "lostTime": millis(repair.lost),
        "lostNodeName": repair.before or None,
        "reason": repair.reason or None,
        "backTime": millis(repair.back),
        "nodeName": repair.node or None,
    }


def _task(task: TaskView) -> dict[str, Any]:
    state = JobState(task.state)
    return {
        "taskIndex": task.index,
        "taskState": STATES[state],
        "containerId": task.pod or None,
        "containerIp": None,
        "containerNodeName": task.node or None,
        "containerPorts": {},
        "containerGpus": task.shown_devices or None,
        "containerExitCode": 0 if state is JobState.SUCCEEDED else None,
        "containerExitSpec": None,
        "containerExitDiagnostics": task.reason or None,
        "retries": task.attempt,
        "accountableRetries": task.attempt,
        "createdTime": None,
        "completedTime": millis(task.ended),
        "currentAttemptLaunchedTime": millis(task.started),
        "currentAttemptCompletedTime": millis(task.ended),
        "hived": None,
    }


def attempts(job_attempts: Sequence[JobAttempt]) -> list[dict[str, Any]]:
    """The attempts of a job; indices count from 0, as OpenPAI's do."""
    return [
        {
            "attemptIndex": attempt.number,
            "isLatest": attempt is job_attempts[-1],
            "attemptState": attempt.outcome.upper(),
            "attemptLaunchedTime": millis(attempt.started),
            "attemptCompletedTime": millis(attempt.ended),
            "exitCode": attempt.exit_code,
            "exitReason": attempt.reason or None,
            "exitTriggerTask": attempt.task or None,
            "nodes": list(attempt.nodes),
        }
        for attempt in job_attempts
    ]


def events(key: str, recorded: Sequence[Event], kind: str | None) -> dict[str, Any]:
    """What happened to a job, those of one type (``Normal``, ``Warning``) or (None) all."""
    rows = [_event(key, event) for event in recorded]
    rows = [row for row in rows if kind in (None, row["type"])]
    return {"totalCount": len(rows), "data": rows}


def _event(key: str, event: Event) -> dict[str, Any]:
    at = event.at.isoformat()
    return {
        "uid": str(event.number),
        "frameworkName": key,
        "podUid": None,
        "taskroleName": event.data.get("role"),
        "taskIndex": event.data.get("index"),
        "type": "Warning" if event.kind in _WARNINGS else "Normal",
        "reason": event.kind.value,
        "message": event.message,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "sourceComponent": "paictl",
        "sourceHost": event.data.get("node"),
    }


def millis(at: datetime | None) -> int | None:
    """Milliseconds since 1970."""
    return None if at is None else round(at.timestamp() * 1000)
