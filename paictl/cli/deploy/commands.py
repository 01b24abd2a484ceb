"""`paictl deploy`: from lists of hosts to a running cluster."""

from __future__ import annotations

from paictl.cli.command import App, Lazy
from paictl.cli.deploy import apply, backup, check, reset, upgrade, verify

app = App(
    help="Deploy Kubernetes and all services on real machines.",
    lazy={
        "audit": Lazy(
            "paictl.cli.deploy.audit", "Check the running machines against the CIS Kubernetes benchmark.", within=True
        ),
        "rotate-encryption-key": Lazy(
            "paictl.cli.deploy.encryption", "Encrypt all Secrets of the cluster with a new key.", within=True
        ),
        "bundle": Lazy("paictl.cli.deploy.bundle", "Make, check and list the artifact folder."),
        "certs": Lazy("paictl.cli.deploy.certs", "See when certificates of the masters end, and renew them."),
    },
)
app.command("check", epilog=check.EPILOG)(check.check)
app.command("plan", epilog=apply.PLAN_EPILOG)(apply.plan)
app.command("apply", epilog=apply.APPLY_EPILOG)(apply.apply)
app.command("verify", epilog=verify.EPILOG)(verify.verify)
app.command("upgrade", epilog=upgrade.EPILOG)(upgrade.upgrade)
app.command("backup", epilog=backup.BACKUP_EPILOG)(backup.backup)
app.command("restore", epilog=backup.RESTORE_EPILOG)(backup.restore)
app.command("reset", epilog=reset.EPILOG)(reset.reset)


@app.callback()
def deploy() -> None:
    """Deploy Kubernetes and all services on real machines."""
