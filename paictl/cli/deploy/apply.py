"""`paictl deploy plan` and `paictl deploy apply`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, localized
from paictl.cli.deploy.files import AcceptNew, Config, Masters, Workers, accept_host_keys, read_deployment
from paictl.cli.deploy.progress import (
    PhaseLines,
    machines_changed,
    show_cache_users,
    show_changes,
    show_end,
    show_notes,
    show_unlisted,
)
from paictl.cli.deploy.services import (
    StartOptions,
    configuration_folder,
    deploy_services,
    say_missing_images,
)
from paictl.cli.options import BreakLock
from paictl.cluster import registry
from paictl.cluster.targets import open_target, pinned_now
from paictl.deploy.apply import Applied, check_plan, make_plan, plan_data, plan_from, prepare
from paictl.deploy.apply import apply as carry_out
from paictl.deploy.artifacts import verify
from paictl.deploy.inventory import Deployment
from paictl.deploy.kubeconfig import context_name, default_kubeconfig, merge_into
from paictl.errors import ExitCode, PaictlError
from paictl.files import write_together
from paictl.i18n import counted
from paictl.operate.deploying import judge_room, keep_images
from paictl.places import runs_folder

if TYPE_CHECKING:
    from paictl.deploy.desired import Desired
    from paictl.deploy.facts import HostFacts
    from paictl.deploy.site import Site

app = App()

PLAN_EPILOG = """
    paictl deploy plan -m master.csv -w worker.csv -c config.yaml
    paictl deploy plan -m master.csv -w worker.csv -c config.yaml -o plan.json && paictl deploy apply plan.json

Nothing is changed on any host. A plan that was written is applied as it was, or refused if the files have changed.
"""
APPLY_EPILOG = """
    paictl deploy apply -m master.csv -w worker.csv -c config.yaml
    paictl deploy apply plan.json --yes
    paictl deploy apply -m master.csv -w worker.csv -c config.yaml --kubernetes-only

To resume after an interruption, run the same command again: anything already in place is left unchanged.
Exit code 3: some hosts did not finish; 4: none could be reached.
"""

ArtifactsOption = Annotated[
    str, typer.Option("--artifacts", metavar="DIR", help="Artifact folder (default: as config.yaml says).")
]
MaybeFile = str | None
"""A file that a plan may name in the place of an option."""


@app.command(epilog=PLAN_EPILOG)
def plan(
    masters: Masters,
    workers: Workers,
    config: Config,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the plan to a file.")] = None,
    artifacts: ArtifactsOption = "",
    accept_new: AcceptNew = False,
    form: Annotated[Output, typer.Option("--format", "-f", help="Output format.")] = Output.TABLE,
) -> None:
    """Show what a deployment would change on which machine, and change nothing."""
    deployment = read_deployment(masters, workers, config)
    desired = _desired(deployment, artifacts, accept_new=accept_new)
    made = make_plan(desired, runs_folder(), _now, PhaseLines())
    data = plan_data((masters, workers, config), desired, made.changes)
    show_unlisted(made.unlisted)
    say_missing_images(desired, configuration_folder(None))
    show_cache_users(made.facts)
    try:
        _judge(made.facts, (masters, workers, config), None)
    except PaictlError as error:
        console.warning(console.localized(str(error)))
    if out is not None:
        write_together(out.parent, {out.name: json.dumps(data, indent=1) + "\n"}, force=True, mode=0o600)
        console.info(localized("plan written; next: {command}", command=f"paictl deploy apply {out}"))
    if form is not Output.TABLE:
        console.write_data(data, form)
        return
    show_notes(deployment.settings.notes)
    show_changes(made.changes)
    if not made.changes:
        console.write(localized("nothing to change: everything is up to date"))


@app.command(epilog=APPLY_EPILOG)
def apply(
    file: Annotated[Path | None, typer.Argument(metavar="[PLAN]", help="A plan written by: deploy plan --out.")] = None,
    masters: Annotated[
        MaybeFile,
        typer.Option("--masters", "-m", metavar="FILE", help="List of masters, one hostname,address per line."),
    ] = None,
    workers: Annotated[
        MaybeFile,
        typer.Option("--workers", "-w", metavar="FILE", help="List of workers, one hostname,address per line."),
    ] = None,
    config: Annotated[
        MaybeFile, typer.Option("--config", "-c", metavar="FILE", help="Cluster settings (config.yaml).")
    ] = None,
    kubernetes_only: Annotated[
        bool, typer.Option("--kubernetes-only", help="Stop when all nodes are Ready; start no services.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--path", "-p", metavar="DIR", help="Configuration to push (default: made from the machines)."),
    ] = None,
    services: Annotated[
        list[str] | None,
        typer.Option("--service-name", "-n", metavar="NAME", help="Start only this service; repeatable."),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip-service-name", "-k", metavar="NAME", help="Start all services except this one; repeatable."
        ),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=1, metavar="SECONDS", help="How long each phase and each service may take."),
    ] = 300.0,
    artifacts: ArtifactsOption = "",
    accept_new: AcceptNew = False,
    break_lock: BreakLock = False,
    yes: Yes = False,
    form: Annotated[Output, typer.Option("--output", "-o", help="Output format.")] = Output.TABLE,
) -> None:
    """Turn the machines into a running cluster: Kubernetes, and all services on it."""
    read = plan_from(file) if file is not None else None
    files = _named((read.masters, read.workers, read.config) if read else (masters, workers, config))
    deployment = read_deployment(*files)
    desired = _desired(deployment, artifacts, accept_new=accept_new)
    if read:
        check_plan(read, desired)
    cluster = deployment.settings.cluster
    show_notes(deployment.settings.notes)
    question = localized(
        "{masters} and {workers} will form cluster {cluster} (Kubernetes {version})",
        masters=counted("{count} master", "{count} masters", len(deployment.masters)),
        workers=counted("{count} worker", "{count} workers", len(deployment.workers)),
        cluster=cluster,
        version=desired.version,
    )
    confirm(question, cluster, yes=yes)

    def judge(site: Site) -> None:
        if not kubernetes_only:
            _judge(site.facts.values(), files, folder)
            if services:  # services that were not named and lack images are left out, and listed at the end
                say_missing_images(desired, configuration_folder(folder), services)

    done = carry_out(
        desired,
        runs_folder(),
        _now,
        PhaseLines(),
        lambda site: _give_access(site, cluster),
        timeout,
        break_lock=break_lock,
        judge=judge,
    )
    show_unlisted(done.unlisted)
    show_cache_users(done.facts)
    changes = [asdict(change) for change in done.changes]
    show_end(done, _summary(done, cluster), form, {"cluster": cluster}, {"changes": changes})
    if not kubernetes_only:
        if done.lacks_network:
            context = f"paictl-{cluster}"
            key = "no service was started: install the network (context {context}), then apply again"
            console.warning(localized(key, context=context))
            raise typer.Exit(ExitCode.NEGATIVE)
        deploy_services(
            desired, files, done, StartOptions(folder, tuple(services or ()), tuple(skip or ()), timeout, yes)
        )


def _named(files: tuple[MaybeFile, MaybeFile, MaybeFile]) -> tuple[str, str, str]:
    """The lists of masters and of workers, and the settings; raises `PaictlError` where one is missing."""
    masters, workers, config = files
    if not (masters and workers and config):
        hint = "paictl deploy apply -m master.csv -w worker.csv -c config.yaml, or a plan"
        raise PaictlError("no machines given", hint=hint)
    return masters, workers, config


def _desired(deployment: Deployment, artifacts: str, *, accept_new: bool) -> Desired:
    desired = prepare(deployment, artifacts)
    verify(desired.artifacts)
    if accept_new:
        accept_host_keys(deployment)
    return desired


def _judge(facts: Iterable[HostFacts], files: tuple[str, str, str], folder: Path | None) -> None:
    """Say what the services would lack on these machines, before anything is installed for them."""
    for line in judge_room(files, facts, configuration_folder(folder)):
        console.warning(console.localized(line))


def _give_access(site: Site, cluster: str) -> None:
    """Merge the way in into the user's kubeconfig, and let paictl know the cluster by its name and what it has."""
    path = default_kubeconfig()
    if merge_into(path, site.kubeconfig, cluster):
        kept = "{path}: context {context} added (your current context is unchanged)"
        console.info(localized(kept, path=path, context=context_name(cluster)))
    known = registry.read_registry().clusters.get(cluster)
    pinned = pinned_now(cluster, str(path), context_name(cluster))
    if known != pinned:
        registry.add(pinned, force=known is not None and known.context == pinned.context)
        command = f"paictl cluster use {cluster}"
        console.info(localized("added to paictl as {cluster}: {command}", cluster=cluster, command=command))
    keep_images(open_target(cluster), site.desired)


def _summary(done: Applied, cluster: str) -> str:
    if done.lacks_network:
        waits = "cluster {cluster} is up, but its nodes are not Ready: they wait for a pod network"
        return localized(waits, cluster=cluster)
    if not done.changes:
        return localized("nothing changed: cluster {cluster} is up to date", cluster=cluster)
    hosts = len({change.host for change in done.changes})
    up = "cluster {cluster} is up: all nodes are Ready ({machines})"
    return localized(up, cluster=cluster, machines=machines_changed(hosts))


def _now() -> datetime:
    return datetime.now(UTC)
