"""The second half of `paictl deploy apply`: configuration and services, and what to try first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from paictl.cli import console
from paictl.cli.clusters import showing_reports
from paictl.cli.progress import Display
from paictl.cluster.targets import open_target
from paictl.errors import ExitCode
from paictl.operate.deploying import make_configuration, push_configuration, start_services

if TYPE_CHECKING:
    from paictl.deploy.apply import Applied
    from paictl.deploy.inventory import Deployment


def deploy_services(
    deployment: Deployment, files: Sequence[str], done: Applied, folder: Path | None, names: Sequence[str]
) -> None:
    """Make and push the configuration, start the services, say where the portal is."""
    name = deployment.settings.cluster
    where = folder or Path.home() / "pai-deploy" / "cluster-cfg"
    written = make_configuration(files, done.facts, where)
    if written:
        console.info(f"configuration written to {where}: look at it, change it, push it again")
    cluster = open_target(name)
    with showing_reports():
        version = push_configuration(cluster, where)
    console.info(f"configuration version {version} stored" if version else "the cluster has this configuration already")
    with Display("services") as display:
        outcomes = start_services(cluster, names, display, console.info)
    failed = [one for one in outcomes if one.error is not None]
    for outcome in outcomes:
        if outcome.error is not None:
            console.error(outcome.error)
        else:
            console.write(f"{outcome.step.service}: started")
    _say_what_next(deployment, where)
    if failed:
        raise typer.Exit(ExitCode.PARTIAL if len(failed) < len(outcomes) else failed[0].error.exit_code)  # type: ignore[union-attr]


def _say_what_next(deployment: Deployment, where: Path) -> None:
    host = deployment.endpoint.rpartition(":")[0]
    console.write(f"portal:   http://{host}/  (user admin; its password is in {where}/services-configuration.yaml)")
    console.write(
        f"try:      paictl cluster use {deployment.settings.cluster}; paictl node list; paictl service status"
    )
    console.write("check it: paictl deploy verify -m … -w … -c …")
