"""`paictl job list`, `events`, `tag` and `stop`: what needs no more than the jobs of a cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption, StateOption, clock_text, me, open_cluster, show_events
from paictl.cli.command import App
from paictl.cli.console import Output, write_data, write_table
from paictl.cli.job.options import JobName, find, job_data
from paictl.cli.options import WatchTimeout
from paictl.cluster.interface import Cluster, JobState, JobView
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import did_you_mean, text
from paictl.operate import jobs as operate
from paictl.operate.jobs import Filter
from paictl.operate.jobs import list_jobs as chosen
from paictl.units import span_text

app = App()


def _state(word: str) -> JobState:
    names = [state.value for state in JobState]
    if word.capitalize() not in names:
        hint = did_you_mean(word, names) or text("one of: {known}", known=", ".join(names).lower())
        raise PaictlError(text("no job state {word!r}", word=word), hint=hint)
    return JobState(word.capitalize())


@app.command(
    "list",
    epilog="""
    paictl job list --watch
    paictl job list --vc vc1 -s waiting
    DEVICES is used/requested, RAN the time of the current attempt
    MAX RUN TIME and TAGS appear if a job has them
""",
)
def list_jobs(
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Only waiting and running jobs.")] = False,
    vc: Annotated[
        str | None, typer.Option("--vc", autocompletion=names.vcs, help="Only jobs of a virtual cluster.")
    ] = None,
    states: Annotated[
        list[str] | None,
        typer.Option(
            "--job-state", "-s", metavar="STATE", help="Only jobs in this state: waiting, running, succeeded, …"
        ),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only jobs of a user.")] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="Only jobs with this tag; with one of several.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second, until Ctrl-C.")] = False,
    timeout: WatchTimeout = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """List jobs: state, VC, priority, devices, times. For a job's tasks: paictl job show JOB."""
    wanted = Filter(vc, frozenset(map(_state, states or ())), user, unfinished, frozenset(tags or ()))
    cluster = open_cluster(state)
    end = time.monotonic() + (math.inf if timeout is None else timeout)
    with console.full_screen(watch):
        _show_jobs(cluster, wanted, output, watch=watch, end=end)


def _show_jobs(cluster: Cluster, wanted: Filter, output: Output, *, watch: bool, end: float) -> None:
    """Write the jobs; with `watch` every second until the monotonic clock reaches `end`."""
    while True:
        jobs = chosen(cluster, wanted)
        if watch:
            console.clear_screen()
        if output is Output.TABLE:
            _write_jobs(cluster, jobs)
        else:
            listed = [job_data(job) for job in jobs]
            write_data([{name: value for name, value in data.items() if name != "tasks"} for data in listed], output)
        if not watch or time.monotonic() + 1 > end:
            return
        time.sleep(1)


def _write_jobs(cluster: Cluster, jobs: Sequence[JobView]) -> None:
    limited, tagged = any(job.max_run_time is not None for job in jobs), any(job.tags for job in jobs)
    heads = ("JOB", "STATE", "VC", "PRIORITY", "DEVICES", "SUBMITTED", "RAN", "PREEMPTED")
    heads += (*(["MAX RUN TIME"] if limited else ()), *(["TAGS"] if tagged else ()))
    rows = [
        (
            *_row(cluster, job),
            *([span_text(job.max_run_time)] if limited else ()),
            *([", ".join(job.tags)] if tagged else ()),
        )
        for job in jobs
    ]
    write_table(heads, rows)


def _row(cluster: Cluster, job: JobView) -> tuple[object, ...]:
    ran = None if job.started is None else (job.ended if job.ended is not None else cluster.now) - job.started
    return (
        job.key,
        job.state.value,
        job.vc,
        job.priority,
        _held(job),
        clock_text(job.submitted),
        span_text(ran),
        job.preemptions,
    )


def _held(job: JobView) -> str:
    return f"{job.devices}" if job.state.ended else f"{job.used}/{job.devices}"


@app.command(epilog="paictl job events train")
def events(job: JobName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show the events of a job's life."""
    cluster = open_cluster(state)
    show_events(cluster, f"job/{find(cluster, job).key}", output)


@app.command(
    epilog="""
    paictl job tag train sweep-7 baseline
    paictl job tag train --remove baseline
    paictl job list --tag sweep-7
"""
)
def tag(
    job: JobName,
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG...", help="Tags to add.")] = None,
    remove: Annotated[
        list[str] | None, typer.Option("--remove", metavar="TAG", help="Tag to remove; repeatable.")
    ] = None,
    state: StateOption = None,
) -> None:
    """Add tags to a job, or remove them, even if it has finished. A clone keeps them, and the scheduler ignores
    them."""
    if not tags and not remove:
        raise PaictlError(text("there is nothing to change"), hint=text("name the tags to add, or give --remove TAG"))
    key, now = operate.tag(open_cluster(state), job, me(), tags or (), remove or ())
    console.outcome(text("job {job}: {tags}", job=key, tags=", ".join(now) or "-"), name=key, tags=list(now))


@app.command(epilog="paictl job stop train")
def stop(
    jobs: Annotated[list[str], typer.Argument(metavar="JOB...", autocompletion=names.jobs, help="Jobs.")],
    state: StateOption = None,
) -> None:
    """Stop jobs."""
    done = operate.stop(open_cluster(state), jobs, me())
    for result in done:
        if result.error is not None:
            console.error(result.error)
        elif result.before is not None:
            if result.before.ended:
                message = text("job {job} has already ended ({state})", job=result.key, state=result.before.value)
            else:
                message = text("job {job} stopped", job=result.key)
            console.outcome(message, name=result.key, before=result.before.value, stopped=not result.before.ended)
    errors = [result.error for result in done if result.error is not None]
    if errors:
        raise typer.Exit(ExitCode.PARTIAL if len(errors) < len(done) else errors[0].exit_code)
