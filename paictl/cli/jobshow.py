"""`paictl job show`: one job with its tasks and attempts, in words or as data."""

from __future__ import annotations

from typing import Any

from paictl.cli import console
from paictl.cli.clusters import clock_text, plain
from paictl.cli.console import Output, clauses, said, spoken, write, write_data, write_table
from paictl.cluster.attempts import JobAttempt, attempts_of
from paictl.cluster.eventtext import reasons
from paictl.cluster.interface import Cluster, JobView, MemberRepair
from paictl.i18n import counted, text
from paictl.operate import jobs as operate
from paictl.units import span_text


def job_data(job: JobView) -> dict[str, Any]:
    """A job as plain data; instants as in RFC 3339, attempts counted from 1 as people do."""
    data: dict[str, Any] = plain(job)
    for one in (data, *data["tasks"]):
        one["attempt"] += 1
    return data


def show(cluster: Cluster, found: JobView, output: Output) -> None:
    """Write a job."""
    attempts = attempts_of(found, cluster.events(f"job/{found.key}"))
    if output is not Output.TABLE:
        write_data({**job_data(found), "attempts": [_attempt_data(attempt) for attempt in attempts]}, output)
        return
    head = spoken("job {job}: {state}", job=found.key, state=found.state.value)
    write(clauses([head, said(reasons(found.reason))] if found.reason else [head]))
    preempted = spoken(", {count} preempted", count=found.preemptions) if found.preemptions else ""
    devices = counted("{count} device", "{count} devices", found.devices)
    write(
        spoken(
            "virtual cluster {vc}, priority {priority}, {used} of {devices} in use, attempt {attempt}",
            vc=found.vc, priority=found.priority, used=found.used, devices=devices, attempt=found.attempt + 1,
        ) + preempted
    )  # fmt: skip
    times = [("submitted", found.submitted), ("started", found.started), ("ended", found.ended)]
    write(clauses(f"{said(word)} {clock_text(at)}" for word, at in times if at is not None))
    if found.ends_by is not None:
        until, limit = clock_text(found.ends_by), span_text(found.max_run_time)
        write(spoken("runs until {until} at the latest (maxRunTime {limit})", until=until, limit=limit))
    elif found.max_run_time is not None:
        write(spoken("runs for {limit} at most (maxRunTime)", limit=span_text(found.max_run_time)))
    if found.tags:
        write(spoken("tags: {tags}", tags=", ".join(found.tags)))
    for mount in operate.mounts(cluster, found):
        write(spoken("storage {mount}", mount=str(mount)))
    rows = [
        (
            f"{task.role}[{task.index}]",
            task.state,
            task.node or "-",
            task.shown_devices,
            said(reasons(task.reason)),
        )
        for task in found.tasks
    ]
    write("")
    write_table(("TASK", "STATE", "NODE", "DEVICES", "WHY"), rows)
    if len(attempts) > 1:
        write("")
        write(spoken("attempts:"))
        write_table(("ATTEMPT", "STARTED", "ENDED", "OUTCOME", "EXIT CODE", "WHY"), list(map(_attempt, attempts)))
    if found.repairs:
        write("")
        write(spoken("lost members that were replaced while the others kept running:"))
        write_table(("TASK", "LOST AT", "NODE", "WHY", "BACK AFTER", "NOW"), list(map(_repair, found.repairs)))
    if found.state.value == "Waiting":
        console.info(text("why it waits: paictl job explain {job}", job=found.key))


def _attempt(one: JobAttempt) -> tuple[str, ...]:
    why = said(reasons(one.reason))
    if one.task and one.reason:
        why = spoken("{task}: {reason}", task=one.task, reason=why)
    started, ended = (clock_text(at) if at is not None else "-" for at in (one.started, one.ended))
    code = "-" if one.exit_code is None else str(one.exit_code)
    return str(one.number + 1), started, ended, spoken(one.outcome), code, why


def _attempt_data(one: JobAttempt) -> dict[str, Any]:
    data: dict[str, Any] = plain(one)
    return {**data, "number": one.number + 1}


def _repair(one: MemberRepair) -> tuple[str, ...]:
    after = spoken("waits") if one.back is None else span_text(one.back - one.lost)
    task, why = f"{one.role}[{one.index}]", said(reasons(one.reason))
    return task, clock_text(one.lost), one.before or "-", why, after, one.node or "-"
