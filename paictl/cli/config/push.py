"""`paictl config get-id|push|pull|history|rollback`, and the comparison of a folder with the cluster."""

from __future__ import annotations

from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, check_id, clock_text, confirm, open_cluster
from paictl.cli.console import Output, write, write_data, write_table
from paictl.errors import ExitCode, PaictlError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paictl.cluster.interface import Cluster
    from paictl.config.pushing.compare import FileDifference
    from paictl.config.pushing.push import Push

PUSH_EPILOG = (
    "Examples: paictl config push -p cluster/ --dry-run · paictl config push -p cluster/ -m service -y · "
    "paictl config push -p cluster/ --drop rest-server.jwt-expire-time"
)

ClusterId = Annotated[
    str | None, typer.Option("--cluster-id", metavar="ID", help="The cluster that is meant; given, nothing is asked.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would change and change nothing.")]
Number = Annotated[int, typer.Argument(metavar="N", help="Number of a version, see: paictl config history")]


class PushMode(StrEnum):
    """What `config push` takes of a folder, as in OpenPAI."""

    ALL = "all"
    SERVICE = "service"


def get_id(state: StateOption = None) -> None:
    """Show the id of the cluster."""
    write(open_cluster(state).name)


def push(
    path: Annotated[str, typer.Option("-p", "--path", metavar="DIR", help="Folder of the configuration files.")],
    mode: Annotated[
        PushMode, typer.Option("-m", "--push-mode", help="service: layout and service settings only.")
    ] = PushMode.ALL,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="KEY.PATH", help="A key that the cluster is to lose; all others are kept."),
    ] = None,
    message: Annotated[str, typer.Option("--message", help="What the history says about it.")] = "pushed",
    cluster_id: ClusterId = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Check configuration files, merge them into those of the cluster, and store the result as a new version."""
    from paictl.config.pushing.fileset import read_folder
    from paictl.config.pushing.push import of_services, prepare_push

    cluster = open_cluster(state)
    check_id(cluster, cluster_id)
    files = read_folder(path)
    _refuse_errors(path, list(files))
    if mode is PushMode.SERVICE:
        files = of_services(files)
    prepared = prepare_push(files, _stored(cluster), drop or ())
    if not prepared.changes:
        console.info(f"cluster {cluster.name} has this configuration already")
        return
    _show_push(prepared)
    if dry_run:
        return
    confirm(f"cluster {cluster.name} gets a new configuration", cluster.name, yes=yes or cluster_id is not None)
    version = cluster.push(prepared.files, message)
    console.info(f"version {version.number} stored")
    _say_readers(cluster, prepared.differences)


def _refuse_errors(folder: str, names: list[str]) -> None:
    """Validate the files; raises `PaictlError` after showing the problems if one is an error."""
    from paictl.config.linting.report import FORMATS, plain
    from paictl.config.linting.validate import Choice, validate
    from paictl.config.reading.load import load
    from paictl.config.reading.problem import Severity

    report = validate(load([str(Path(folder, name)) for name in names]), Choice(severity=Severity.ERROR))
    if report.problems or report.failures:
        console.info(plain(FORMATS["text"](report)).rstrip())
        raise PaictlError(
            "the files have errors, so nothing was sent", hint=f"correct them, see: paictl config validate {folder}"
        )


def _stored(cluster: Cluster) -> dict[str, str]:
    """The newest files of the cluster; none if nothing was ever pushed."""
    versions = cluster.configurations()
    return dict(versions[-1].files) if versions else {}


def _show_push(prepared: Push) -> None:
    from paictl.config.reading.keypath import dotted

    write_differences(prepared.differences)
    for name, merged in prepared.merged.items():
        for path in merged.kept:
            console.info(f"kept: {name} {dotted(path)} (only the cluster has it; remove it with --drop {dotted(path)})")


def write_differences(differences: Sequence[FileDifference]) -> None:
    """Show the keys that differ as a table."""
    from paictl.config.pushing.compare import value_text

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


def _say_readers(cluster: Cluster, differences: Sequence[FileDifference]) -> None:
    """Say how the services that read what changed come to load it; until then they go on with what they have."""
    from paictl.service.catalogue import load_catalogue
    from paictl.service.live import readers_of

    running = {service.name: service.running for service in cluster.services()}
    readers = [name for name in readers_of(differences, load_catalogue()) if name in running]
    for verb, wanted in (("refresh", True), ("start", False)):
        names = [name for name in readers if running[name] is wanted]
        if names:
            console.info(f"to load it: paictl service {verb} {' '.join(f'-n {name}' for name in names)}")


def pull(
    folder: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write to; made if absent.")],
    number: Annotated[int | None, typer.Option("--version", metavar="N", help="An older version.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    state: StateOption = None,
) -> None:
    """Write the configuration of the cluster to files; secrets stay sealed, and unchanged when they are pushed."""
    from paictl.config.reading.schema import named_schemas
    from paictl.files import write_together

    version = open_cluster(state).configuration(number)
    for path in write_together(folder, {**version.files, **named_schemas(version.files.values())}, force=force):
        write(str(path))


def history(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the versions of the configuration, the oldest first."""
    cluster = open_cluster(state)
    versions = cluster.configurations()
    columns = ("number", "time", "message", "files")
    rows = [(one.number, clock_text(cluster, one.at), one.message, sorted(one.files)) for one in versions]
    if output is not Output.TABLE:
        write_data([dict(zip(columns, row, strict=True)) for row in rows], output)
    elif not rows:
        console.info("nothing was pushed yet: paictl config push -p DIR")
    else:
        write_table(("VERSION", "TIME", "MESSAGE", "FILES"), [(*row[:3], ", ".join(row[3])) for row in rows])


def rollback(
    number: Number, cluster_id: ClusterId = None, yes: Yes = False, dry_run: DryRun = False, state: StateOption = None
) -> None:
    """Store an older version again as the newest; keys that came after it are gone."""
    from paictl.config.pushing.compare import compare_files

    cluster = open_cluster(state)
    check_id(cluster, cluster_id)
    wanted = cluster.configuration(number)
    differences = compare_files(_stored(cluster), wanted.files)
    if all(file.what is None for file in differences):
        console.info(f"cluster {cluster.name} has this configuration already")
        return
    write_differences(differences)
    if dry_run:
        return
    question = f"cluster {cluster.name} goes back to version {number}"
    confirm(question, cluster.name, yes=yes or cluster_id is not None)
    version = cluster.push(wanted.files, f"version {number} again")
    console.info(f"version {version.number} stored")
    _say_readers(cluster, differences)


def diff_with_cluster(folder: str, output: Output, state: Path | None, *, unified: bool) -> None:
    """Show what a folder has that the cluster has not, and the other way round; exit code 0 same, 1 different."""
    from paictl.config.pushing.compare import compare_files
    from paictl.config.pushing.fileset import read_folder

    differences = compare_files(_stored(open_cluster(state)), read_folder(folder))
    same = all(file.what is None for file in differences)
    if output is not Output.TABLE:
        write_data({"same": same, "files": [asdict(file) for file in differences]}, output)
    elif same:
        write("no difference: the cluster has what the folder has")
    elif unified:
        write("\n".join(line for file in differences for line in file.lines))
    else:
        write_differences(differences)
    raise typer.Exit(ExitCode.OK if same else ExitCode.NEGATIVE)
