"""`paictl deploy certs`: when certificates of the masters end, and renewing them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, localized
from paictl.cli.deploy.files import AcceptNew, Config, Masters, Workers, read_deployment, ssh_options
from paictl.cli.options import BreakLock, OutputOption
from paictl.deploy import certs
from paictl.errors import ExitCode, PaictlError
from paictl.places import runs_folder
from paictl.units import rfc3339

if TYPE_CHECKING:
    from paictl.deploy.certs import Certificate

app = App(help="Show when certificates expire, and renew them.")


@app.command(epilog="paictl deploy certs status -m master.csv -w worker.csv -c config.yaml")
def status(
    masters: Masters,
    workers: Workers,
    config: Config,
    accept_new: AcceptNew = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show when the certificates of masters expire, and those of kubelets that should have been renewed.

    Exit code 1 if one expires within 30 days.
    """
    certificates = certs.status(read_deployment(masters, workers, config), ssh_options(accept_new))
    now = datetime.now(UTC)
    if output is Output.TABLE:
        rows = [
            (certificate.host, certificate.name, rfc3339(certificate.ends), certificate.left(now).days)
            for certificate in certificates.found
        ]
        if rows:
            console.write_table(("HOST", "CERTIFICATE", "ENDS", "DAYS"), rows)
    else:
        console.write_data([_data(certificate, now) for certificate in certificates.found], output)
    for bad in certificates.errors:
        reason = bad.message or (bad.stderr.strip().splitlines() or ["kubeadm says nothing"])[-1]
        console.error(PaictlError(localized(reason), where=bad.host, hint=localized(bad.hint) or None))
    ending = certificates.ending(now)
    if ending:
        own = any(not certificate.authority for certificate in ending)
        then = (
            "paictl deploy certs renew"
            if own
            else "https://kubernetes.io/docs/tasks/tls/manual-rotation-of-ca-certificates"
        )
        console.warning(localized("{count} certificates expire soon: {what}", count=len(ending), what=then))
    raise typer.Exit(certificates.code or (ExitCode.NEGATIVE if ending else ExitCode.OK))


def _data(certificate: Certificate, now: datetime) -> dict[str, Any]:
    return {
        "host": certificate.host,
        "name": certificate.name,
        "ends": rfc3339(certificate.ends),
        "days": certificate.left(now).days,
        "authority": certificate.authority,
    }


@app.command(epilog="paictl deploy certs renew -m master.csv -w worker.csv -c config.yaml")
def renew(
    masters: Masters,
    workers: Workers,
    config: Config,
    yes: Yes = False,
    accept_new: AcceptNew = False,
    break_lock: BreakLock = False,
) -> None:
    """Renew the certificates of all masters, one by one; each API server is unavailable for a few seconds.

    Kubelets whose certificates have expired get new ones, too.
    """
    deployment = read_deployment(masters, workers, config)
    options = ssh_options(accept_new)
    certs.status(deployment, options)  # learns the keys of hosts that are new
    confirm(
        localized("the control planes of {count} masters restart, one by one", count=len(deployment.masters)),
        deployment.settings.cluster,
        yes=yes,
    )

    def tell(message: str, host: str) -> None:
        console.info(f"{host}: {localized(message)}")

    certs.renew(deployment, options, tell, runs_folder(), break_lock=break_lock)
    console.outcome("all masters have new certificates", name=deployment.settings.cluster)
