"""A backup of a cluster: from the first master that has a majority of etcd with it, into one file here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from paictl import __version__
from paictl.deploy.archive import (
    CONFIGURATION,
    PKI,
    SNAPSHOT,
    TRANSFER,
    Backup,
    BackupManifest,
    JsonObject,
    Masters,
    file_name,
    raise_for,
    write_backup,
)
from paictl.deploy.inventory import Deployment, hosts_of
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.inventory import Host
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.link import SshOptions
from paictl.units import rfc3339

_MANNER: Final = CommandOptions(sudo=True, timeout=TRANSFER)


@frozen
class PushedConfig:
    """The configuration that was pushed last, its secrets sealed; number 0 where there is none."""

    number: int = 0
    files: Mapping[str, str] | None = None


def place_of(target: Path, cluster: str, now: datetime) -> Path:
    """Where a backup goes: the file that was named, or a new one in the folder; raises `PaictlError` for neither."""
    if target.is_dir():
        return target / file_name(cluster, now)
    if target.exists():
        raise PaictlError(text("already exists"), where=str(target), hint=text("name another file, or a folder"))
    if not target.parent.is_dir():
        raise PaictlError(text("no such folder"), where=str(target.parent), hint="mkdir -p")
    return target


def backup(
    deployment: Deployment,
    options: SshOptions,
    target: Path,
    pushed: PushedConfig,
    now: Callable[[], datetime],
    tell: Tell,
) -> Backup:
    """Save etcd, certificates and the pushed configuration; raises `DeployError` if no master can.

    A master that was cut off from the others is not taken: what it has may be old.
    """
    inventory = hosts_of(deployment).only([master.name for master in deployment.masters])
    with Fleet(inventory, options) as fleet:
        masters = Masters(fleet)
        host, answer = _saved(masters, tell)
        try:
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".paictl-backup-") as folder:
                files = _fetched(fleet, host, answer, Path(folder))
                for name, body in (pushed.files or {}).items():
                    files[CONFIGURATION + name] = _written(Path(folder) / f"configuration-{len(files)}", body)
                return write_backup(target, _manifest(deployment, host, answer, pushed, now()), files)
        finally:
            masters.ask("tidy", hosts=[host])  # where it does not work, the next backup clears it away


def _saved(masters: Masters, tell: Tell) -> tuple[Host, JsonObject]:
    """The first master that could save, and its answer."""
    failed = {}
    for host in masters.fleet.inventory:
        tell(text("saving etcd of {host}", host=host.name), "")
        answers, bad = masters.ask("save", hosts=[host])
        if host.name in answers:
            return host, answers[host.name]
        failed.update(bad)
    raise_for(failed, len(failed))
    raise AssertionError  # there is one master at least


def _fetched(fleet: Fleet, host: Host, answer: JsonObject, folder: Path) -> dict[str, Path]:
    """The saved files, downloaded, by name in the archive."""
    files = {}
    for name, source in zip((SNAPSHOT, PKI), answer["files"], strict=True):
        results = fleet.download(source, folder, manner=_MANNER, hosts=[host])
        raise_for({master: result for master, result in results.items() if not result.ok}, 1)
        files[name] = folder / host.name / source.rpartition("/")[2]
    return files


def _written(path: Path, body: str) -> Path:
    path.write_text(body, encoding="utf-8")
    return path


def _manifest(
    deployment: Deployment, host: Host, answer: JsonObject, pushed: PushedConfig, now: datetime
) -> BackupManifest:
    status = answer["status"]
    return BackupManifest(
        cluster=deployment.settings.cluster,
        created=rfc3339(now.replace(microsecond=0)),
        kubernetes=str(answer["kubernetes"]),
        etcd=str(answer["etcd"]["image"]),
        master=host.name,
        authority=str(answer["authority"]),
        revision=int(status["revision"]),
        keys=int(status["totalKey"]),
        configuration=pushed.number,
        paictl=__version__,
    )
