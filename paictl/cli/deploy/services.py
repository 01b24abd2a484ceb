"""The second half of `paictl deploy apply`: configuration and services, and what to try first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from paictl.cli import console
from paictl.cli.config.push import show_plan, showing_contested
from paictl.cli.confirmation import confirm, showing_reports
from paictl.cli.console import localized
from paictl.cli.progress import Display, say_left
from paictl.cluster.interface import ConflictError
from paictl.cluster.targets import open_target
from paictl.errors import ExitCode
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate.bundling import missing_images, missing_lines
from paictl.operate.deploying import (
    address_of,
    make_configuration,
    plan_configuration,
    start_services,
    store_configuration,
)
from paictl.operate.users.accounts import named_administrator
from paictl.service.carry_out import Patience
from paictl.service.plan import Action, ServiceRequest

if TYPE_CHECKING:
    from paictl.cluster.interface import Cluster
    from paictl.deploy.apply import Applied
    from paictl.deploy.desired import Desired
    from paictl.service.carry_out import ServiceOutcome

PORTAL = "webportal"


@frozen
class StartOptions:
    """What is pushed (made from the machines without `folder`), and which services are started."""

    folder: Path | None = None
    names: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    timeout: float = 300.0
    """Seconds that each may take to get ready."""
    yes: bool = False
    """Whether a configuration that replaces another one is not asked about."""


def configuration_folder(folder: Path | None) -> Path:
    """Where the configuration is that `apply` pushes: the given folder, or the one that it makes."""
    return folder or Path.home() / "pai-deploy" / "cluster-cfg"


def say_missing_images(desired: Desired, folder: Path, services: Sequence[str] = ()) -> list[str]:
    """Say which services a configuration wants whose images machines without a registry would not have; those lines."""
    if not desired.deployment.settings.offline:
        return []
    lines = missing_lines(missing_images(folder, {image.reference for image in desired.images}, services))
    for line in lines:
        console.warning(console.localized(line))
    return lines


def deploy_services(desired: Desired, files: Sequence[str], done: Applied, options: StartOptions) -> None:
    """Make and push the configuration, start the services, say what runs, what does not and why, and what to try."""
    settings = desired.deployment.settings
    where = configuration_folder(options.folder)
    if make_configuration(files, done.facts, where):
        console.info(localized("configuration written to {where}: review it, change it, push it again", where=where))
    cluster = open_target(settings.cluster)
    push_folder(cluster, where, named=options.folder is not None, yes=options.yes)
    with Display("services") as display:
        request = ServiceRequest(Action.START, options.names, () if options.names else options.skip)
        started = start_services(cluster, request, display, console.info, Patience(deadline=options.timeout))
    outcomes = started.outcomes
    _say_services(outcomes)
    say_left(started.left)
    _say_what_next(cluster, desired.deployment.endpoint.rpartition(":")[0], where, known_as=settings.cluster)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        raise typer.Exit(ExitCode.PARTIAL if len(errors) < len(outcomes) else errors[0].exit_code)


def push_folder(cluster: Cluster, where: Path, *, named: bool, yes: bool) -> None:
    """Store the configuration of a folder; another one than the cluster has is shown, and needs a yes.

    Where the cluster has a newer one, a folder that was `named` is refused, and one that nobody named is left alone.
    """
    try:
        with showing_reports():
            made = plan_configuration(cluster, where)
    except ConflictError:
        if named:
            with showing_contested():
                raise
        key = "cluster {cluster} keeps its configuration, which did not come from {where}; to push that: {command}"
        console.info(localized(key, cluster=cluster.name, where=where, command=f"paictl config push -p {where}"))
        return
    if not made.changes:
        console.info(localized("the cluster already has this configuration"))
        return
    if made.base:
        show_plan(made)
        confirm(text("cluster {name} gets a new configuration", name=cluster.name), cluster.name, yes=yes)
    with showing_contested():
        version = store_configuration(cluster, made, where)
    console.info(localized("configuration version {version} stored", version=version))
    for name in made.readers.to_refresh:
        console.info(localized("{service}: loading it now", service=name))


def _say_services(outcomes: Sequence[ServiceOutcome]) -> None:
    for outcome in outcomes:
        if outcome.error is not None:
            console.error(outcome.error)
        else:
            console.write(localized("{service}: started", service=outcome.step.service))


def _say_what_next(cluster: Cluster, host: str, where: Path, *, known_as: str) -> None:
    """The portal's address if it runs, and what to type first."""
    runs = any(service.name == PORTAL and service.running for service in cluster.services())
    port = address_of(cluster, PORTAL).port
    if runs and port:
        console.write(
            localized(
                "portal:   https://{host}:{port}/  (self-signed certificate: the browser warns once)",
                host=host,
                port=port,
            )
        )
        user = named_administrator(cluster)
        if user:
            console.write(
                localized(
                    "sign in:  as {user}; the password is in {where}/services-configuration.yaml",
                    user=user,
                    where=where,
                )
            )
    console.write(
        localized(
            "try:      paictl cluster use {cluster}; paictl cluster view; paictl job submit JOB.yaml", cluster=known_as
        )
    )
    console.write(localized("check it: paictl deploy verify -m … -w … -c …; paictl service status"))
