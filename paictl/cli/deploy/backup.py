"""`paictl deploy backup` and `restore`: etcd, certificates and configuration into a file, and back."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from paictl.cli import console
from paictl.cli.command import App
from paictl.cli.confirmation import ClusterId, Yes, confirm
from paictl.cli.console import localized
from paictl.cli.deploy.files import AcceptNew, Config, Masters, Workers, read_deployment, ssh_options
from paictl.cli.deploy.reset import api_of, other_cluster
from paictl.cli.options import BreakLock
from paictl.cluster.targets import open_target
from paictl.deploy import restore as restoring
from paictl.deploy.archive import read_backup
from paictl.deploy.backup import PushedConfig, place_of
from paictl.deploy.backup import backup as carry_out
from paictl.errors import PaictlError
from paictl.places import runs_folder

app = App()

BACKUP_EPILOG = """
    paictl deploy backup -m master.csv -w worker.csv -c config.yaml /srv/backups/

Anyone who can read the file controls the cluster and has its secrets; its mode is 0600. Keep it on another machine.
"""
RESTORE_EPILOG = """
    paictl deploy restore -m master.csv -w worker.csv -c config.yaml paictl-prod-20260901T120000Z.tar.gz

Verifies the file, says what is lost, and asks. The API is away for a minute; pods go on. Interrupted: the same command.
Exit code 1: the file is spoiled or of another cluster, or a master failed; 3: some machines are not Ready afterwards.
"""


@app.command(epilog=BACKUP_EPILOG)
def backup(
    target: Annotated[
        Path, typer.Argument(metavar="FILE|DIR", help="File to write; in a folder, the file gets a name.")
    ],
    masters: Masters,
    workers: Workers,
    config: Config,
    accept_new: AcceptNew = False,
) -> None:
    """Save etcd, the certificates of a master, and the pushed configuration in one file."""
    deployment = read_deployment(masters, workers, config)
    cluster = deployment.settings.cluster
    place = place_of(target, cluster, datetime.now(UTC))
    options = ssh_options(accept_new)
    made = carry_out(deployment, options, place, _pushed(cluster), lambda: datetime.now(UTC), _tell)
    about = made.manifest
    console.write(str(made.path))
    text = "cluster {cluster} as of {at}: Kubernetes {version}, {keys} keys, configuration {number}"
    console.info(
        localized(
            text,
            cluster=cluster,
            at=about.created,
            version=about.kubernetes,
            keys=about.keys,
            number=about.configuration or "-",
        )
    )


def _pushed(cluster: str) -> PushedConfig:
    """The configuration that was pushed last; without one, or where it cannot be asked for, the snapshot has it."""
    try:
        versions = open_target(cluster).configurations()
    except PaictlError as error:
        console.warning(localized("the configuration is in the snapshot only: {why}", why=str(error)))
        return PushedConfig()
    return PushedConfig(versions[-1].number, versions[-1].files) if versions else PushedConfig()


@app.command(epilog=RESTORE_EPILOG)
def restore(
    archive: Annotated[Path, typer.Argument(metavar="FILE", help="A file written by `deploy backup`.")],
    masters: Masters,
    workers: Workers,
    config: Config,
    cluster_id: ClusterId = None,
    yes: Yes = False,
    accept_new: AcceptNew = False,
    break_lock: BreakLock = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=1, metavar="SECONDS", help="How long all nodes may take to be Ready afterwards."),
    ] = 180.0,
) -> None:
    """Restore the whole cluster from a backup, on all masters; shows what will be lost and asks first."""
    deployment = read_deployment(masters, workers, config)
    cluster = deployment.settings.cluster
    other_cluster(cluster_id, cluster)
    backup = read_backup(archive)
    restoring.check_name(backup, cluster)
    options = ssh_options(accept_new)
    examined = restoring.examine(backup, deployment, options)
    for note in examined.notes:
        console.warning(note)
    if examined.begun:
        console.info(localized("resuming the restore that was started at {at}", at=examined.begun))
    for line in restoring.loss_since(backup, api_of(cluster)):
        console.warning(localized("lost: {what}", what=line))
    question = localized("cluster {cluster} goes back to {at}", cluster=cluster, at=backup.manifest.created)
    confirm(question, cluster, yes=yes or cluster_id is not None)
    restoring.restore(backup, deployment, examined, options, _tell, runs_folder(), break_lock=break_lock)
    client = api_of(cluster)
    if client is None:
        console.warning("the nodes were not checked: no kubeconfig for the cluster here")
    elif strangers := restoring.settle(deployment, client, options, _tell, timeout):
        text = "nodes that are not in the lists are back: {names}; remove them with kubectl delete node"
        console.warning(localized(text, names=", ".join(strangers)))
    if client is not None:
        restoring.correct_notes(deployment, client, options)
    console.info("the cluster has the settings of the backup: paictl deploy plan shows what apply would change")
    text = "cluster {cluster} has been restored to {at}"
    console.outcome(localized(text, cluster=cluster, at=backup.manifest.created), name=cluster)


def _tell(message: str, about: str = "") -> None:
    console.info(f"{about}: {localized(message)}" if about else localized(message))
