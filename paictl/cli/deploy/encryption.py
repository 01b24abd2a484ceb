"""`paictl deploy rotate-encryption-key`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import localized
from paictl.cli.deploy.apply import ArtifactsOption
from paictl.cli.deploy.files import Config, Masters, Workers, read_deployment
from paictl.cli.deploy.progress import PhaseLines
from paictl.cli.options import BreakLock
from paictl.deploy.apply import prepare
from paictl.deploy.partial_runs import rotate_key
from paictl.places import runs_folder
from paictl.remote import require_deploy

app = App()

EPILOG = """
    paictl deploy rotate-encryption-key -m master.csv -w worker.csv -c config.yaml

The API server of each master restarts twice, one master after the other; jobs keep running. If interrupted, run the
same command again. Old keys stay on the masters, because backups from before the rotation need them.
"""


@app.command("rotate-encryption-key", epilog=EPILOG)
def rotate_encryption_key(
    masters: Masters,
    workers: Workers,
    config: Config,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long an API server may take to start.")
    ] = 300.0,
    artifacts: ArtifactsOption = "",
    yes: Yes = False,
    break_lock: BreakLock = False,
) -> None:
    """Encrypt all Secrets of the cluster with a new key."""
    require_deploy()
    deployment = read_deployment(masters, workers, config)
    desired = prepare(deployment, artifacts)
    question = localized("the API servers of {count} masters restart, one by one", count=len(deployment.masters))
    confirm(question, deployment.settings.cluster, yes=yes)

    def tell(message: str, host: str) -> None:
        console.detail(f"{host}: {localized(message)}" if host else localized(message))

    count = rotate_key(
        desired, runs_folder(), lambda: datetime.now(UTC), PhaseLines(), tell, timeout=timeout, break_lock=break_lock
    )
    console.write(localized("{count} Secrets are encrypted with a new key", count=count))
