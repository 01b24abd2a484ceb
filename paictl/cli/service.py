"""`paictl service`: what runs on a cluster, started and stopped in the order of its prerequisites."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from paictl.cli import console
from paictl.cli.clusters import OutputOption, StateOption, check_id, clock_text, confirm, open_cluster, span_text
from paictl.cli.command import App
from paictl.cli.console import Output, write, write_data, write_table
from paictl.cluster.interface import Cluster
from paictl.errors import ExitCode, PaictlError
from paictl.service.catalogue import Catalogue, load_catalogue
from paictl.service.live import Outcome, carry_out, losses_on, sight_of
from paictl.service.plan import Action, Plan, Wish, chosen_services, make_plan
from paictl.service.readiness import readiness_of

app = App(help="List, start, stop, restart, refresh and delete the services of a cluster.")

Names = Annotated[
    list[str] | None, typer.Option("-n", "--service-name", metavar="NAME", help="Only this service; may be repeated.")
]
Skipped = Annotated[
    list[str] | None, typer.Option("-k", "--skip-service-name", metavar="NAME", help="All but this; may be repeated.")
]
More = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Further names for -n or -k.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the steps and do nothing.")]
With = Annotated[bool, typer.Option("--with-prerequisites", help="Start what the services need, too.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ClusterId = Annotated[str | None, typer.Option("--cluster-id", metavar="ID", help="Stop if it is another cluster.")]


@app.command("list", epilog="paictl service list -o json")
def list_services(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the services in the order in which they start, and what each means on this machine."""
    cluster, catalogue = open_cluster(state), load_catalogue()
    views = {view.name: view for view in cluster.services()}
    data: list[dict[str, Any]] = []
    for service in catalogue:
        view = views.get(service.name)
        condition = "absent" if view is None else "running" if view.running else "stopped"
        since = None if view is None else clock_text(cluster, view.since)
        loaded = None if view is None else view.loaded
        data.append({**asdict(service), "state": condition, "since": since, "configuration_version": loaded})
    if output is not Output.TABLE:
        write_data(data, output)
        return
    spans = [span_text(cluster.now - views[row["name"]].since) if row["since"] else "-" for row in data]
    rows = [
        (row["name"], row["state"], span, row["configuration_version"] or "-", row["embedded"])
        for row, span in zip(data, spans, strict=True)
    ]
    write_table(("NAME", "STATE", "SINCE", "CONFIG", "ON THIS MACHINE"), rows)


@app.command(
    epilog="""
    paictl service status -n rest-server
    Exit code 0 ready, 1 not ready.
"""
)
def status(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show which services do their work, and why the others do not."""
    cluster, catalogue = open_cluster(state), load_catalogue()
    wish = _wish(Action.REFRESH, names, skipped, more)
    sight = sight_of(cluster)
    found = [readiness_of(name, catalogue, sight) for name in chosen_services(wish, catalogue)]
    if output is not Output.TABLE:
        write_data([{**asdict(one), "state": one.state.value, "ready": one.ready} for one in found], output)
    else:
        rows = [(one.service, one.state.value, "yes" if one.ready else "no", "; ".join(one.reasons)) for one in found]
        write_table(("NAME", "STATE", "READY", "WHY NOT"), rows)
    raise typer.Exit(ExitCode.OK if all(one.ready for one in found) else ExitCode.NEGATIVE)


@app.command(
    epilog="""
    paictl service start
    paictl service start -n rest-server --with-prerequisites
"""
)
def start(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    with_prerequisites: With = False,
    cluster_id: ClusterId = None,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Start services, each behind what it needs."""
    wish = _wish("start", names, skipped, more, with_prerequisites=with_prerequisites)
    _run(wish, state, cluster_id, dry_run=dry_run)


@app.command(
    epilog="""
    paictl service stop -n hivedscheduler
    paictl service stop -k cluster-configuration
"""
)
def stop(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    cluster_id: ClusterId = None,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Stop services, each before what it needs; their data stay."""
    _run(_wish("stop", names, skipped, more), state, cluster_id, dry_run=dry_run)


@app.command(epilog="paictl service restart -n hivedscheduler")
def restart(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    with_prerequisites: With = False,
    cluster_id: ClusterId = None,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Stop services and start them again; running jobs go on."""
    wish = _wish("restart", names, skipped, more, with_prerequisites=with_prerequisites)
    _run(wish, state, cluster_id, dry_run=dry_run)


@app.command(epilog="paictl service refresh -n hivedscheduler -n rest-server")
def refresh(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    cluster_id: ClusterId = None,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Let running services load the configuration that was pushed last."""
    _run(_wish("refresh", names, skipped, more), state, cluster_id, dry_run=dry_run)


@app.command(epilog="paictl service delete -n grafana --dry-run")
def delete(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Stop services and delete their data, after saying which and asking."""
    _run(_wish("delete", names, skipped, more), state, cluster_id, dry_run=dry_run, ask=not yes)


def _wish(
    action: str, names: list[str] | None, skipped: list[str] | None, more: list[str] | None, **options: bool
) -> Any:
    """The wish of a command line: names that stand alone belong to the option that was given, -n if none was."""
    further = tuple(more or ())
    if skipped and not names:
        return Wish(Action(action), (), (*skipped, *further), **options)
    return Wish(Action(action), (*(names or ()), *further), tuple(skipped or ()), **options)


def _run(wish: Any, state: Path | None, cluster_id: str | None, *, dry_run: bool, ask: bool = False) -> None:
    """Plan a wish, show or carry out the plan, and say how it went."""
    cluster, catalogue = open_cluster(state), load_catalogue()
    check_id(cluster, cluster_id)
    plan = make_plan(wish, catalogue, sight_of(cluster).states)
    plan = replace(plan, losses=losses_on(plan, cluster))
    _say(plan)
    if dry_run:
        for step in plan.steps:
            write(f"would {step.action.value} {step.service}: {step.reason}")
        raise typer.Exit(ExitCode.NEGATIVE if plan.blocked else ExitCode.OK)
    if plan.blocked:
        raise PaictlError("nothing was done", hint=plan.blocked[0].hint)
    _carry_out(plan, catalogue, cluster, ask=ask)


def _say(plan: Plan) -> None:
    for blocked in plan.blocked:
        console.info(f"blocked: {blocked.message}")
    for remark in plan.settled:
        console.info(f"{remark.service} {remark.text}")
    for remark in plan.warnings:
        console.info(f"warning: {remark.service} {remark.text}")
    for loss in plan.losses:
        for data in loss.data:
            console.info(f"lost with {loss.service}: {data}")


def _carry_out(plan: Plan, catalogue: Catalogue, cluster: Cluster, *, ask: bool) -> None:
    if ask and plan.steps:
        names = ", ".join(step.service for step in plan.steps)
        confirm(f"{names} of cluster {cluster.name} will be deleted", cluster.name, yes=False)
    outcomes = carry_out(plan, catalogue, cluster, lambda step: console.detail(f"{step.action.value} {step.service}"))
    for outcome in outcomes:
        if outcome.error is None:
            write(f"{outcome.step.service}: {_PAST[outcome.step.action.value]}")
        else:
            console.error(outcome.error)
    raise typer.Exit(_exit_code(outcomes))


_PAST = {"start": "started", "stop": "stopped", "delete": "deleted", "refresh": "refreshed"}


def _exit_code(outcomes: tuple[Outcome, ...]) -> ExitCode:
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not failed:
        return ExitCode.OK
    return failed[0].exit_code if len(failed) == len(outcomes) else ExitCode.PARTIAL
