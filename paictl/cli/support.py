"""`paictl support`: what to send along with a report."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App
from paictl.cli.console import Output, localized, write_data, write_table
from paictl.cluster.capabilities import LINES, SECONDS
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.operate.jobs import find_job
from paictl.operate.recorded_decisions import Decision
from paictl.operate.replay import replay as play
from paictl.operate.support import BundleLimits, archive, gather
from paictl.places import log_file, state_folder, user_here

_MOST_NAMED = 10
"""Missing parts that are named on the terminal."""

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
    paictl support bundle --cluster prod --lines 200 --timeout 30
    paictl support bundle --cluster prod --job ann~train
"""
)
def bundle(
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Default: paictl-support-CLUSTER-TIME.tar.gz here.")
    ] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=100_000, metavar="N", help="Newest lines of each log.")
    ] = LINES,
    job: Annotated[
        list[str] | None,
        typer.Option(
            "--job",
            metavar="JOB",
            autocompletion=names.jobs,
            help="Include the output of this job's tasks; may be repeated.",
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="Leave out what takes longer than this.")
    ] = SECONDS,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Collect what someone else needs to investigate a problem: the state and events of a cluster, logs, local errors.

    On Kubernetes, this includes the newest log lines of paictl's services and of the control plane, at most 256 KiB
    of each container and 32 MiB in total. Passwords, keys and tokens are replaced with `***`. The output of jobs is
    included only with `--job`.

    The configuration is included without its secrets, jobs without their commands. Names of users, jobs and nodes,
    addresses, and the output of commands are included: look through the file before you send it. Exit code 3 means
    that a part is missing; the output names it.
    """
    cluster = open_cluster(state)
    jobs = [find_job(cluster, word, user_here()) for word in job or ()]
    with console.progressing(localized("collecting")) as tell:
        made = gather(
            cluster, state_folder(), log_file(), BundleLimits(timeout, lines, jobs), lambda now: tell(localized(now))
        )
    name = f"paictl-support-{cluster.name}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    path = file or Path(f"{name}.tar.gz")
    data = archive(made, name)
    _write(path, data)
    if output is not Output.TABLE:
        write_data({"file": str(path), "files": sorted(made.files), "missing": dict(made.missing)}, output)
    else:
        write_table(
            ("FILE", "BYTES"), [(member, len(content.encode())) for member, content in sorted(made.files.items())]
        )
        console.write(console.localized("wrote {path}", path=path))
    for part, why in list(made.missing.items())[:_MOST_NAMED]:
        console.warning(f"{part}: {localized(why)}")
    if (more := len(made.missing) - _MOST_NAMED) > 0:
        console.warning(text("{count} more parts are missing: see missing.json in the file", count=more))
    if made.missing:
        raise typer.Exit(ExitCode.PARTIAL)


@app.command(
    epilog="""
    paictl support replay paictl-support-pai-20260901T120000Z.tar.gz
    paictl support replay paictl-support-pai-20260901T120000Z.tar.gz --job ann~train -o json

Exit code 0: every decision is as recorded; 1: one differs, and is shown; 2: the file has nothing to replay.
"""
)
def replay(
    file: Annotated[Path, typer.Argument(metavar="BUNDLE", help="A file written by `paictl support bundle`.")],
    job: Annotated[
        str,
        typer.Option(
            "--job", metavar="JOB", help="Show only the decisions about this job; on Kubernetes also NAMESPACE/POD."
        ),
    ] = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Replay the scheduler's decisions from a support bundle, and compare them with the recorded ones.

    Everything is computed on this machine; no cluster is contacted or changed. For a cluster on this machine, the
    bundle contains everything since its beginning; on Kubernetes, the newest 4,096 to 8,192 operations of the
    scheduler.
    For jobs, a bundle contains only what the scheduler reads; commands are replaced by their duration.

    Instead of a bundle, you can give the file that a scheduler writes when it finds a contradiction in its own state.
    """
    done = play(file)
    decisions = [decision for decision in done.decisions if not job or _is_about(decision, job)]
    if job and not decisions:
        raise PaictlError(text("no decision about job {job} in this bundle", job=job), where=str(file))
    if output is not Output.TABLE:
        rows = [
            {
                "number": decision.number,
                "at": decision.at,
                "kind": decision.kind,
                "subject": decision.subject,
                "group": decision.group or None,
                "message": localized(decision.message),
                "same": decision.same,
            }
            for decision in decisions
        ]
        data = {"same": not done.difference, "compared": done.compared, "dropped": done.dropped}
        write_data({**data, "difference": localized(done.difference) or None, "decisions": rows}, output)
    else:
        if decisions:
            rows_of_table = [
                (decision.at, decision.kind, decision.subject.partition("/")[2], localized(decision.message))
                for decision in decisions
            ]
            of_pods = any(decision.subject.startswith("pod/") for decision in decisions)
            write_table(("TIME", "EVENT", "POD" if of_pods else "JOB", "MESSAGE"), rows_of_table)
        if not done.difference:
            console.write(localized("{count} events replayed, all as recorded", count=done.compared))
        if done.dropped:
            console.info(text("the record does not hold the {count} operations before these", count=done.dropped))
    if done.difference:
        console.error(PaictlError(localized(done.difference), where=str(file), hint=text("report it, with the bundle")))
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


def _is_about(decision: Decision, job: str) -> bool:
    """Whether a decision is about a job, a pod of it, or a gang of that name."""
    if decision.subject in (f"job/{job}", f"pod/{job}"):
        return True
    group = decision.group.partition("#")[0]  # behind it is how often the job was tried
    return group == job or group.startswith(f"{job}/")


def _write(path: Path, data: bytes) -> None:
    """Make a file that only its owner reads; raises `PaictlError` if one is there, or it cannot be written."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(data)
    except FileExistsError:
        raise PaictlError("already exists", where=str(path), hint="name another: --file FILE") from None
    except OSError as error:
        raise PaictlError(text("cannot be written: {reason}", reason=error.strerror), where=str(path)) from None
