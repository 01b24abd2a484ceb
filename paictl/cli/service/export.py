"""`paictl service export` and `secrets`: services as files for Helm, kustomize and what applies them from Git."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console, names
from paictl.cli.confirmation import showing_reports
from paictl.cli.console import write, write_file
from paictl.errors import PaictlError
from paictl.i18n import counted, text
from paictl.operate import exporting
from paictl.operate.exporting import SCRIPT, ExportFormat, ExportRequest
from paictl.places import state_folder

EXPORT_EXAMPLES: Final = """
    paictl service export deploy/chart -p cluster/ --format helm
    paictl service export deploy/base -p cluster/ --format kustomize -k grafana
"""
SECRETS_EXAMPLE: Final = "paictl service secrets -p cluster/ | kubectl apply --server-side -f -"

Config = Annotated[str, typer.Option("-p", "--path", metavar="DIR", help="Folder of the configuration files.")]
Id = Annotated[str, typer.Option("--cluster-id", metavar="ID", help="The cluster's id.")]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "-n",
        "--service-name",
        metavar="NAME",
        autocompletion=names.services,
        help="Only this service and its dependencies; may be repeated.",
    ),
]
Skipped = Annotated[
    list[str] | None,
    typer.Option(
        "-k",
        "--skip-service-name",
        metavar="NAME",
        autocompletion=names.services,
        help="All services except this one; repeatable.",
    ),
]


def export(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder for the files; a previous export is replaced.")],
    path: Config,
    kind: Annotated[
        ExportFormat, typer.Option("--format", help="A Helm chart, or a kustomize base.")
    ] = ExportFormat.HELM,
    named: Names = None,
    skipped: Skipped = None,
    cluster_id: Id = "pai",
) -> None:
    """Write services as a Helm chart or a kustomize base, from the templates that `service start` uses.

    Secrets are not part of it: `paictl service secrets` prints them.
    """
    request = ExportRequest(path, cluster_id, tuple(named or ()), tuple(skipped or ()))
    with showing_reports():
        written = exporting.export(request, kind, folder, datetime.now(UTC).replace(microsecond=0))
    for name in written.removed:
        console.info(text("removed: {name}", name=name))
    if not written.changed:
        console.info(text("{folder} is unchanged", folder=folder))
    write(str(folder))
    console.info(
        counted(
            "{count} service is written; label the machines once: sh {script}",
            "{count} services are written; label the machines once: sh {script}",
            count=len(written.services),
            script=folder / SCRIPT,
        )
    )


def secrets(path: Config, named: Names = None, skipped: Skipped = None, cluster_id: Id = "pai") -> None:
    """Print the Secrets that exported services need, for kubectl apply.

    This includes the scheduler's certificates, which are kept in the state folder and renewed before they expire.
    """
    if sys.stdout.isatty():
        raise PaictlError(
            "the output contains passwords and private keys, which are not shown on a terminal",
            hint=text("pipe the output: {command}", command=SECRETS_EXAMPLE),
        )
    request = ExportRequest(path, cluster_id, tuple(named or ()), tuple(skipped or ()))
    with showing_reports():
        write_file(exporting.export_secrets(request, state_folder(), time.time()).rstrip())
    console.info(text("the output contains passwords and private keys: keep it out of version control"))
