"""`paictl service`: what runs on a cluster, started and stopped in the order of its prerequisites."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from paictl.cli import console
from paictl.cli import names as names_of
from paictl.cli.clusters import OutputOption, StateOption, open_cluster
from paictl.cli.command import App
from paictl.cli.confirmation import ClusterId, Yes, check_id, confirm
from paictl.cli.console import Output, write, write_data, write_table
from paictl.cli.node.drivers import say_drivers
from paictl.cli.progress import Display, say_left
from paictl.cli.service.export import EXPORT_EXAMPLES, SECRETS_EXAMPLE, export, secrets
from paictl.cluster.capabilities import HandClock
from paictl.cluster.eventtext import reasons
from paictl.cluster.interface import Cluster, ServiceView
from paictl.cluster.values import NETWORK_POLICIES
from paictl.config.models.services import DRIVER
from paictl.errors import ExitCode
from paictl.i18n import joined, listed, sayable, text
from paictl.operate import services as operate
from paictl.operate.services import Condition, Prepared, perform, prepare
from paictl.places import runs_folder
from paictl.plan.events import both
from paictl.plan.folder import RunFolder, begin_run, forget_runs
from paictl.service.carry_out import Patience, ServiceOutcome
from paictl.service.plan import Action, ServiceRequest
from paictl.units import rfc3339, span_text

KEPT: Final = 100
"""Runs of services that are kept."""

EXAMPLES = """
    paictl service list
    paictl service start
    paictl service restart -n rest-server
"""

app = App(help="List, start, stop, restart, refresh and delete the services of a cluster.", epilog=EXAMPLES)

Names = Annotated[
    list[str] | None,
    typer.Option(
        "-n",
        "--service-name",
        metavar="NAME",
        autocompletion=names_of.services,
        help="Only this service; repeatable.",
    ),
]
Skipped = Annotated[
    list[str] | None,
    typer.Option(
        "-k",
        "--skip-service-name",
        metavar="NAME",
        autocompletion=names_of.services,
        help="All services except this one; repeatable.",
    ),
]
More = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME]...", autocompletion=names_of.services, help="More names for -n or -k."),
]
Timeout = Annotated[
    float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait for each to be ready.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the steps and do nothing.")]
With = Annotated[bool, typer.Option("--with-prerequisites", help="Start prerequisites, too.")]

TakeOver = Annotated[
    bool,
    typer.Option("--take-over", help="On Kubernetes: overwrite fields that others have changed."),
]
WithData = Annotated[
    bool, typer.Option("--with-data", help="On Kubernetes: delete data as well; on this machine it is always deleted.")
]


@app.command("list", epilog="paictl service list -o json")
def list_services(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the services in start order, and what each does."""
    cluster = open_cluster(state)
    imagined = isinstance(cluster, HandClock)
    services = operate.list_services(cluster)
    views = {service.service.name: service.view for service in services if service.view is not None}
    data: list[dict[str, Any]] = []
    for entry in services:
        service, view = entry.service, entry.view
        condition = "absent" if view is None else _state_of(view)
        since = None if view is None else rfc3339(view.since)
        loaded = None if view is None else view.loaded
        row = {**asdict(service), "state": condition, "since": since, "configuration_version": loaded}
        data.append({**row, **_details(view)})
    if output is not Output.TABLE:
        write_data(data, output)
        return
    spans = [span_text(cluster.now - views[row["name"]].since) if row["since"] else "-" for row in data]
    rows = [
        (row["name"], row["state"], span, row["configuration_version"] or "-", _about(row, imagined=imagined))
        for row, span in zip(data, spans, strict=True)
    ]
    write_table(("NAME", "STATE", "SINCE", "CONFIG", "ON THIS MACHINE" if imagined else "WHAT IT DOES"), rows)


def _about(row: dict[str, Any], *, imagined: bool) -> str:
    """What a service means here; where refreshing it would make a difference that is said first."""
    if imagined:
        return console.localized(str(row["embedded"]))
    return f"(its configuration changed) {row['description']}" if row["changed"] else str(row["description"])


def _state_of(view: ServiceView) -> str:
    return "failed" if view.failed else "running" if view.running else "stopped"


def _details(view: ServiceView | None) -> dict[str, Any]:
    """What a view says beside its state, the same keys for one that is absent."""
    if view is None:
        return {"ready": False, "reason": "", "version": "", "changed": None, "stale": []}
    return {
        "ready": view.ready,
        "reason": view.reason,
        "version": view.version,
        "changed": view.changed,
        "stale": list(view.stale),
    }


@app.command(
    epilog="""
    paictl service status -n rest-server
    the exit code is 0 if all are ready and unchanged, else 1
"""
)
def status(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    output: OutputOption = Output.TABLE,
    state: StateOption = None,
) -> None:
    """Show which services are ready, why others are not, and what was changed by hand."""
    conditions = operate.conditions(open_cluster(state), _request("refresh", names, skipped, more))
    if output is not Output.TABLE:
        write_data([_condition_data(condition) for condition in conditions], output)
    else:
        rows = [
            (its.service, its.state.value, text("yes") if its.ready else text("no"), joined("; ", its.reasons))
            for its in (condition.readiness for condition in conditions)
        ]
        write_table(("NAME", "STATE", "READY", "WHY NOT"), rows)
        for condition in conditions:
            _say_changes(condition)
    raise typer.Exit(ExitCode.OK if all(condition.good for condition in conditions) else ExitCode.NEGATIVE)


def _condition_data(condition: Condition) -> dict[str, Any]:
    readiness = condition.readiness
    own = {**asdict(readiness), "state": readiness.state.value}
    return {
        **own,
        **_details(condition.view),
        "ready": readiness.ready,
        "drift": list(condition.drift),
        "protections": [asdict(guard) for guard in condition.protections],
        "drivers": [asdict(each) for each in condition.drivers],
    }


def _say_changes(condition: Condition) -> None:
    """What is not as it was applied, and what is not as the configuration says now."""
    name = condition.readiness.service
    for line in condition.drift:
        console.info(text("{name} was changed by hand: {line}", name=name, line=line))
    if condition.drift:
        console.info(text("to undo it: paictl service refresh -n {name} --take-over", name=name))
    _say_protections(condition)
    say_drivers(condition.drivers)
    if condition.view is not None and condition.view.running and condition.view.changed:
        console.info(text("{name} does not match the configuration: paictl service refresh -n {name}", name=name))


def _say_protections(condition: Condition) -> None:
    """What protects tenants from each other: what is in force in one line, what is not in one each.

    Policies of the network are only said to exist: whether the pod network enforces them, only a trial shows.
    """
    existing = [guard.name for guard in condition.protections if guard.in_force]
    in_force = [name for name in existing if name != NETWORK_POLICIES]
    if in_force:
        console.info(text("protections in force between tenants: {names}", names=", ".join(in_force)))
    if NETWORK_POLICIES in existing:
        key = "NetworkPolicies exist; to check whether the pod network enforces them: {command}"
        console.info(text(key, command="paictl deploy verify -m … -w … -c …"))
    for guard in condition.protections:
        if not guard.in_force:
            console.warning(
                text("protection not in force between tenants: {name}: {why}", name=guard.name, why=guard.message)
            )


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
    take_over: TakeOver = False,
    cluster_id: ClusterId = None,
    timeout: Timeout = 300.0,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Start services in dependency order; resume any that are half started."""
    request = _request("start", names, skipped, more, with_prerequisites=with_prerequisites, take_over=take_over)
    _run(request, state, cluster_id, dry_run=dry_run, timeout=timeout)


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
    yes: Yes = False,
    timeout: Timeout = 300.0,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Stop services in reverse dependency order; their configuration and data stay."""
    _run(_request("stop", names, skipped, more), state, cluster_id, dry_run=dry_run, yes=yes, timeout=timeout)


@app.command(epilog="paictl service restart -n hivedscheduler")
def restart(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    with_prerequisites: With = False,
    take_over: TakeOver = False,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    timeout: Timeout = 300.0,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Restart services; running jobs keep running."""
    request = _request("restart", names, skipped, more, with_prerequisites=with_prerequisites, take_over=take_over)
    _run(request, state, cluster_id, dry_run=dry_run, yes=yes, timeout=timeout)


@app.command(epilog="paictl service refresh -n hivedscheduler -n rest-server")
def refresh(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    take_over: TakeOver = False,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    timeout: Timeout = 300.0,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Make running services load the newest configuration if it affects them."""
    request = _request("refresh", names, skipped, more, take_over=take_over)
    _run(request, state, cluster_id, dry_run=dry_run, yes=yes, timeout=timeout)


@app.command(epilog="paictl service delete -n grafana --dry-run")
def delete(
    names: Names = None,
    skipped: Skipped = None,
    more: More = None,
    with_data: WithData = False,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    state: StateOption = None,
) -> None:
    """Stop and delete services, after showing what will be lost and asking."""
    _run(_request("delete", names, skipped, more, with_data=with_data), state, cluster_id, dry_run=dry_run, yes=yes)


app.command(epilog=EXPORT_EXAMPLES)(export)
app.command(epilog=SECRETS_EXAMPLE)(secrets)


def _request(
    action: str, names: list[str] | None, skipped: list[str] | None, more: list[str] | None, **options: bool
) -> ServiceRequest:
    """The request of a command line: names that stand alone belong to the option that was given, -n if none was."""
    further = tuple(more or ())
    if skipped and not names:
        return ServiceRequest(Action(action), (), (*skipped, *further), **options)
    return ServiceRequest(Action(action), (*(names or ()), *further), tuple(skipped or ()), **options)


def _run(
    request: ServiceRequest,
    state: Path | None,
    cluster_id: str | None,
    *,
    dry_run: bool,
    yes: bool = True,
    timeout: float = 300.0,
) -> None:
    """Plan a request, show or carry out the plan, and say how it went.

    Whoever names services for a stop means them; what nobody named, and data that are lost, are asked for.
    """
    cluster = open_cluster(state)
    check_id(cluster, cluster_id)
    prepared = prepare(cluster, request)
    _say(prepared)
    say_left(prepared.left)
    if dry_run:
        for step in prepared.plan.steps:
            write(console.localized(_WOULD[step.action.value], name=step.service, reason=sayable(step.reason)))
        raise typer.Exit(ExitCode.NEGATIVE if prepared.plan.blocked else ExitCode.OK)
    if not prepared.plan.blocked:
        _ask(prepared, cluster.name, yes=yes or cluster_id is not None)
    kept = _run_folder(cluster, prepared)
    with Display("service") as display:
        listen = both(kept.listener(_now), display) if kept is not None else display
        outcomes = perform(cluster, prepared, listen, Patience(deadline=timeout))
    for outcome in outcomes:
        if outcome.error is None:
            write(console.localized(f"{{name}}: {_PAST[outcome.step.action.value]}", name=outcome.step.service))
        else:
            console.error(outcome.error)
        if outcome.dependants:
            names = listed(outcome.dependants)
            console.info(text("not started because of {name}: {names}", name=outcome.step.service, names=names))
    _say_changed_drivers(cluster, outcomes)
    if kept is not None:
        tell = console.info if any(outcome.error for outcome in outcomes) else console.detail
        tell(text("the record of this run is in {path}", path=kept.path))
    raise typer.Exit(_exit_code(outcomes))


def _say_changed_drivers(cluster: Cluster, outcomes: tuple[ServiceOutcome, ...]) -> None:
    """After drivers were applied: which node runs which, since none is exchanged by itself."""
    brought = (Action.START, Action.REFRESH)
    if any(outcome.step.service == DRIVER and outcome.step.action in brought for outcome in outcomes):
        say_drivers(cluster.drivers())


def _run_folder(cluster: Cluster, prepared: Prepared) -> RunFolder | None:
    """Where the run of a plan is kept; None if nothing is to do, or the cluster is imagined and has its own log."""
    plan = prepared.plan
    if not plan.steps or plan.blocked or isinstance(cluster, HandClock):
        return None
    kind = f"service-{plan.request.action.value}"
    steps = [f"{step.action.value} {step.service}" for step in plan.steps]
    folder = begin_run(runs_folder(), kind, {"cluster": cluster.name, "steps": steps}, _now())
    forget_runs(runs_folder(), "service-", keep=KEPT)
    return folder


def _now() -> datetime:
    return datetime.now(UTC)


def _ask(prepared: Prepared, cluster: str, *, yes: bool) -> None:
    """Ask for the cluster's name before services are deleted that were not named, or data are lost."""
    action = prepared.plan.request.action.value
    if not prepared.plan.steps or not (prepared.sweeping or action == "delete"):
        return
    names = list(dict.fromkeys(step.service for step in prepared.plan.steps))
    some = ", ".join(names) if len(names) <= 4 else text("{count} services", count=len(names))
    confirm(text(_WILL_BE[action], some=some, cluster=cluster), cluster, yes=yes)


def _say(prepared: Prepared) -> None:
    plan = prepared.plan
    for blocked in plan.blocked:
        console.info(text("blocked: {what}", what=blocked.message))
    for remark in plan.settled:
        console.info(joined(" ", (remark.service, sayable(remark.text))))
    for remark in plan.warnings:
        console.info(text("warning: {name} {what}", name=remark.service, what=remark.text))
    for name, objects in prepared.stale.items():
        for leftover in objects:
            console.info(text("{name} no longer includes {object}: it will be deleted", name=name, object=leftover))
    for loss in plan.losses:
        for data in loss.data:
            if prepared.data_stay:
                console.info(
                    text("kept for {name}: {data}; --with-data deletes it", name=loss.service, data=reasons(data))
                )
            else:
                console.info(text("lost with {service}: {data}", service=loss.service, data=reasons(data)))


_WOULD = {
    "start": "would start {name}: {reason}",
    "stop": "would stop {name}: {reason}",
    "delete": "would delete {name}: {reason}",
    "refresh": "would refresh {name}: {reason}",
}
_WILL_BE = {
    "start": "{some} of cluster {cluster} will be started",
    "stop": "{some} of cluster {cluster} will be stopped",
    "restart": "{some} of cluster {cluster} will be restarted",
    "delete": "{some} of cluster {cluster} will be deleted",
    "refresh": "{some} of cluster {cluster} will be refreshed",
}
_PAST = {"start": "started", "stop": "stopped", "delete": "deleted", "refresh": "refreshed"}


def _exit_code(outcomes: tuple[ServiceOutcome, ...]) -> ExitCode:
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    if not failed:
        return ExitCode.OK
    return failed[0].exit_code if len(failed) == len(outcomes) else ExitCode.PARTIAL
