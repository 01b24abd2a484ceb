"""`paictl deploy audit`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.console import Output, localized
from paictl.cli.deploy.files import AcceptNew, Config, Masters, Workers, read_deployment, ssh_options
from paictl.cli.options import OutputOption
from paictl.deploy.archive import why
from paictl.deploy.auditing import audit as carry_out
from paictl.deploy.auditing import audit_data
from paictl.deploy.benchmark import AuditFinding, AuditState
from paictl.deploy.kubeconfig import context_name, default_kubeconfig
from paictl.errors import ExitCode, PaictlError
from paictl.remote.kube.client import connect

app = App()

EPILOG = """
    paictl deploy audit -m master.csv -w worker.csv -c config.yaml
    paictl deploy audit -m master.csv -w worker.csv -c config.yaml --all
    paictl deploy audit -m master.csv -w worker.csv -c config.yaml -o json > audit.json

Exit code 0: nothing fails; 1: something does; 3: some machines did not answer; 4: none did, or the API does not.
"""


@app.command("audit", epilog=EPILOG)
def audit(
    masters: Masters,
    workers: Workers,
    config: Config,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all items, not only those that fail or do not apply.")
    ] = False,
    accept_new: AcceptNew = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check the running machines against the CIS Kubernetes benchmark; change nothing."""
    deployment = read_deployment(masters, workers, config)
    client = connect(default_kubeconfig(), context_name(deployment.settings.cluster))
    report = carry_out(deployment, ssh_options(accept_new), client)
    if output is not Output.TABLE:
        console.write_data(audit_data(report), output)
    else:
        _show([finding for finding in report.findings if everything or finding.state is not AuditState.PASS])
        passed, failed, other = (report.count(state) for state in AuditState)
        console.write(
            localized(
                "{passed} passed, {failed} failed, {other} do not apply, on {machines} machines",
                passed=passed,
                failed=failed,
                other=other,
                machines=len(deployment.machines) - len(report.unreached),
            )
        )
    for name, result in report.unreached.items():
        console.error(PaictlError(localized(why(result)), where=name, hint=localized(result.hint) or None))
    if len(report.unreached) == len(deployment.machines):
        raise typer.Exit(ExitCode.UNREACHABLE)
    if report.count(AuditState.FAIL):
        raise typer.Exit(ExitCode.NEGATIVE)
    raise typer.Exit(ExitCode.PARTIAL if report.unreached else ExitCode.OK)


def _show(findings: Iterable[AuditFinding]) -> None:
    """A row for each item and result; hosts of the same result share it."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for finding in findings:
        key = (
            finding.id,
            finding.state.value.upper(),
            finding.severity,
            finding.title,
            finding.looked_at,
            finding.evidence,
            finding.remedy,
        )
        rows.setdefault(key, []).append(finding.host)
    if not rows:
        return
    shown = [
        (id_, state, severity, ",".join(hosts), localized(title), f"{looked_at}: {localized(evidence)}")
        for (id_, state, severity, title, looked_at, evidence, _), hosts in rows.items()
    ]
    console.write_table(("ITEM", "STATE", "SEVERITY", "HOSTS", "CHECK", "EVIDENCE"), shown)
    for (id_, *_, remedy), hosts in rows.items():
        if remedy:
            console.write(f"{id_} {','.join(hosts)}: {remedy}")
