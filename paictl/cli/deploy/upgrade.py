"""`paictl deploy upgrade`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import Yes, confirm
from paictl.cli.console import Output, localized
from paictl.cli.deploy.apply import ArtifactsOption
from paictl.cli.deploy.files import Config, Masters, Workers, read_deployment
from paictl.cli.deploy.progress import PhaseLines, machines_changed, show_end, show_notes
from paictl.cli.options import BreakLock, OutputOption
from paictl.cluster.targets import open_target
from paictl.deploy.artifacts import verify
from paictl.deploy.upgrade import Upgraded, wished
from paictl.deploy.upgrade import upgrade as carry_out
from paictl.deploy.upgrading import UpgradeOptions
from paictl.deploy.versions import version_of
from paictl.errors import PaictlError
from paictl.operate.deploying import keep_images
from paictl.places import runs_folder

if TYPE_CHECKING:
    from paictl.deploy.desired import Desired
app = App()

EPILOG = """
    paictl deploy upgrade --to v1.37.2 -m master.csv -w worker.csv -c config.yaml --artifacts bundle/
    paictl deploy upgrade --to v1.37.2 -m master.csv -w worker.csv -c config.yaml --batch 4 --drain-timeout 900

To resume after an interruption, run the same command again. Go one minor version at a time; downgrades are refused.
Exit code 1: refused, or a machine failed; 3: some machines did not finish; 4: none could be reached.
"""


@app.command(epilog=EPILOG)
def upgrade(
    masters: Masters,
    workers: Workers,
    config: Config,
    to: Annotated[str, typer.Option("--to", metavar="VERSION", help="Target version of Kubernetes.")],
    batch: Annotated[
        int, typer.Option("--batch", min=1, metavar="N", help="Number of workers to upgrade at a time.")
    ] = 1,
    drain_timeout: Annotated[
        float, typer.Option("--drain-timeout", min=1, metavar="SECONDS", help="How long draining a node may take.")
    ] = 300.0,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=1, metavar="SECONDS", help="How long a node may take to be Ready with the new version."
        ),
    ] = 180.0,
    artifacts: ArtifactsOption = "",
    break_lock: BreakLock = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Upgrade Kubernetes: masters one by one, then workers; each node is drained first."""
    target = version_of(to)
    deployment = read_deployment(masters, workers, config)
    desired = wished(deployment, target, artifacts)
    verify(desired.artifacts)
    show_notes(deployment.settings.notes)
    cluster = deployment.settings.cluster
    machines = len(deployment.machines)
    question = localized(
        "{count} machines of cluster {cluster} will be upgraded to {version}; their jobs are moved",
        count=machines,
        cluster=cluster,
        version=target,
    )
    confirm(question, cluster, yes=yes)
    done = carry_out(
        desired,
        UpgradeOptions(target, batch, drain_timeout, break_lock, timeout),
        runs_folder(),
        lambda: datetime.now(UTC),
        PhaseLines(),
    )
    _keep_images(desired, cluster)
    about = {"cluster": cluster, "version": str(target)}
    steps = [asdict(step) for step in done.steps]
    show_end(done, _summary(done, cluster, str(target)), output, about, {"steps": steps})
    written = deployment.settings.version
    if written and written != str(target):
        console.warning(
            localized("config.yaml still says {written}: change it to {version}", written=written, version=target)
        )


def _keep_images(desired: Desired, cluster: str) -> None:
    """The machines have images of another version now; where that cannot be noted, the next `apply` does it."""
    try:
        keep_images(open_target(cluster), desired)
    except PaictlError as error:
        console.warning(localized("could not record which images the machines have: {error}", error=error))


def _summary(done: Upgraded, cluster: str, version: str) -> str:
    if not done.steps:
        return localized("nothing changed: cluster {cluster} is at {version}", cluster=cluster, version=version)
    message = "cluster {cluster} is at {version} ({machines})"
    return localized(message, cluster=cluster, version=version, machines=machines_changed(len(done.steps)))
