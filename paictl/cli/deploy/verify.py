"""`paictl deploy verify`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import Output, localized
from paictl.cli.deploy.apply import ArtifactsOption
from paictl.cli.deploy.files import Config, Masters, Workers, read_deployment, ssh_options
from paictl.cli.deploy.progress import show_unlisted
from paictl.cli.options import OutputOption
from paictl.cluster.targets import open_target
from paictl.cluster.values import Protection
from paictl.deploy.apply import prepare
from paictl.deploy.inventory import Deployment
from paictl.deploy.kubeconfig import context_name, default_kubeconfig
from paictl.deploy.registry_checks import registry_findings
from paictl.deploy.verifying import (
    CLUSTER,
    CheckState,
    NodeCheck,
    certificate_findings,
    certificates_of_masters,
    clock_findings,
    data_of,
    expired_problem,
    image_for,
    isolation_findings,
    namespace_findings,
    nodes_not_listed,
    options_for,
    storage_findings,
    verify_cluster,
)
from paictl.errors import ExitCode, PaictlError
from paictl.i18n import text
from paictl.remote.kube.client import KubeClient, connect

app = App()

EPILOG = """
    paictl deploy verify -m master.csv -w worker.csv -c config.yaml
    paictl deploy verify -m master.csv -w worker.csv -c config.yaml --image mirror.example/busybox:1 -o json

Exit code 0: all is well; 1: something is not; 4: the API does not answer.
"""


@app.command(epilog=EPILOG)
def verify(
    masters: Masters,
    workers: Workers,
    config: Config,
    image: Annotated[
        str, typer.Option("--image", metavar="IMAGE", help="Image with sh, nc, nslookup, httpd (default: busybox).")
    ] = "",
    seconds: Annotated[float, typer.Option("--timeout", min=1, metavar="SECONDS", help="For each step.")] = 90.0,
    artifacts: ArtifactsOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Try the cluster: pods on every node, names, services, node to node, devices, isolation, certificates, clocks."""
    deployment = read_deployment(masters, workers, config)
    client = connect(default_kubeconfig(), context_name(deployment.settings.cluster))
    if not image:
        image = (
            image_for(needed.reference for needed in prepare(deployment, artifacts).images)
            or "docker.io/library/busybox:1"
        )
    findings = _findings(deployment, client, image, seconds)
    nodes = {finding.node for finding in findings if finding.node != CLUSTER}
    missing = {machine.name for machine in deployment.machines} - nodes
    if missing:
        names = ", ".join(sorted(missing))
        raise PaictlError(text("not in the cluster: {names}", names=names), hint="paictl deploy apply adds them")
    show_unlisted(nodes_not_listed(client, deployment.machines))
    if output is not Output.TABLE:
        console.write_data(data_of(findings), output)
    else:
        _show(findings, machines=len(deployment.machines))
    failed = any(finding.verdict is CheckState.FAILED for finding in findings)
    raise typer.Exit(ExitCode.NEGATIVE if failed else ExitCode.OK)


def _findings(deployment: Deployment, client: KubeClient, image: str, seconds: float) -> list[NodeCheck]:
    """What all checks found, those inside the cluster first; shows which certificate expires first."""
    options = ssh_options(accept_new=False)
    try:
        inside = verify_cluster(client, options_for(deployment, image, seconds), console.detail)
    except PaictlError as error:  # an API that does not answer may have no certificate any more
        certificates = certificates_of_masters(deployment, options)
        raise expired_problem(certificates, datetime.now(UTC)) or _sign_in_problem(error) from None
    isolation = isolation_findings(_protections(deployment.settings.cluster))
    certificates = certificates_of_masters(deployment, options)
    if certificates.found:
        first = min(certificates.found, key=lambda certificate: certificate.ends)
        ends = "the first certificate expires on {day}: {name} of {host}; masters renew theirs 30 days before"
        console.info(localized(ends, day=first.ends.date().isoformat(), name=first.name, host=first.host))
    return [
        *inside,
        *isolation,
        *certificate_findings(certificates, datetime.now(UTC)),
        *clock_findings(certificates),
        *storage_findings(client, deployment),
        *namespace_findings(client, deployment),
        *registry_findings(deployment, options),
    ]


def _show(findings: Sequence[NodeCheck], *, machines: int) -> None:
    """The checks that did not pass, and how many did."""
    rows = [
        (finding.node, finding.check, finding.verdict.value, localized(finding.message))
        for finding in findings
        if finding.verdict is not CheckState.OK
    ]
    if rows:
        console.write_table(("NODE", "CHECK", "VERDICT", "WHY"), rows)
    failed = sum(finding.verdict is CheckState.FAILED for finding in findings)
    console.write(
        localized(
            "{well} of {count} checks passed on {machines} machines",
            well=len(findings) - failed,
            count=len(findings),
            machines=machines,
        )
    )


def _sign_in_problem(error: PaictlError) -> PaictlError:
    """The error, with what to do where the API refuses the certificate in the kubeconfig: it lasts for a year."""
    if getattr(error, "status", 0) == HTTPStatus.UNAUTHORIZED:
        error.hint = text("if the certificate in your kubeconfig has expired, fetch a new one: paictl deploy apply")
    return error


def _protections(cluster: str) -> Sequence[Protection]:
    """What protects tenants of a cluster from each other; a dev box that did not deploy it does not know it by name."""
    try:
        return open_target(cluster).protections()
    except PaictlError as error:
        console.warning(localized("cannot tell whether tenants are protected from each other: {why}", why=str(error)))
        return ()
