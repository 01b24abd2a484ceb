"""`paictl deploy reset`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import ClusterId, Yes, confirm
from paictl.cli.console import localized
from paictl.cli.deploy.files import Config, Masters, Workers, read_deployment
from paictl.cli.options import BreakLock
from paictl.cluster import registry
from paictl.deploy.inventory import named
from paictl.deploy.kubeconfig import context_name, default_kubeconfig, forget
from paictl.deploy.reset import forget_nodes, loss_of
from paictl.deploy.reset import reset as carry_out
from paictl.deploy.site import raise_for
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.places import runs_folder
from paictl.plan.folder import begin_run
from paictl.remote.kube.client import KubeClient, connect

app = App()

EPILOG = """
    paictl deploy reset -m master.csv -w worker.csv -c config.yaml
    paictl deploy reset -m master.csv -w worker.csv -c config.yaml --node gpu-3

Also works after a deployment that did not finish. To remove a worker and move its jobs: paictl node remove.
"""


@app.command(epilog=EPILOG)
def reset(
    masters: Masters,
    workers: Workers,
    config: Config,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NAME", help="Only this machine; repeatable.")
    ] = None,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    break_lock: BreakLock = False,
) -> None:
    """Return machines to their original state; shows what will be lost and asks for the cluster's id."""
    deployment = read_deployment(masters, workers, config)
    cluster = deployment.settings.cluster
    other_cluster(cluster_id, cluster)
    chosen = list(named(deployment, node)) if node else list(deployment.machines)
    whole = len(chosen) == len(deployment.machines)
    if not whole and all(master in chosen for master in deployment.masters):
        raise PaictlError("without a master the cluster is lost", hint="to reset all machines, omit --node")
    client = api_of(cluster)
    for line in loss_of(deployment, chosen, client).lines:
        console.warning(localized("lost: {what}", what=line))
    question = localized("resetting machines of cluster {cluster}", cluster=cluster)
    confirm(question, cluster, yes=yes or cluster_id is not None)
    request = {"cluster": cluster, "machines": [machine.name for machine in chosen]}
    folder = begin_run(runs_folder(), "deploy-reset", request, datetime.now(UTC), deployment.secrets)
    result = carry_out(deployment, chosen, folder.path, tell_host, break_lock=break_lock)
    for name, outcome in result.hosts.items():
        if outcome.well:
            console.write(localized("{host}: reset" if outcome.changed else "{host}: already clean", host=name))
    raise_for(result, "reset", len(chosen))
    if whole:
        forget(default_kubeconfig(), cluster)
        if cluster in registry.read_registry().clusters:
            registry.remove(cluster)
    elif client is not None and (left := forget_nodes(api_of(cluster) or client, chosen)):
        console.warning(localized("still a node of the cluster: {names}", names=", ".join(left)))
        raise typer.Exit(ExitCode.PARTIAL)


def api_of(cluster: str) -> KubeClient | None:
    """The API as the user's kubeconfig reaches it; None where there is no way in."""
    try:
        return connect(default_kubeconfig(), context_name(cluster))
    except PaictlError:
        return None


def other_cluster(cluster_id: str | None, cluster: str) -> None:
    """Raise `PaictlError` if the files are of another cluster than was named."""
    if cluster_id not in (None, cluster):
        message = text("config.yaml belongs to cluster {cluster}, not {other}", cluster=cluster, other=cluster_id)
        raise PaictlError(message, hint="nothing was done")


def tell_host(message: str, about: str = "") -> None:
    """Say what is done, and loudly what goes wrong on a host."""
    (console.warning if about else console.detail)(f"{about}: {localized(message)}" if about else localized(message))
