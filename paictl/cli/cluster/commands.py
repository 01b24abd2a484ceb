"""`paictl cluster`: bring an embedded cluster up, look at it, let its time pass, take it down."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.cluster import view
from paictl.cli.clusters import OutputOption, StateOption, clock_text, confirm, folder_of, open_cluster, span_text
from paictl.cli.console import Output, write, write_data, write_table
from paictl.errors import PaictlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from paictl.cluster.embedded.cluster import EmbeddedCluster
    from paictl.cluster.interface import NodeView, ServiceView

_ONE_GPU = "GPU=gpu:1,cpu:8,memory:32Gi"
"""What a worker has of which nothing is said, as in the textbook's lab."""

app = typer.Typer(help="A cluster on this machine: up, status, time, down.", no_args_is_help=True)
app.command(epilog=view.EPILOG)(view.view)


@app.command(
    epilog="Examples: paictl cluster up · paictl cluster up --preset production --speed 60 · "
    "paictl cluster up -m master.csv -w worker.csv -c config.yaml --sku V100=gpu:8,cpu:96,memory:900Gi"
)
def up(
    masters: Annotated[str | None, typer.Option("-m", "--masters", help="master.csv")] = None,
    workers: Annotated[str | None, typer.Option("-w", "--workers", help="worker.csv")] = None,
    config: Annotated[str | None, typer.Option("-c", "--config", help="config.yaml")] = None,
    sku: Annotated[list[str] | None, typer.Option("--sku", help="What the workers have (see config generate).")] = None,
    layout: Annotated[
        Path | None, typer.Option("--layout", help="layout.yaml; service settings beside it are taken too.")
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="lab (default), dgx2, three-tenants, production.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The cluster's id.")] = "pai",
    speed: Annotated[str, typer.Option("--speed", help="How fast its clock runs: 1, 60, 0 (stands), max.")] = "1",
    embedded: Annotated[bool, typer.Option("--embedded", help="On this machine (the only kind so far).")] = True,  # noqa: ARG001
    state: StateOption = None,
) -> None:
    """Bring a cluster up on this machine, with its services running."""
    from paictl.cluster.embedded import commands
    from paictl.cluster.embedded.clock import parse_speed
    from paictl.cluster.embedded.cluster import EmbeddedCluster
    from paictl.cluster.machines import machines_in
    from paictl.cluster.presets import DEFAULT, preset_files
    from paictl.config.pushing.fileset import seal_files
    from paictl.service.catalogue import load_catalogue

    sources = [masters or workers or config, layout, preset]
    if sum(source is not None for source in sources) > 1:
        raise PaictlError("the cluster is described twice", hint="give host lists, or --layout, or --preset")
    clock = parse_speed(speed)
    with console.progress("bringing the cluster up"):
        if masters or workers or config:
            files = _from_lists(masters, workers, config, sku or [])
        elif layout is not None:
            files = _from_layout(layout)
        else:
            files = preset_files(preset or DEFAULT)
        services = tuple(load_catalogue().services)
        first, *then = commands.bring_up(name, services, machines_in(files), seal_files(files))
        cluster = EmbeddedCluster.up(folder_of(state), first, then, clock=clock)
    nodes = cluster.nodes()
    devices = sum(node.machine.devices for node in nodes)
    console.info(f"cluster {name} is up: {len(nodes)} nodes, {devices} devices, in {folder_of(state)}")
    for remark in _remarks(nodes, cluster.services()):
        console.info(f"note: {remark}")
    console.info("next: paictl job submit FILE, paictl cluster view")


def _from_lists(masters: str | None, workers: str | None, config: str | None, skus: list[str]) -> dict[str, str]:
    from paictl.config.linting.report import FORMATS, plain
    from paictl.config.making.generate import plan, read_inputs
    from paictl.config.making.generate_text import render
    from paictl.config.making.skus import parse_sku

    if not (masters and workers and config):
        raise PaictlError("all three files are needed", hint="-m master.csv -w worker.csv -c config.yaml")
    inputs = read_inputs(masters, workers, config)
    if not inputs.usable:
        console.info(plain(FORMATS["text"](inputs.report)))
        raise PaictlError("the files have errors, so no cluster was brought up", hint="correct them and try again")
    if not skus:
        console.info(f"note: no --sku says what the workers have, so each has {_ONE_GPU.partition('=')[2]}")
    made = plan(inputs, [parse_sku(text) for text in skus or [_ONE_GPU]])
    if not made.pools:
        raise PaictlError(
            "the embedded cluster schedules with HiveD, and enable_hived_scheduler is false", where=config,
            hint="set it to true, no cluster was brought up",
        )  # fmt: skip
    return render(made)


def _from_layout(layout: Path) -> dict[str, str]:
    """The layout, and the service settings that stand beside it."""
    from paictl.cluster.machines import services_for
    from paictl.cluster.presets import LAYOUT, SERVICES
    from paictl.config.reading.source import read_bytes

    files = {LAYOUT: read_bytes(str(layout)).decode("utf-8", errors="replace")}
    services = layout.with_name(SERVICES)
    if services.is_file():
        files[SERVICES] = read_bytes(str(services)).decode("utf-8", errors="replace")
    _refuse_errors(files)
    if SERVICES not in files:
        files[SERVICES] = services_for(files)
        console.info(f"note: there is no {SERVICES} beside the layout, so each kind of worker is in a VC of its own")
    return files


def _refuse_errors(files: Mapping[str, str]) -> None:
    from paictl.config.linting.report import FORMATS, plain
    from paictl.config.linting.validate import Choice, validate
    from paictl.config.reading.load import load_memory
    from paictl.config.reading.problem import Severity

    loaded = load_memory({name: text.encode() for name, text in files.items()})
    report = validate(loaded, Choice(severity=Severity.ERROR))
    if report.problems:
        console.info(plain(FORMATS["text"](report)))
        raise PaictlError("the files have errors, so no cluster was brought up", hint="correct them and try again")


@app.command()
def status(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show how the cluster is: time, nodes, services, jobs."""
    cluster = open_cluster(state)
    data = _status(cluster)
    if output is not Output.TABLE:
        write_data(data, output)
        return
    write(f"cluster {data['name']}, {data['time']} (up {data['up']}, clock {data['speed']})")
    for what in ("nodes", "devices", "services", "jobs"):
        write(f"{what + ':':<10}" + ", ".join(f"{number} {word}" for word, number in data[what].items()))
    for remark in data["remarks"]:
        write(f"note: {remark}")


def _status(cluster: EmbeddedCluster) -> dict[str, Any]:
    nodes, services, jobs, clock = cluster.nodes(), cluster.services(), cluster.jobs(), cluster.clock
    return {
        "name": cluster.name,
        "time": clock_text(cluster, cluster.now),
        "up": span_text(cluster.now),
        "speed": "runs out after every command" if clock.run_out else f"x{clock.speed:g}",
        "nodes": _counts(node.condition.value.lower() for node in nodes),
        "devices": {"used": sum(node.used for node in nodes), "in all": sum(node.machine.devices for node in nodes)},
        "services": _counts("running" if service.running else "stopped" for service in services),
        "jobs": _counts(job.state.value.lower() for job in jobs) or {"yet": "none"},
        "remarks": list(_remarks(nodes, services)),
    }


def _remarks(nodes: Sequence[NodeView], services: Sequence[ServiceView]) -> Iterator[str]:
    """What an administrator should know, one line each."""
    from paictl.words import listed

    stopped = [service.name for service in services if not service.running]
    if stopped:
        yield f"stopped: {listed(stopped)} (paictl service start)"
    yield from (f"{service.name}: {service.reason}" for service in services if service.running and service.reason)
    reasons: dict[str, list[str]] = {}
    for node in nodes:
        if node.reason:
            reasons.setdefault(node.reason, []).append(node.machine.name)
    yield from (f"{listed(names)}: {reason}" for reason, names in reasons.items())


def _counts(words: Any) -> dict[str, int]:
    from collections import Counter

    return dict(Counter(words))


@app.command(epilog="Examples: paictl cluster tick 10m · paictl cluster tick --until-idle")
def tick(
    span: Annotated[str | None, typer.Argument(help="How far: 90s, 10m, 1h30m.")] = None,
    until_idle: Annotated[bool, typer.Option("--until-idle", help="Until nothing more will happen.")] = False,
    state: StateOption = None,
) -> None:
    """Let the cluster's time pass."""
    from paictl.units import FOREVER, Millis, parse_duration

    if (span is None) == (not until_idle):
        raise PaictlError("say how far the clock goes", hint="paictl cluster tick 10m, or --until-idle")
    seconds = None if span is None else parse_duration(span)
    if seconds == FOREVER:
        raise PaictlError("the clock cannot go on for ever", hint="use --until-idle")
    cluster = open_cluster(state)
    now = cluster.tick(None if seconds is None else Millis(round(seconds * 1000)))
    write(clock_text(cluster, now))


@app.command()
def speed(
    factor: Annotated[str, typer.Argument(help="1, 60, 0 (stands still), max (runs out after every command).")],
    state: StateOption = None,
) -> None:
    """Let the cluster's clock run at another speed."""
    from paictl.cluster.embedded.clock import parse_speed

    number, run_out = parse_speed(factor)
    open_cluster(state).set_speed(number, run_out=run_out)


@app.command(epilog="Example: paictl cluster events --subject job/me~train")
def events(
    subject: Annotated[str | None, typer.Option("--subject", help="Only of one object, e.g. node/worker1.")] = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show what has happened."""
    cluster = open_cluster(state)
    show_events(cluster, subject, output)


def show_events(cluster: EmbeddedCluster, subject: str | None, output: Output) -> None:
    """Print the events of one object or of all."""
    found = cluster.events(subject)
    if output is not Output.TABLE:
        write_data([{**_event(event), "time": clock_text(cluster, event.at)} for event in found], output)
        return
    rows = [(clock_text(cluster, event.at), event.kind, event.subject, event.message) for event in found]
    columns = ("TIME", "WHAT", "OF", "DETAIL")
    if subject is not None:  # it stands on the command line
        columns, rows = ("TIME", "WHAT", "DETAIL"), [(time, kind, message) for time, kind, _, message in rows]  # type: ignore[assignment,misc]
    write_table(columns, rows)


def _event(event: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(event)


@app.command()
def down(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    state: StateOption = None,
) -> None:
    """Take the cluster down; jobs, configuration and history are lost."""
    cluster = open_cluster(state)
    name = cluster.name
    running = sum(not job.state.ended for job in cluster.jobs())
    confirm(f"cluster {name} will be removed, with {running} unfinished jobs and all history", name, yes=yes)
    cluster.down()
    console.info(f"cluster {name} is down")
