"""The verbs that only a cluster on this machine has: up, speed, down. The one file here that knows that kind."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console, names
from paictl.cli.clusters import StateOption, local_only, open_cluster
from paictl.cli.command import App
from paictl.cli.confirmation import confirm, showing_reports
from paictl.cluster.embedded import commands
from paictl.cluster.embedded.cluster import EmbeddedCluster
from paictl.cluster.embedded.present import parse_speed
from paictl.cluster.interface import ClusterError, UnreachableError
from paictl.cluster.machines import machines_in
from paictl.config.pushing.push import seal_files
from paictl.errors import PaictlError
from paictl.i18n import counted, sayable, text
from paictl.operate.beginning import HostLists, beginning
from paictl.operate.status import remarks
from paictl.places import state_folder
from paictl.service.catalogue import load_catalogue

app = App()


@app.command(
    epilog="""
    paictl cluster up
    paictl cluster up FOLDER
    paictl cluster up --preset production --speed 60
    paictl cluster up -m master.csv -w worker.csv -c config.yaml --sku V100=gpu:8,cpu:96,memory:900Gi
"""
)
def up(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="Folder with layout.yaml, as config generate writes it.")
    ] = None,
    masters: Annotated[str | None, typer.Option("-m", "--masters", help="master.csv")] = None,
    workers: Annotated[str | None, typer.Option("-w", "--workers", help="worker.csv")] = None,
    config: Annotated[str | None, typer.Option("-c", "--config", help="config.yaml")] = None,
    sku: Annotated[list[str] | None, typer.Option("--sku", help="The workers' hardware (see config generate).")] = None,
    layout: Annotated[
        Path | None, typer.Option("--layout", help="layout.yaml or its folder; service settings beside it count, too.")
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option("--preset", autocompletion=names.presets, help="lab (default), dgx2, three-tenants, production."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The cluster's id.")] = "pai",
    speed: Annotated[
        str | None,
        typer.Option("--speed", help="How fast its clock runs: 1 (default), 60, 0 (paused, as in labs), max."),
    ] = None,
    _embedded: Annotated[bool, typer.Option("--embedded", hidden=True, help="Accepted for old scripts.")] = True,
    state: StateOption = None,
) -> None:
    """Start a cluster on this machine, with its services running."""
    local_only("up")
    lists = None
    if masters or workers or config:
        if not (masters and workers and config):
            raise PaictlError("all three files are needed", hint="-m master.csv -w worker.csv -c config.yaml")
        lists = HostLists(masters, workers, config, tuple(sku or ()))
    if folder is not None and layout is not None:
        raise PaictlError("the cluster is described twice", hint="give the folder or --layout, not both")
    status, place = parse_speed(speed) if speed else None, state if state is not None else state_folder()
    with showing_reports(), console.progress(text("bringing the cluster up")):
        begin = beginning(lists=lists, layout=layout or folder, preset=preset)
        services = tuple(load_catalogue().services)
        first, then = commands.bring_up(name, services, machines_in(begin.files), seal_files(begin.files))
        cluster = EmbeddedCluster.up(place, first, then, clock=status)
    for note in begin.notes:
        console.info(text("note: {note}", note=note))
    nodes = cluster.nodes()
    devices = sum(node.machine.devices for node in nodes)
    console.outcome(
        text(
            "cluster {name} is up: {nodes} nodes, {devices} devices, in {folder}",
            name=name,
            nodes=len(nodes),
            devices=devices,
            folder=place,
        ),
        name=name,
        nodes=len(nodes),
        devices=devices,
        folder=str(place),
    )
    for remark in remarks(nodes, cluster.services()):
        console.info(text("note: {note}", note=remark))
    console.info("next: paictl job submit FILE, paictl cluster view")


@app.command(epilog="paictl cluster speed 60")
def speed(
    factor: Annotated[str, typer.Argument(help="1, 60, 0 (paused), max (advances to the end after every command).")],
    state: StateOption = None,
) -> None:
    """Change the speed of the cluster's clock."""
    local_only("speed")
    number, run_out = parse_speed(factor)
    cluster = open_cluster(state)
    if not isinstance(cluster, EmbeddedCluster):
        raise PaictlError(
            "the clock of this cluster cannot be set", hint="only the clock of a cluster on this machine can"
        )
    cluster.set_speed(number, run_out=run_out)


@app.command(epilog="paictl cluster down")
def down(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    state: StateOption = None,
) -> None:
    """Take the cluster down; jobs, configuration and history are lost."""
    local_only("down")
    try:
        cluster = open_cluster(state)
        name = cluster.name
        running = sum(not job.state.ended for job in cluster.jobs())
    except UnreachableError:
        raise
    except ClusterError as error:  # it cannot be read, and can be removed all the same
        folder = state if state is not None else state_folder()
        console.info(text("note: {message}", message=sayable(error.message)))
        confirm(
            text("the cluster in {folder}, which cannot be read, will be removed", folder=folder), "remove", yes=yes
        )
        EmbeddedCluster.remove(folder)
        console.info(text("the cluster in {folder} is removed", folder=folder))
        return
    if not isinstance(cluster, EmbeddedCluster):
        raise PaictlError(
            "this cluster is not on this machine", hint="paictl cluster down is for the local cluster only"
        )
    what = counted("{count} unfinished job", "{count} unfinished jobs", running)
    confirm(text("cluster {name} will be removed, with {what} and all history", name=name, what=what), name, yes=yes)
    cluster.down()
    console.outcome(text("cluster {name} is down", name=name), name=name)
