"""The three files that say which machines there are: their options, and reading them."""

from __future__ import annotations

from typing import Annotated

import typer

from paictl.cli import console
from paictl.config.linting.report import FORMATS
from paictl.config.making.generate import read_inputs
from paictl.deploy.inventory import Deployment, deployment_of, hosts_of, route_api
from paictl.errors import ExitCode
from paictl.remote import require_deploy
from paictl.remote.ssh.fleet import Fleet
from paictl.remote.ssh.link import SshOptions

Masters = Annotated[
    str, typer.Option("--masters", "-m", metavar="FILE", help="List of masters, one hostname,address per line.")
]
Workers = Annotated[
    str, typer.Option("--workers", "-w", metavar="FILE", help="List of workers, one hostname,address per line.")
]
Config = Annotated[str, typer.Option("--config", "-c", metavar="FILE", help="Cluster settings (config.yaml).")]
AcceptNew = Annotated[
    bool,
    typer.Option("--accept-new-host-keys", help="Trust and show the keys of hosts without a known key."),
]


def read_deployment(masters: str, workers: str, config: str) -> Deployment:
    """The deployment that the files describe; prints their errors, if any, and ends the command with code 2."""
    inputs = read_inputs(masters, workers, config)
    if not inputs.usable:
        console.write_segments(FORMATS["text"](inputs.report))
        console.info("no host was changed: correct the errors first")
        raise typer.Exit(ExitCode.USAGE)
    deployment = deployment_of(inputs)
    route_api(deployment)
    return deployment


def ssh_options(accept_new: bool) -> SshOptions:
    """How to connect; raises `PaictlError` if the extra for it is not installed."""
    require_deploy()
    return SshOptions(accept_new=accept_new)


def accept_host_keys(deployment: Deployment) -> None:
    """Trust the keys of machines that have no known one yet, and show them."""
    with Fleet(hosts_of(deployment), SshOptions(accept_new=True)) as fleet:
        for name, result in fleet.run("true").items():
            if result.new_key:
                console.info(console.localized("{host}: host key accepted: {key}", host=name, key=result.new_key))
