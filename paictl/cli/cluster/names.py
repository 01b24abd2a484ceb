"""`paictl cluster list|use|add|remove`: the clusters that a user can name."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paictl.cli import console, names
from paictl.cli.clusters import OutputOption
from paictl.cli.command import App
from paictl.cli.console import Output, write_data, write_table
from paictl.cluster import registry
from paictl.cluster.interface import ClusterError, UnreachableError
from paictl.cluster.targets import VARIABLE, Target, chosen_name, find_target, open_target, pinned_now, targets
from paictl.i18n import text

app = App()

Name = Annotated[str, typer.Argument(metavar="NAME", autocompletion=names.clusters, help="Name of a cluster.")]


@app.command("list", epilog="paictl cluster list")
def list_clusters(output: OutputOption = Output.TABLE) -> None:
    """List known clusters; the current one has a star."""
    used, known = chosen_name(), targets()
    if output is not Output.TABLE:
        write_data([_data(target, used) for target in known.values()], output)
        return
    rows = [
        (
            "*" if target.name == used else "",
            target.name,
            target.kind.value,
            target.where,
            target.pinned.context if target.pinned else "-",
        )
        for target in known.values()
    ]
    write_table(("", "NAME", "KIND", "WHERE", "CONTEXT"), rows)
    if used not in known:
        console.warning(text("the current cluster, {used}, is not known: paictl cluster use NAME", used=used))


def _data(target: Target, used: str) -> dict[str, Any]:
    return {
        "name": target.name,
        "kind": target.kind.value,
        "where": target.where,
        "context": target.pinned.context if target.pinned else None,
        "kubeconfig": target.pinned.kubeconfig if target.pinned else None,
        "authority": target.pinned.authority if target.pinned else None,
        "inUse": target.name == used,
    }


@app.command(epilog="paictl cluster use lab")
def use(name: Name) -> None:
    """Set the default cluster."""
    target = find_target(name)
    registry.use(name)
    console.outcome(text("commands now use {name} ({where})", name=name, where=target.where), name=name)
    reached = chosen_name()
    if reached != name:
        console.warning(
            text(
                "in this shell they still use {reached}: {variable} or PAICTL_STATE is set",
                reached=reached,
                variable=VARIABLE,
            )
        )


@app.command(
    epilog="""
    paictl cluster add prod --kubeconfig ~/.kube/prod.conf --context admin@prod
    paictl cluster add lab --context lab
"""
)
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of your choice.")],
    kubeconfig: Annotated[
        str | None,
        typer.Option("--kubeconfig", metavar="FILE", help="Default: KUBECONFIG, else ~/.kube/config; never changed."),
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="A context in it (default: the current one).")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a cluster of this name.")] = False,
) -> None:
    """Add a Kubernetes cluster under a name; the name pins its context and server."""
    pinned = pinned_now(name, kubeconfig, context)
    registry.add(pinned, force=force)
    console.outcome(
        text("cluster {name} is {server} (context {context})", name=name, server=pinned.server, context=pinned.context),
        name=name,
        server=pinned.server,
    )
    try:
        about = open_target(name).about()
    except (UnreachableError, ClusterError) as error:
        console.warning(text("it does not answer yet: {error}", error=error))
    else:
        console.info(
            text("it runs Kubernetes {version}; next: paictl cluster use {name}", version=about.version, name=name)
        )


@app.command(epilog="paictl cluster remove lab")
def remove(name: Name) -> None:
    """Remove the name of a cluster; the cluster and its kubeconfig are not changed."""
    target = find_target(name)
    if target.pinned is None:
        raise ClusterError(
            text("{name} always exists", name=name),
            hint="to take the cluster on this machine down: paictl cluster down",
        )
    registry.remove(name)
    console.outcome(
        text("{name} removed; the cluster at {where} keeps running", name=name, where=target.where), name=name
    )
