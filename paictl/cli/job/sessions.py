"""`paictl job run`: submit a session or notebook, wait for it, use it, and end it when its user is done."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from paictl.cli import console, names
from paictl.cli.clusters import StateOption, me, open_cluster
from paictl.cli.command import App
from paictl.cli.job import streams
from paictl.cli.job.options import UserOption
from paictl.cluster.capabilities import HandClock
from paictl.cluster.interface import FOREVER, Cluster, ClusterError, JobRequest, NotStartedError, UnsupportedError
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.cloning import free_name
from paictl.operate.sessions import NOTEBOOK, NOTEBOOK_PORT, ROLE, SessionSpec, session_data, shell_command
from paictl.units import DurationError, parse_duration, span_text

app = App()

_LEAST_IDLE = 60
"""Seconds: the session checks for shells every few seconds, and the first one needs time to start."""


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
    spec = session_spec(image, gpu, cpu, memory, idle_timeout, sku)
    code = run_session(
        cluster,
        user or me(),
        spec,
        tuple(command or ()),
        name=name,
        vc=vc,
        priority=priority,
        keep=keep,
        timeout=timeout,
        notebook=notebook,
    )
    if code:
        raise typer.Exit(code)


def session_spec(image: str, gpu: int, cpu: int, memory: int, idle: str, sku: str | None) -> SessionSpec:
    """What a session requests; raises `PaictlError` for an invalid time."""
    try:
        seconds = parse_duration(idle)
    except DurationError as error:
        error.where = "--idle-timeout"
        raise
    if not _LEAST_IDLE <= seconds <= 30 * 86_400:
        raise PaictlError(
            text("--idle-timeout {word}: must be 1m to 30d", word=idle), hint=text("for instance 30m or 2h")
        )
    return SessionSpec(image, gpu, cpu, memory, int(seconds), sku)


def run_session(
    cluster: Cluster,
    user: str,
    spec: SessionSpec,
    command: tuple[str, ...],
    *,
    name: str | None,
    vc: str | None,
    priority: str | None,
    keep: bool,
    timeout: float,
    notebook: bool = False,
) -> int:
    """Run a session; returns the exit code of its shell. A `notebook` is open to this machine until Ctrl-C.

    Raises `PaictlError` for a session that is not possible, or does not start.
    """
    if isinstance(cluster, HandClock):
        raise UnsupportedError(
            text("tasks of this cluster are simulated: nothing runs in them"),
            hint=text("run a session on a Kubernetes cluster: --cluster NAME"),
        )
    chosen = name or free_name(cluster, user, NOTEBOOK if notebook else ROLE)
    (job,) = cluster.submit([JobRequest(user, session_data(chosen, spec, notebook=notebook), vc, priority, FOREVER)])
    values = {
        "job": job.key,
        "gpu": spec.gpu,
        "cpu": spec.cpu,
        "memory": spec.memory,
        "vc": job.vc,
        "idle": span_text(spec.idle * 1000),
    }
    console.info(
        text(
            "notebook {job} asks for {gpu} devices, {cpu} CPUs and {memory} MiB in virtual cluster {vc}; "
            "it ends with Ctrl-C, after {idle} without use, or by: paictl job stop {job}",
            **values,
        )
        if notebook
        else text(
            "session {job} asks for {gpu} devices, {cpu} CPUs and {memory} MiB in virtual cluster {vc}; "
            "it ends with its shell, after {idle} without one, or by: paictl job stop {job}",
            **values,
        )
    )
    ended = False
    try:
        streams.running(lambda: _refuse_unless_running(cluster, job.key), timeout)
        if notebook:
            ended = True
            streams.open_port(cluster, job.key, NOTEBOOK, NOTEBOOK_PORT, listen=None, browser=False, timeout=timeout)
        terminal = sys.stdin.isatty() and sys.stdout.isatty()
        words = shell_command(command, spec.idle)
        code = streams.run(cluster, cluster.job(job.key), f"{ROLE}:0", words, stdin=True, terminal=terminal)
        ended = True
        return code
    finally:
        if not (keep and ended):
            cluster.stop_job(job.key)
        elif notebook:
            console.info(text("the notebook keeps running; open it again: paictl job open {job}", job=job.key))
        else:
            console.info(text("the session keeps running; another shell: paictl job ssh {job}", job=job.key))


def _refuse_unless_running(cluster: Cluster, key: str) -> None:
    """Raise `NotStartedError` for a session that may yet start, `ClusterError` for one that never will."""
    job = cluster.job(key)
    if job.state.ended:
        message = text("session {job} has ended: {reason}", job=key, reason=job.reason or job.state.value)
        raise ClusterError(message, hint=text("what happened: paictl job events {job}", job=key))
    task = next(iter(job.tasks), None)
    if task is None or task.started is None or task.state.lower() != "running":
        reason = (task.reason if task is not None else "") or job.reason or text("it waits for devices")
        raise NotStartedError(
            text("session {job} has not started: {reason}", job=key, reason=reason),
            hint=text("why: paictl job explain {job}", job=key),
        )
