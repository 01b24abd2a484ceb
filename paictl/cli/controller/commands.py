"""`paictl controller`: jobs on a Kubernetes cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.options import address, namespaced
from paictl.cluster.doors import server_of
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.units import parse_duration

HELP = "Run the job controller of a Kubernetes cluster, which runs submitted jobs."
app = App(help=HELP)


@app.callback()
def controller() -> None:
    """Run the job controller of a Kubernetes cluster."""


@app.command(epilog="paictl controller serve --kubeconfig ~/.kube/config --context admin@prod")
def serve(
    *,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of the cluster (default in a pod: its own cluster).")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for probes and metrics.")] = "0.0.0.0:9188",
    leader_elect: Annotated[bool, typer.Option("--leader-elect", help="Elect one of several replicas to act.")] = False,
    lease: Annotated[
        str, typer.Option(metavar="NAMESPACE/NAME", help="The Lease for it.")
    ] = "paictl-system/frameworkcontroller",
    door: Annotated[
        str, typer.Option(help="How pods reach the scheduler: extender, or gates (the placer).")
    ] = "extender",
    keep: Annotated[str, typer.Option(metavar="SPAN", help="How long to keep jobs after they end.")] = "30d",
) -> None:
    """Create Jobs for submitted jobs, retry them, and report their status, until stopped.

    The exit code is 0 after a clean end, 2 if the process cannot continue, 4 if there is no cluster.
    """
    from paictl.controller.service import ControllerService, ControllerSettings  # late: needs the extra k8s
    from paictl.remote.kube.client import connect

    host, port = address(listen)
    server_of(door)  # reject an unknown door before anything is done
    try:
        seconds = float(parse_duration(keep))
    except ValueError as error:
        raise PaictlError(f"--keep {keep!r}: {error}") from None
    named = namespaced("--lease", lease)
    client = connect(kubeconfig, context)
    settings = ControllerSettings(
        host=host, port=port, elect=leader_elect, lease=named, keep=seconds, gated=door == "gates"
    )
    console.info(text("probes and metrics on {listen}, jobs of {where}", listen=listen, where=client.where))
    ControllerService(client, settings, console.info).run()
