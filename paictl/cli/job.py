"""`paictl job`: submit jobs, follow them, understand why they wait, stop them."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console, jobshow, names
from paictl.cli.clusters import (
    OutputOption,
    StateOption,
    clock_text,
    lab_site,
    me,
    open_cluster,
    show_events,
    showing_reports,
    warn,
)
from paictl.cli.command import App
from paictl.cli.console import Output, said, write, write_data, write_table
from paictl.cli.jobshow import job_data
from paictl.cli.options import WatchTimeout
from paictl.cli.settings import settings
from paictl.cluster.capabilities import HandClock
from paictl.cluster.interface import Cluster, Jobs, JobState, JobView
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import did_you_mean, text
from paictl.operate import jobs as operate
from paictl.operate.jobs import Filter, SubmitPorts, find_job
from paictl.operate.jobs import list_jobs as chosen
from paictl.units import span_text

if TYPE_CHECKING:
    from paictl.config.reading.problem import Problem

EXAMPLES = """
    paictl job submit job.yaml
    paictl job list
    paictl job explain train
"""

app = App(help="Submit jobs, follow them, understand why they wait.", epilog=EXAMPLES)

UserOption = Annotated[str | None, typer.Option("--user", help="Owner of the job (default: you).")]
TagsOption = Annotated[list[str] | None, typer.Option("--tag", metavar="TAG", help="Tag of the job; repeatable.")]
JobName = Annotated[
    str, typer.Argument(metavar="JOB", autocompletion=names.jobs, help="USER~NAME, or NAME alone for your own.")
]


@app.command(
    epilog="""
    paictl job submit train.yaml --vc vision --priority prod --duration 5m
    paictl job submit --file list.txt
    paictl job submit train.yaml --repeat 100 --tag sweep-7
    paictl job submit --template vision/resnet --set epochs=20 --name resnet-20
"""
)
def submit(
    files: Annotated[list[str] | None, typer.Argument(help="Job files (OpenPAI protocol v2), or - for stdin.")] = None,
    listed: Annotated[Path | None, typer.Option("--file", help="A file that lists job files, one per line.")] = None,
    vc: Annotated[
        str | None, typer.Option("--vc", autocompletion=names.vcs, help="Virtual cluster (overrides the file's).")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", autocompletion=names.priorities, help="oppo, test, prod or crit.")
    ] = None,
    duration: Annotated[str | None, typer.Option("--duration", help="How long each task runs, e.g. 5m.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, help="Submit each file N times, as NAME-1, NAME-2, …")] = 1,
    name: Annotated[str | None, typer.Option("--name", help="Name of the job (overrides the file's).")] = None,
    tags: TagsOption = None,
    template: Annotated[
        str | None,
        typer.Option(
            "--template", metavar="LIBRARY/FILE", help="A job template instead of a file: paictl template list."
        ),
    ] = None,
    settings_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PARAMETER=VALUE", help="With --template: a parameter of the job; repeatable."),
    ] = None,
    user: UserOption = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Submit jobs: all of the files, or none."""
    from paictl.operate.jobfiles import SubmitOptions, files_listed  # late: only what reads job files needs the linter

    paths = [*(files or []), *(files_listed(listed) if listed else [])]
    if template is not None and paths:
        raise PaictlError(text("--template works without job files"), hint=text("give either of the two"))
    if settings_ and template is None:
        raise PaictlError(text("--set works with --template only"), hint=text("edit the parameters of the file"))
    if not paths and template is None:
        raise PaictlError("no job file given", hint="paictl job submit FILE, or --file LIST")
    if name is not None and len(paths) > 1:
        raise PaictlError("--name works with a single file only")
    with showing_reports(), console.progress("submitting"):
        wishes = SubmitOptions(vc, priority, duration, name, repeat, tuple(tags or ()))
        read, noted = _from_template(state, template, settings_ or ())
        done = operate.submit(_taking(state), read or paths, user or me(), wishes, read)
    warn((*noted, *done.warnings), "paictl config validate FILE")
    for said_no in done.unchecked:
        console.warning(said_no)
    for remark in operate.remarks(open_cluster(state), done.jobs):
        console.warning(remark)
    if output is not Output.TABLE:
        write_data([job_data(job) for job in done.jobs], output)
        return
    cluster = open_cluster(state)
    for job in done.jobs[:20]:
        write(f"{job.key}  {job.state.value}")
        if isinstance(cluster, HandClock):
            for mount in operate.mounts(cluster, job):
                console.info(text("simulated: {mount} would be mounted", mount=str(mount)))
    if len(done.jobs) > 20:
        write(console.spoken("and {count} more", count=len(done.jobs) - 20))


def _from_template(
    state: Path | None, word: str | None, given: Iterable[str]
) -> tuple[dict[str, Mapping[str, object]], list[Problem]]:  # fmt: skip
    """The job that a template makes, by where it stands, and its warnings; nothing without a template."""
    noted: list[Problem] = []
    if word is None:
        return {}, noted
    from paictl.operate.templates import job_from  # late: it needs the linter

    pairs = [pair.partition("=") for pair in given]
    for name, sign, _ in pairs:
        if not name or not sign:
            raise PaictlError(text("--set needs PARAMETER=VALUE, not {word!r}", word=name))
    where, job = job_from(open_cluster(state), word, {name: value for name, _, value in pairs}, noted.append)
    return {where: job}, noted


def _taking(state: Path | None) -> SubmitPorts:
    """The cluster that jobs are submitted to; in a lab at a site they are shorter by its pace."""
    cluster, site = open_cluster(state), lab_site()
    if site is None:
        return cluster
    from paictl.lab.pacing import Paced  # late: few submit there

    return Paced(cluster, site.pace)


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
        list[str] | None, typer.Option("--job-state", "-s", metavar="STATE", help="Only waiting, running, succeeded, …")
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
    """The jobs, with `watch` again and again until the monotonic clock is at `end`."""
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
        (*_row(cluster, job), *([span_text(job.max_run_time)] if limited else ()),
         *([", ".join(job.tags)] if tagged else ()))
        for job in jobs
    ]  # fmt: skip
    write_table(heads, rows)


def _row(cluster: Cluster, job: JobView) -> tuple[object, ...]:
    ran = None if job.started is None else (job.ended if job.ended is not None else cluster.now) - job.started
    return (
        job.key, job.state.value, job.vc, job.priority, _held(job), clock_text(job.submitted),
        span_text(ran), job.preemptions,
    )  # fmt: skip


def _held(job: JobView) -> str:
    return f"{job.devices}" if job.state.ended else f"{job.used}/{job.devices}"


@app.command(epilog="paictl job show train")
def show(job: JobName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show one job with its tasks: where they run, on which devices; and how its attempts ended, if it was retried."""
    cluster = open_cluster(state)
    jobshow.show(cluster, _find(cluster, job), output)


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
    """Add tags to a job, or remove them; finished jobs too. A clone keeps them, and the scheduler ignores them."""
    if not tags and not remove:
        raise PaictlError(text("nothing is to be changed"), hint=text("name the tags to add, or give --remove TAG"))
    key, now = operate.tag(open_cluster(state), job, me(), tags or (), remove or ())
    console.outcome(text("job {job}: {tags}", job=key, tags=", ".join(now) or "-"), name=key, tags=list(now))


@app.command(
    epilog="""
    paictl job clone train > again.yaml
    paictl job clone train --edit
    paictl job clone train --submit --priority oppo
"""
)
def clone(
    job: JobName,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the new job (default: the next free number).")
    ] = None,
    vc: Annotated[
        str | None, typer.Option("--vc", autocompletion=names.vcs, help="Virtual cluster, instead of the job's.")
    ] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", autocompletion=names.priorities, help="oppo, test, prod or crit.")
    ] = None,
    edit: Annotated[bool, typer.Option("--edit", help="Open it in $EDITOR, then submit it.")] = False,
    again: Annotated[bool, typer.Option("--submit", help="Submit it without changes.")] = False,
    user: UserOption = None,
    state: StateOption = None,
) -> None:
    """Print a submitted job as a job file, under a free name; or submit it again."""
    from paictl.cli import jobclone  # late: only this command needs an editor, and what writes YAML

    cluster, whose = open_cluster(state), user or me()
    copy = jobclone.clone(cluster, _find(cluster, job), whose, name).instead(vc, priority)

    def send(path: str) -> None:
        submit(files=[path], listed=None, vc=None, priority=None, duration=None, repeat=1, name=None, tags=None,
               template=None, settings_=None, user=whose, output=Output.TABLE, state=state)  # fmt: skip

    if edit:
        jobclone.edited(copy, send)
    elif again:
        jobclone.submitted(copy, send)
    else:
        jobclone.show(copy)


def _streams(state: Path | None, job: str) -> tuple[ModuleType, Cluster, JobView]:
    """What goes between a terminal and a container of a job."""
    cluster = open_cluster(state)
    return _late()[0], cluster, _find(cluster, job)


def _late() -> tuple[ModuleType, ModuleType]:
    """The modules of commands that reach into containers."""
    from paictl.cli import jobstreams, sessions

    return jobstreams, sessions


def _find(cluster: Jobs, word: str) -> JobView:
    return find_job(cluster, word, me())


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


TaskOption = Annotated[
    str | None, typer.Option("--task", metavar="ROLE:INDEX", help="Which task; the first one of the job by default.")
]


@app.command(
    epilog="""
    paictl job logs train --task worker:3 -f
    paictl job logs train --tail 100
    paictl job logs train -f --timeout 600
"""
)
def logs(
    job: JobName,
    task: TaskOption = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for the task to start, and follow it until it ends.")
    ] = False,
    tail: Annotated[int | None, typer.Option("--tail", min=0, metavar="LINES", help="Only the last lines.")] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", min=0, metavar="SECONDS", help="With -f: how long to wait for the task to start."),
    ] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show the output of a task; if pods are simulated, the events of the job."""
    jobstreams, cluster, view = _streams(state, job)
    imagined = isinstance(cluster, HandClock)  # nothing happens there by waiting
    if task is None and imagined and not follow:
        show_events(cluster, f"job/{view.key}", output)
        return
    wait = math.inf if timeout is None else timeout
    jobstreams.show_log(cluster, view, task, output, follow=follow and not imagined, lines=tail, timeout=wait)


@app.command(epilog="paictl job events train")
def events(job: JobName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show the events of a job's life."""
    cluster = open_cluster(state)
    show_events(cluster, f"job/{_find(cluster, job).key}", output)


@app.command(
    "exec",
    epilog="""
    paictl job exec train --task worker:0 -- nvidia-smi
    paictl job exec train -it -- bash
""",
)
def exec_(
    job: JobName,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its arguments.")],
    task: TaskOption = None,
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass standard input on.")] = False,
    terminal: Annotated[bool, typer.Option("--tty", "-t", help="Allocate a terminal.")] = False,
    state: StateOption = None,
) -> None:
    """Run a command in the container of a running task; the exit code is the command's."""
    jobstreams, cluster, view = _streams(state, job)
    code = jobstreams.run(cluster, view, task, command, stdin=stdin, terminal=terminal)
    if code:
        raise typer.Exit(code)


@app.command(
    "run",
    epilog="""
    paictl job run --interactive pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime --gpu 1
    paictl job run --interactive ubuntu:24.04 --gpu 0 --cpu 8 --memory 16384 --idle-timeout 30m
    paictl job run --interactive python:3.12 -- python3
    paictl job run --notebook quay.io/jupyter/pytorch-notebook:cuda12-latest --keep
""",
)
def run(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Image of the session.")],
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="A command instead of a shell.")
    ] = None,
    *,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Start a shell; the session ends when the shell exits.")
    ] = False,
    notebook: Annotated[
        bool, typer.Option("--notebook", help="JupyterLab of the image, open to this machine until Ctrl-C.")
    ] = False,
    gpu: Annotated[int, typer.Option("--gpu", min=0, help="Devices.")] = 1,
    cpu: Annotated[int, typer.Option("--cpu", min=0, help="CPUs.")] = 4,
    memory: Annotated[int, typer.Option("--memory", min=0, metavar="MIB", help="Memory in MiB.")] = 8192,
    sku: Annotated[str | None, typer.Option("--sku", help="SKU type (default: any).")] = None,
    vc: Annotated[str | None, typer.Option("--vc", autocompletion=names.vcs, help="Virtual cluster.")] = None,
    priority: Annotated[
        str | None, typer.Option("--priority", autocompletion=names.priorities, help="oppo, test, prod or crit.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the job (default: session-N or notebook-N).")
    ] = None,
    idle_timeout: Annotated[
        str,
        typer.Option(
            "--idle-timeout", metavar="SPAN", help="End the session after this long without a shell or other use."
        ),
    ] = "1h",
    keep: Annotated[bool, typer.Option("--keep", help="Keep it when the shell ends, or at Ctrl-C.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for the session to start.")
    ] = 600,
    user: UserOption = None,
    state: StateOption = None,
) -> None:
    """Run a session: a task with a shell or a notebook, which gives its devices back when you are done."""
    if interactive == notebook or (notebook and command):
        raise PaictlError(
            text("paictl job run needs either --interactive or --notebook"),
            hint=text("for a job from a file: paictl job submit FILE"),
        )
    cluster = open_cluster(state)
    sessions = _late()[1]
    spec = sessions.wish(image, gpu, cpu, memory, idle_timeout, sku)
    code = sessions.run(
        cluster, user or me(), spec, tuple(command or ()), name=name, vc=vc, priority=priority, keep=keep,
        timeout=timeout, notebook=notebook,
    )  # fmt: skip
    if code:
        raise typer.Exit(code)


@app.command(
    epilog="""
    paictl job ssh train --task worker:0
    paictl job ssh train -i ~/.ssh/id_lab -- nvidia-smi
    paictl job ssh train --print
"""
)
def ssh(
    job: JobName,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND...", help="A command instead of a shell.")
    ] = None,
    task: TaskOption = None,
    identity: Annotated[
        Path | None, typer.Option("--identity", "-i", metavar="FILE", help="Private key, as for ssh.")
    ] = None,
    only_print: Annotated[
        bool, typer.Option("--print", help="Print the ssh command, for other programs, and run nothing.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Sign in to a running task. Without the plugin ssh in the job, the shell comes through the API server."""
    jobstreams, cluster, view = _streams(state, job)
    code = jobstreams.sign_in(cluster, view, task, command or (), identity=identity, only_print=only_print)
    if code:
        raise typer.Exit(code)


@app.command(
    "open",
    epilog="""
    paictl job open train
    paictl job open train --task worker:0 --port tensorboard --browser
    paictl job open train --port 8888 --listen 0
    paictl job open train --port 50051 --raw
""",
)
def open_(
    job: JobName,
    task: TaskOption = None,
    port: Annotated[
        str | None,
        typer.Option("--port", metavar="PORT", help="Port of the task: a label of the job, tensorboard, or a number."),
    ] = None,
    listen: Annotated[
        int | None,
        typer.Option("--listen", min=0, max=65535, metavar="PORT", help="Port of this machine, 0 for any free one."),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser.")] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Allow protocols other than HTTP (SSH, gRPC); any user of this machine can then connect."
        ),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for the task to start.")
    ] = 0,
    state: StateOption = None,
) -> None:
    """Forward a port of a running task to this machine: TensorBoard, a notebook, or any other server.

    Runs until Ctrl-C. Only a browser that opened the printed address can connect.
    """
    jobstreams, cluster, view = _streams(state, job)
    jobstreams.open_port(cluster, view.key, task, port, listen=listen, browser=browser, timeout=timeout, raw=raw)


@app.command(
    epilog="""
    paictl job explain train
    paictl job explain train -o wide
    paictl job explain train -o json
"""
)
def explain(job: JobName, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Explain why a job is waiting, and the smallest change that would let it run.

    With -o wide, also shows what was found in each place that was tried, and the largest smaller job that would not
    wait.
    """
    from paictl.operate import explaining  # late: only this command needs the scheduler's explanations

    cluster = open_cluster(state)
    explanation = cluster.explain(_find(cluster, job).key)
    if output is not Output.TABLE:
        write_data(explaining.data(explanation), output)
        return
    for line in explaining.lines(explanation, full=settings.wide):
        write(said(line))
