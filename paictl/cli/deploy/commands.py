"""`paictl deploy`: from lists of hosts to a running cluster."""

from __future__ import annotations

from paictl.cli.command import App
from paictl.cli.deploy import check

app = App(help="Deploy Kubernetes and all services on real machines.")
app.command("check", epilog=check.EPILOG)(check.check)


@app.callback()
def deploy() -> None:
    """Deploy Kubernetes and all services on real machines."""
