"""`paictl config plan|apply`: a push in two steps, with a file in between for review."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.clusters import StateOption, noted, open_cluster
from paictl.cli.config.push import Base, Drop, Message, planned, say_readers, show_plan, with_users
from paictl.cli.confirmation import ClusterId, Yes, check_id, confirm
from paictl.i18n import text
from paictl.operate.pushing import Mode
from paictl.operate.pushing.plan import PushRequest, read_plan, send, write_plan


def plan(
    path: Annotated[str, typer.Option("-p", "--path", metavar="DIR", help="Folder of the configuration files.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="Save the plan to a file, for: paictl config apply FILE."),
    ] = None,
    mode: Annotated[
        Mode, typer.Option("-m", "--push-mode", help="service: layout and service settings only.")
    ] = Mode.ALL,
    drop: Drop = None,
    base: Base = None,
    message: Message = "pushed",
    cluster_id: ClusterId = None,
    state: StateOption = None,
) -> None:
    """Show what a push would change and for whom, and keep it for `config apply`; nothing is sent."""
    cluster = open_cluster(state)
    check_id(cluster, cluster_id)
    made = planned(cluster, PushRequest(path, mode, tuple(drop or ()), base))
    if not made.changes:
        console.info(text("cluster {name} already has this configuration", name=cluster.name))
        return
    show_plan(made)
    if output is not None:
        write_plan(output, made, message)
        console.info(text("wrote {path}; to carry it out: paictl config apply {path}", path=output))


def apply(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan written by: config plan -o.")],
    path: Annotated[
        str | None,
        typer.Option(
            "-p", "--path", metavar="DIR", help="The folder that the plan was made from: plans contain no secrets."
        ),
    ] = None,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    state: StateOption = None,
) -> None:
    """Apply a plan exactly as it was shown; refused if the cluster has changed since."""
    cluster = open_cluster(state)
    check_id(cluster, cluster_id)
    made, message = read_plan(file, cluster, path)
    show_plan(with_users(cluster, made))
    confirm(
        text("cluster {name} gets a new configuration", name=cluster.name),
        cluster.name,
        yes=yes or cluster_id is not None,
    )
    version = send(cluster, made, noted(message))
    console.info(text("version {number} stored", number=version.number))
    say_readers(made)
