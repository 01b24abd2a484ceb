"""`paictl job show`: one job with its tasks and attempts, in words or as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, clock_text, open_cluster, plain
from paictl.cli.command import App
from paictl.cli.console import Output, clauses, localized, write, write_data, write_table
from paictl.cli.job.options import JobName, find, job_data
from paictl.cluster.attempts import JobAttempt, attempts_of
from paictl.cluster.eventtext import reasons
from paictl.cluster.interface import Cluster, JobView, MemberRepair
from paictl.i18n import counted, text
from paictl.operate import jobs as operate
from paictl.units import span_text

app = App()


@app.command(epilog="paictl job show train")
def show(job: JobName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show one job with its tasks: where they run, on which devices; and how its attempts ended, if it was retried."""
    cluster = open_cluster(state)
    _show(cluster, find(cluster, job), output)


def _show(cluster: Cluster, job: JobView, output: Output) -> None:
    attempts = attempts_of(job, cluster.events(f"job/{job.key}"))
    if output is not Output.TABLE:
        write_data({**job_data(job), "attempts": [_attempt_data(attempt) for attempt in attempts]}, output)
        return
    _show_summary(cluster, job)
    write("")
    _show_tasks(job, attempts)
    if job.state.value == "Waiting":
        console.info(text("why it waits: paictl job explain {job}", job=job.key))


def _show_summary(cluster: Cluster, job: JobView) -> None:
    """What holds for the job as a whole."""
    head = localized("job {job}: {state}", job=job.key, state=job.state.value)
    write(clauses([head, localized(reasons(job.reason))] if job.reason else [head]))
    times = counted(", preempted {count} time", ", preempted {count} times", job.preemptions)
    preempted = localized(times) if job.preemptions else ""
    devices = counted("{count} device", "{count} devices", job.devices)
    write(
        localized(
            "virtual cluster {vc}, priority {priority}, {used} of {devices} in use, attempt {attempt}",
            vc=job.vc,
            priority=job.priority,
            used=job.used,
            devices=devices,
            attempt=job.attempt + 1,
        )
        + preempted
    )
    moments = [("submitted", job.submitted), ("started", job.started), ("ended", job.ended)]
    write(clauses(f"{localized(word)} {clock_text(at)}" for word, at in moments if at is not None))
    if job.ends_by is not None:
        until, limit = clock_text(job.ends_by), span_text(job.max_run_time)
        write(localized("runs until {until} at the latest (maxRunTime {limit})", until=until, limit=limit))
    elif job.max_run_time is not None:
        write(localized("runs for {limit} at most (maxRunTime)", limit=span_text(job.max_run_time)))
    if job.tags:
        write(localized("tags: {tags}", tags=", ".join(job.tags)))
    for mount in operate.mounts(cluster, job):
        write(localized("storage {mount}", mount=str(mount)))


def _show_tasks(job: JobView, attempts: Sequence[JobAttempt]) -> None:
    """Its tasks, attempts and repairs, a table each."""
    rows = [
        (
            f"{task.role}[{task.index}]",
            task.state,
            task.node or "-",
            task.shown_devices,
            localized(reasons(task.reason)),
        )
        for task in job.tasks
    ]
    write_table(("TASK", "STATE", "NODE", "DEVICES", "WHY"), rows)
    if len(attempts) > 1:
        write("")
        write(localized("attempts:"))
        write_table(("ATTEMPT", "STARTED", "ENDED", "OUTCOME", "EXIT CODE", "WHY"), list(map(_attempt, attempts)))
    if job.repairs:
        write("")
        write(localized("lost members that were replaced while the others kept running:"))
        write_table(("TASK", "LOST AT", "NODE", "WHY", "BACK AFTER", "NOW"), list(map(_repair, job.repairs)))


def _attempt(attempt: JobAttempt) -> tuple[str, ...]:
    why = localized(reasons(attempt.reason))
    if attempt.task and attempt.reason:
        why = localized("{task}: {reason}", task=attempt.task, reason=why)
    started, ended = (clock_text(at) if at is not None else "-" for at in (attempt.started, attempt.ended))
    code = "-" if attempt.exit_code is None else str(attempt.exit_code)
    return str(attempt.number + 1), started, ended, localized(attempt.outcome), code, why


def _attempt_data(attempt: JobAttempt) -> dict[str, Any]:
    data: dict[str, Any] = plain(attempt)
    return {**data, "number": attempt.number + 1}


def _repair(repair: MemberRepair) -> tuple[str, ...]:
    after = localized("waits") if repair.back is None else span_text(repair.back - repair.lost)
    task, why = f"{repair.role}[{repair.index}]", localized(reasons(repair.reason))
    return task, clock_text(repair.lost), repair.before or "-", why, after, repair.node or "-"
