"""`paictl cluster import`: a HiveD configuration drafted from a cluster that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from paictl import i18n
from paictl.cli import console, names
from paictl.cli.clusters import OutputOption
from paictl.cli.command import App
from paictl.cli.console import Output, write_data, write_table
from paictl.cluster.registry import Pinned
from paictl.cluster.targets import find_target, observed, pinned_now
from paictl.config.making.drafting import Draft, draft
from paictl.config.making.generate_text import DRAFT_FILE, draft_text
from paictl.errors import PaictlError
from paictl.files import write_together
from paictl.scheduler.wire import GATE, GRANTED

app = App()

STDOUT = "-"


@app.command(
    "import",
    epilog="""
    paictl cluster import prod
    paictl cluster import --context admin@prod --file cells.yaml
    paictl cluster import prod --level example.com/rack --file - | less
""",
)
def import_(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", autocompletion=names.clusters, help="A cluster added with paictl cluster add."
        ),
    ] = None,
    kubeconfig: Annotated[
        str | None, typer.Option("--kubeconfig", metavar="FILE", help="Default: KUBECONFIG, else ~/.kube/config.")
    ] = None,
    context: Annotated[
        str | None, typer.Option("--context", metavar="NAME", help="A context in it (default: the current one).")
    ] = None,
    file: Annotated[str, typer.Option("--file", metavar="FILE", help="File to write; - is stdout.")] = DRAFT_FILE,
    level: Annotated[
        list[str] | None,
        typer.Option("--level", metavar="LABEL", help="Node label that is a level of cells, widest first."),
    ] = None,
    topology: Annotated[
        str, typer.Option("--topology", metavar="NAME", help="Topology of Kueue or KAI to use, if there are several.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Draft hivedscheduler.yaml from a running cluster: devices, topology, and tenants from its quotas.

    The cluster is only read. Missing facts become questions at the top of the file. Sources: device plugins,
    ResourceSlices, labels of nodes, Topology of Kueue and KAI; quotas of Kueue, KAI, Volcano, or ResourceQuotas.
    """
    cluster = _chosen(name, kubeconfig, context)
    made = draft(observed(cluster), level or (), topology)
    text = draft_text(made, name or cluster.context)
    if file == STDOUT:
        console.write_file(text.rstrip())
    else:
        path = Path(file)
        write_together(path.parent, {path.name: text}, force=force)
        _show(made, path, output)
    for question in made.questions:
        console.info(i18n.text("question: {question}", question=question))
    for remark in made.remarks:
        console.info(i18n.text("not imported: {remark}", remark=remark))
    if file != STDOUT:
        _say_next(made, file)


def _chosen(name: str | None, kubeconfig: str | None, context: str | None) -> Pinned:
    """The cluster to read. Raises `PaictlError` if it is not a Kubernetes cluster, or is named in two ways."""
    if name is None:
        return pinned_now("import", kubeconfig, context)
    if kubeconfig or context:
        raise PaictlError("NAME and --kubeconfig or --context both name a cluster", hint="leave one of them out")
    target = find_target(name)
    if target.pinned is None:
        raise PaictlError(
            i18n.text("{name} is not a Kubernetes cluster", name=name),
            hint="name one that was added: paictl cluster list; or --context NAME",
        )
    return target.pinned


def _show(made: Draft, path: Path, output: Output) -> None:
    if output is not Output.TABLE:
        write_data(_data(made, path), output)
        return
    rows = []
    for tenant in made.tenants:
        for within, number in tenant.cells.items():
            cell = within.rpartition(".")[2]
            rows.append((tenant.name, cell, number, number * made.devices(cell), tenant.source or "-"))
    write_table(("TENANT", "CELL", "NUMBER", "DEVICES", "FROM"), rows)
    console.write(console.localized("wrote {path}", path=path))


def _say_next(made: Draft, file: str) -> None:
    """What has to be done before the scheduler follows it."""
    console.info(i18n.text("next: review it, then run paictl config validate {file}", file=file))
    ways = i18n.text("(or paictl extender config)")
    console.info(f"      paictl placer config --config {file} | kubectl apply -f -   {console.localized(ways)}")
    granted: dict[str, list[str]] = {}
    for tenant in made.tenants:
        for space in tenant.namespaces:
            granted.setdefault(space, []).append(tenant.name)
    others = [tenant.name for tenant in made.tenants if not tenant.namespaces]
    if others:
        granted["NAMESPACE"] = ["TENANT"]
    for space, tenants in granted.items():
        console.info(f"      kubectl label namespace {space} {GATE}=enabled")
        console.info(f"      kubectl annotate namespace {space} {GRANTED}={','.join(tenants)}")
    if others:
        note = i18n.text("TENANT is one of {names}: nothing says which namespaces are theirs", names=", ".join(others))
        console.info(f"      {console.localized(note)}")


def _data(made: Draft, path: Path) -> dict[str, Any]:
    return {
        "file": str(path),
        "skus": {
            name: {"cpu": cpus, "memoryMi": memory}
            | ({"migInstances": made.mig[name][0], "migProfile": made.mig[name][1]} if name in made.mig else {})
            for name, (cpus, memory) in made.skus.items()
        },
        "tenants": [
            {
                "name": tenant.name,
                "cells": dict(tenant.cells),
                "source": tenant.source,
                "namespaces": list(tenant.namespaces),
            }
            for tenant in made.tenants
        ],
        "questions": list(made.questions),
        "remarks": list(made.remarks),
    }
