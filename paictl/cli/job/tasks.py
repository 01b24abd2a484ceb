"""`paictl job logs`, `exec`, `ssh` and `open`: what reaches into the tasks of a job."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli.clusters import OutputOption, StateOption, open_cluster, show_events
from paictl.cli.command import App
from paictl.cli.console import Output
from paictl.cli.job import streams
from paictl.cli.job.options import JobName, TaskOption, find
from paictl.cluster.capabilities import HandClock

app = App()


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
    cluster = open_cluster(state)
    view = find(cluster, job)
    simulated = isinstance(cluster, HandClock)  # waiting changes nothing there
    if task is None and simulated and not follow:
        show_events(cluster, f"job/{view.key}", output)
        return
    wait = math.inf if timeout is None else timeout
    streams.show_log(cluster, view, task, output, follow=follow and not simulated, lines=tail, timeout=wait)


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
    cluster = open_cluster(state)
    view = find(cluster, job)
    code = streams.run(cluster, view, task, command, stdin=stdin, terminal=terminal)
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
    """Sign in to a running task. Without the plugin ssh in the job, the shell goes through the API server."""
    cluster = open_cluster(state)
    view = find(cluster, job)
    code = streams.sign_in(cluster, view, task, command or (), identity=identity, only_print=only_print)
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
    cluster = open_cluster(state)
    view = find(cluster, job)
    streams.open_port(cluster, view.key, task, port, listen=listen, browser=browser, timeout=timeout, raw=raw)
