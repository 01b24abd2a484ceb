"""`paictl config get-id|push|pull|history|rollback`, and the comparison of a folder with the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption, StateOption, clock_text, noted, open_cluster
from paictl.cli.confirmation import ClusterId, Yes, check_id, confirm, showing_reports, warn
from paictl.cli.console import Output, write, write_data, write_table
from paictl.cluster.capabilities import OpenPaiStore
from paictl.cluster.interface import Cluster, UnsupportedError
from paictl.cluster.scheduling import JobImpact
from paictl.config.pushing.compare import FileDifference, value_text
from paictl.config.quotas.diff import VcChange
from paictl.config.reading.schema import named_schemas
from paictl.errors import ExitCode, PaictlError
from paictl.files import write_together
from paictl.i18n import Text, counted, listed, text
from paictl.operate.pushing import Mode
from paictl.operate.pushing.folder import note_base
from paictl.operate.pushing.plan import PushPlan, PushRequest, StaleFilesError, compare, plan, plan_rollback, send
from paictl.operate.users.accounts import granted_before
from paictl.units import rfc3339

PUSH_EPILOG = """
    paictl config push -p cluster/ --dry-run
    paictl config push -p cluster/ -m service -y
    paictl config push -p cluster/ --drop rest-server.jwt-expire-time
"""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change and change nothing.")]
Table = Annotated[bool, typer.Option("--table", help="Show keys and values in a table, not the lines that change.")]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        "--drop", metavar="KEY.PATH", help="Key (or FILE) to remove from the cluster; other missing keys stay."
    ),
]
Base = Annotated[
    int | None,
    typer.Option(
        "--base",
        metavar="N",
        autocompletion=names.versions,
        help="The version that the files are based on (default: as recorded by pull).",
    ),
]
Message = Annotated[str, typer.Option("--message", help="Message for the history.")]
Number = Annotated[
    int,
    typer.Argument(metavar="N", autocompletion=names.versions, help="Number of a version, see: paictl config history"),
]


def get_id(state: StateOption = None) -> None:
    """Show the id of the cluster."""
    write(open_cluster(state).name)


def push(
    path: Annotated[str, typer.Option("-p", "--path", metavar="DIR", help="Folder of the configuration files.")],
    mode: Annotated[
        Mode, typer.Option("-m", "--push-mode", help="service: layout and service settings only.")
    ] = Mode.ALL,
    drop: Drop = None,
    base: Base = None,
    message: Message = "pushed",
    cluster_id: ClusterId = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    table: Table = False,
    state: StateOption = None,
) -> None:
    """Check configuration files, merge them into those of the cluster, and store the result as a new version."""
    cluster = open_cluster(state)
    check_id(cluster, cluster_id)
    request = PushRequest(path, mode, tuple(drop or ()), base)
    made = planned(cluster, request)
    if not made.changes:
        console.info(text("cluster {name} already has this configuration", name=cluster.name))
        return
    show_plan(made, table=table)
    if dry_run:
        return
    confirm(
        text("cluster {name} gets a new configuration", name=cluster.name),
        cluster.name,
        yes=yes or cluster_id is not None,
    )
    with showing_contested():
        version = send(cluster, made, noted(message), request)
    console.info(text("version {number} stored", number=version.number))
    note_base(path, cluster.name, version)
    say_readers(made)


def planned(cluster: Cluster, request: PushRequest) -> PushPlan:
    """The plan of a push; what is wrong with the files, or stands against them, is shown before the error."""
    with showing_reports(), showing_contested():
        made = plan(cluster, request)
    return with_users(cluster, made)


def with_users(cluster: Cluster, made: PushPlan) -> PushPlan:
    """A plan that also says which users have what was granted to them when others had the name of a new tenant."""
    return replace(made, notes=(*made.notes, *granted_before(cluster.users, made.turnover.added)))


@contextmanager
def showing_contested() -> Iterator[None]:
    """Show what others changed before the error that says that they did."""
    try:
        yield
    except StaleFilesError as error:
        _show_contested(error)
        raise


def _show_contested(error: StaleFilesError) -> None:
    rows = [
        (
            conflict.file,
            value_text(conflict.key, 80),
            *("-" if value is None else value_text(value) for value in values),
        )
        for conflict in error.contested
        for values in [(conflict.base, conflict.theirs, conflict.mine)]
    ]
    write_table(("FILE", "KEY", "BASE", "CLUSTER", "YOURS"), rows)


def show_plan(made: PushPlan, *, table: bool = False) -> None:
    """Show what a push means: who gains and loses, for which jobs, what is most likely a mistake; then what changes."""
    for vc in made.vcs:
        console.info(text("virtual cluster {vc}: {change}", vc=vc.name, change=_vc_words(vc)))
    for harm, jobs in _by_harm(made).items():
        console.warning(counted(*HARM[harm], count=len(jobs), jobs=listed(jobs)))
    for note in made.notes:
        console.info(text("note: {note}", note=note))
    for name, key in made.kept:
        console.info(
            text("kept: {name} {key} (only the cluster has it; remove it with --drop {key})", name=name, key=key)
        )
    warn(made.warnings, "paictl config validate DIR")
    if table:
        write_differences(made.differences)
    else:
        write_lines(made.differences)


HARM: Final = {
    JobImpact.NO_GUARANTEE: (
        "{count} job will keep running without its guarantee: {jobs}",
        "{count} jobs will keep running without their guarantee: {jobs}",
    ),
    JobImpact.NO_CELL: (
        "{count} job will keep running on devices that the scheduler does not know: {jobs}",
        "{count} jobs will keep running on devices that the scheduler does not know: {jobs}",
    ),
    JobImpact.NO_VC: (
        "{count} job then waits for a virtual cluster that is gone: {jobs}",
        "{count} jobs then wait for a virtual cluster that is gone: {jobs}",
    ),
    JobImpact.NEVER: (
        "{count} job then waits and can never run: {jobs}",
        "{count} jobs then wait and can never run: {jobs}",
    ),
}
"""What a push does to one job, and to several."""


def _by_harm(made: PushPlan) -> dict[JobImpact, list[str]]:
    jobs: dict[JobImpact, list[str]] = {}
    for impact in made.harmed:
        jobs.setdefault(impact.harm, []).append(f"{impact.job} ({impact.vc})")
    return jobs


def _vc_words(vc: VcChange) -> Text:
    if vc.change == "added":
        return text("new, {devices}", devices=_devices(vc.devices_after))
    if vc.change == "removed":
        return text("removed, it had {devices}", devices=_devices(vc.devices_before))
    if vc.devices_before == vc.devices_after:
        return text("{devices}, from other cells than before", devices=_devices(vc.devices_after))
    return text("{devices} now, {after} after", devices=_devices(vc.devices_before), after=vc.devices_after)


def _devices(number: int) -> Text:
    return counted("{count} device", "{count} devices", count=number)


_LINE_STYLES: Final = {"+++": "bold", "---": "bold", "@": "cyan", "+": "green", "-": "red"}
"""Style of a line of a unified diff by how it begins, the longest beginning first."""


def write_lines(differences: Sequence[FileDifference]) -> None:
    """Show what differs as a unified diff, in colour on a terminal."""
    console.write_segments(
        ((next((style for begins, style in _LINE_STYLES.items() if line.startswith(begins)), ""), line),)
        for file in differences
        for line in file.lines
    )


def write_differences(differences: Sequence[FileDifference]) -> None:
    """Show the keys that differ as a table."""
    rows: list[tuple[str, str, str, str, str]] = []
    for file in differences:
        if file.what and not file.changes:
            rows.append((file.name, "comments" if file.what == "changed" else file.what, "-", "-", "-"))
        for change in file.changes:
            old = "-" if change.what == "added" else value_text(change.old)
            new = "-" if change.what == "removed" else value_text(change.new)
            rows.append((file.name, change.what, value_text(change.path, 80), old, new))
    if rows:
        write_table(("FILE", "CHANGE", "KEY", "CLUSTER", "NEW"), rows)


def say_readers(made: PushPlan) -> None:
    """Say how the services that read a changed file load it; until then they keep the old one."""
    for verb, chosen in (("refresh", made.readers.to_refresh), ("start", made.readers.to_start)):
        if chosen:
            command = f"paictl service {verb} {' '.join(f'-n {name}' for name in chosen)}"
            console.info(text("to load it: {command}", command=command))


def pull(
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Output folder; created if missing.")],
    number: Annotated[
        int | None, typer.Option("--version", metavar="N", autocompletion=names.versions, help="An older version.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    from_openpai: Annotated[
        bool, typer.Option("--from-openpai", help="Read what OpenPAI left in the cluster, with secrets in clear text.")
    ] = False,
    state: StateOption = None,
) -> None:
    """Write the configuration of the cluster to files; secrets stay sealed, and pushing them back changes nothing."""
    cluster = open_cluster(state)
    if from_openpai:
        if number is not None:
            raise PaictlError("OpenPAI keeps only one version", hint="leave out --version")
        _pull_from_openpai(cluster, folder, force=force)
        return
    version = cluster.configuration(number)
    for path in write_together(folder, {**version.files, **named_schemas(version.files.values())}, force=force):
        write(str(path))
    note_base(str(folder), cluster.name, version)


def _pull_from_openpai(cluster: Cluster, folder: Path, *, force: bool) -> None:
    """Write what OpenPAI left, so that only the owner can read it: nothing in it is sealed."""
    if not isinstance(cluster, OpenPaiStore):
        raise UnsupportedError(
            "OpenPAI stores its configuration in a Kubernetes cluster", hint="name one: --cluster NAME"
        )
    left = cluster.left_by_openpai()
    for path in write_together(folder, left.files, force=force, mode=0o600):
        write(str(path))
    if left.cluster_id:
        console.info(text("its cluster id is {cluster_id}", cluster_id=left.cluster_id))
    console.warning("secrets in these files are in clear text; a push keeps them in a Secret, then remove the files")


def history(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the versions of the configuration, oldest first."""
    cluster = open_cluster(state)
    versions = cluster.configurations()
    if output is not Output.TABLE:
        write_data(
            [
                {
                    "number": version.number,
                    "time": rfc3339(version.at),
                    "message": version.message,
                    "author": version.author,
                    "files": sorted(version.files),
                }
                for version in versions
            ],
            output,
        )
    elif not versions:
        console.info("nothing was pushed yet: paictl config push -p DIR")
    else:
        known = any(version.author for version in versions)  # on this machine nobody signs in
        rows = [
            (
                version.number,
                clock_text(version.at),
                *((version.author or "-",) if known else ()),
                console.localized(version.message),
                ", ".join(sorted(version.files)),
            )
            for version in versions
        ]
        write_table(("VERSION", "TIME", *(("PUSHED BY",) if known else ()), "MESSAGE", "FILES"), rows)


def rollback(
    number: Number,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    table: Table = False,
    state: StateOption = None,
) -> None:
    """Store an older version as the newest; keys added since then are removed."""
    cluster = open_cluster(state)
    check_id(cluster, cluster_id)
    made = with_users(cluster, plan_rollback(cluster, number))
    if not made.changes:
        console.info(text("cluster {name} already has this configuration", name=cluster.name))
        return
    show_plan(made, table=table)
    if dry_run:
        return
    question = text("cluster {name} goes back to version {number}", name=cluster.name, number=number)
    confirm(question, cluster.name, yes=yes or cluster_id is not None)
    version = send(cluster, made, noted(f"version {number} again"))
    console.info(text("version {number} stored", number=version.number))
    say_readers(made)


def diff_with_cluster(folder: str, output: Output, state: Path | None, *, unified: bool) -> None:
    """Show what a push of a folder would change; exit code 0 nothing, 1 something."""
    with showing_reports():
        made = compare(open_cluster(state), folder)
    if output is not Output.TABLE:
        data = {"same": not made.changes, "files": [asdict(file) for file in made.differences]}
        write_data({**data, "kept": [f"{name}:{key}" for name, key in made.kept]}, output)
    elif not made.changes:
        write(console.localized("no difference: the cluster has what the folder has"))
    elif unified:
        write_lines(made.differences)
    else:
        write_differences(made.differences)
    if output is Output.TABLE:
        for name, key in made.kept:
            console.info(text("only the cluster has: {name} {key} (a push keeps it)", name=name, key=key))
    raise typer.Exit(ExitCode.NEGATIVE if made.changes else ExitCode.OK)
