"""`paictl support`: what to send along with a report."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App
from paictl.cli.console import Output, said, spoken, write_data, write_table
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.operate.replay import replay as play
from paictl.operate.support import archive, gather
from paictl.places import log_file, state_folder

app = App(
    help="Collect information for a problem report.",
    epilog="""
paictl support log
paictl support bundle
paictl support replay paictl-support-pai-20260901T120000Z.tar.gz
""",
)


@app.callback()
def support() -> None:
    """Hold the commands."""


@app.command(
    epilog="""
    paictl support bundle
    paictl support bundle --cluster prod --file /tmp/prod.tar.gz
"""
)
def bundle(
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Default: paictl-support-CLUSTER-TIME.tar.gz here.")
    ] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Collect what someone else needs to investigate a problem: the state and events of a cluster, local errors.

    The configuration is included without its secrets, jobs without their commands. Names of users, jobs and nodes,
    addresses, and the output of commands are included: look through the file before you send it. Exit code 3 means
    that a part is missing; it is named.
    """
    cluster = open_cluster(state)
    made = gather(cluster, state_folder(), log_file())
    name = f"paictl-support-{cluster.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = file or Path(f"{name}.tar.gz")
    data = archive(made, name)
    _write(path, data)
    if output is not Output.TABLE:
        write_data({"file": str(path), "files": sorted(made.files), "missing": dict(made.missing)}, output)
    else:
        write_table(("FILE", "BYTES"), [(one, len(content.encode())) for one, content in sorted(made.files.items())])
        console.write(console.spoken("wrote {path}", path=path))
    for part, why in made.missing.items():
        console.warning(f"{part}: {why}")
    if made.missing:
        raise typer.Exit(ExitCode.PARTIAL)


@app.command(
    epilog="""
    paictl support replay paictl-support-pai-20260901T120000Z.tar.gz
    paictl support replay paictl-support-pai-20260901T120000Z.tar.gz --job ann~train -o json

Exit code 0: every decision is as it was recorded; 1: one is not, and is shown; 2: the file has nothing to replay.
"""
)
def replay(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A file written by `paictl support bundle`.")],
    job: Annotated[str, typer.Option("--job", metavar="JOB", help="Show the decisions about this job only.")] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Replay the scheduler's decisions from a support bundle, and compare them with the recorded ones.

    Everything is computed on this machine; no cluster is asked or changed. Bundles of clusters on this machine can be
    replayed. Of jobs, a bundle holds only what the scheduler reads: their commands are replaced by their duration.
    """
    done = play(file)
    decisions = [one for one in done.decisions if not job or one.subject == f"job/{job}"]
    if job and not decisions:
        raise PaictlError(text("no decision about job {job} in this bundle", job=job), where=str(file))
    if output is not Output.TABLE:
        rows = [
            {"number": one.number, "at": one.at, "kind": one.kind, "subject": one.subject, "message": said(one.message)}
            for one in decisions
        ]
        data = {"same": not done.difference, "compared": done.compared, "difference": str(done.difference) or None}
        write_data({**data, "decisions": rows}, output)
    else:
        if decisions:
            rows_of_table = [
                (one.at, one.kind, one.subject.removeprefix("job/"), said(one.message)) for one in decisions
            ]
            write_table(("TIME", "EVENT", "JOB", "MESSAGE"), rows_of_table)
        if not done.difference:
            console.write(spoken("{count} events replayed, all as recorded", count=done.compared))
    if done.difference:
        console.error(PaictlError(said(done.difference), where=str(file), hint=text("report it, with the bundle")))
        raise typer.Exit(ExitCode.NEGATIVE)


@app.command(
    epilog="""
    paictl support log
    paictl support log --lines 200 > paictl.log
"""
)
def log(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, metavar="N", help="How many lines to show.")] = 40,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the newest lines of the log file: which commands failed, why, and what caused it.

    It contains no passwords, and nothing about commands that succeeded. It is kept in up to four files of 1 MiB.
    """
    path = log_file()
    try:
        newest = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    except FileNotFoundError:
        newest = []
    except OSError as error:
        raise PaictlError(text("cannot be read: {reason}", reason=error.strerror), where=str(path)) from None
    if output is not Output.TABLE:
        write_data({"file": str(path), "lines": newest}, output)
        return
    for line in newest:
        console.write(line)
    console.info(text("log file: {path}", path=path) if newest else text("no command has failed yet"))


def _write(path: Path, data: bytes) -> None:
    """Make a file that only its owner reads; raises `PaictlError` if one is there, or it cannot be written."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(data)
    except FileExistsError:
        raise PaictlError("already exists", where=str(path), hint="name another: --file FILE") from None
    except OSError as error:
        raise PaictlError(text("cannot be written: {reason}", reason=error.strerror), where=str(path)) from None
