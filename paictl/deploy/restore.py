"""Bringing a cluster back to a backup: what is refused, what is lost, and the steps on all masters at once.

Until all masters have their data ready beside those in use, nothing that runs is touched. From then on to the end the
control plane is down; pods go on. Interrupted anywhere, the same command goes on: each master knows where it stands.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from paictl.deploy import node_dns, storage_class
from paictl.deploy.archive import SNAPSHOT, Backup, JsonObject, Masters, raise_for, unpack
from paictl.deploy.inventory import Deployment, hosts_of
from paictl.deploy.locking import locked
from paictl.deploy.nodes import READY_SECONDS, nodes_of, not_ready, patiently
from paictl.deploy.site import DeployError
from paictl.deploy.versions import version_of
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.folder import begin_run
from paictl.plan.run import Tell
from paictl.remote.kube.client import KubeClient, NoAnswerError
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.link import SshOptions
from paictl.units import rfc3339

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_JOBS: Final = "/apis/paictl.io/v1alpha1/paijobs"
_ROOM: Final = 3
"""The snapshot, what is made of it, and what is kept of the data before, in sizes of the snapshot."""
_POLL: Final = 0.5
_KUBELET: Final = CommandOptions(sudo=True, timeout=60)
_NOTE: Final = """
cd /var/lib/paictl && umask 022 && echo "$MARK_OF_CLASS" >storage-class || exit 1
case "$(cat node-dns 2>/dev/null)" in
  leaving*) [ -n "$MARK_OF_CACHE" ] || echo >node-dns ;;
  *) echo "$MARK_OF_CACHE" >node-dns ;;
esac
"""
"""Pods keep the resolver that they began with: a cache that is leaving is so as long as it is there."""


class OtherClusterError(PaictlError):
    """A backup that is not of this cluster, or not of its Kubernetes: it would be no cluster afterwards."""

    exit_code = ExitCode.NEGATIVE


@frozen
class Examined:
    """What the masters said: `begun` is the start time of the restore that this one resumes."""

    members: str
    begun: str
    notes: tuple[str, ...]


def check_name(backup: Backup, cluster: str) -> None:
    """Raise `OtherClusterError` for a backup of a cluster with another name."""
    if backup.manifest.cluster != cluster:
        message = text("belongs to cluster {other}, not {name}", other=backup.manifest.cluster, name=cluster)
        raise OtherClusterError(message, where=str(backup.path), hint=text("nothing was changed"))


def examine(backup: Backup, deployment: Deployment, options: SshOptions) -> Examined:
    """Look at all masters, changing nothing; raises `PaictlError` with the reason where it cannot be done."""
    with Fleet(hosts_of(deployment).only([master.name for master in deployment.masters]), options) as fleet:
        return judge(backup, Masters(fleet).all("look"))


def judge(backup: Backup, answers: Mapping[str, JsonObject]) -> Examined:
    """Judge the masters' answers; pure. Raises `PaictlError` if the backup does not fit them."""
    notes: list[str] = []
    for name, answer in answers.items():
        _refuse_another(backup, name, answer)
        room = _ROOM * backup.size
        if answer["free"] < room and answer["unfinished"] != backup.id:
            message = text("not enough space for etcd's data: {mib} MiB needed", mib=room // 2**20)
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, where=name, hint=f"df -h {answer['etcd']['data']}")
        if answer["unfinished"] not in ("", backup.id):
            notes.append(
                text(
                    "{host}: an unfinished restore from another archive was found; its data will be deleted", host=name
                )
            )
    old, installed = backup.manifest.kubernetes, next(iter(answers.values()))["kubernetes"]
    if version_of(installed) != version_of(old):
        notes.append(
            text("the backup is from {old}, but the programs are {here}: upgrade afterwards", old=old, here=installed)
        )
    begun = [str(answer["begun"]) for answer in answers.values() if answer["unfinished"] == backup.id]
    members = ",".join(f"{answer['etcd']['name']}={answer['etcd']['peer']}" for answer in answers.values())
    return Examined(members, min(begun, default=""), tuple(notes))


def _refuse_another(backup: Backup, host: str, answer: JsonObject) -> None:
    installed, backed_up = version_of(answer["kubernetes"]), version_of(backup.manifest.kubernetes)
    if (installed.major, installed.minor) != (backed_up.major, backed_up.minor):
        message = text(
            "the backup is from Kubernetes {there}, but {host} has {here}", there=backed_up, host=host, here=installed
        )
        hint = text("take a backup of the same minor version, or machines with that version; nothing was changed")
        raise OtherClusterError(message, where=str(backup.path), hint=hint)
    if answer["authority"] != backup.manifest.authority:
        message = text(
            "the cluster on {host} has another certificate authority than the saved one: the cluster was created "
            "again since",
            host=host,
        )
        hint = text("how to bring a cluster back on new machines: docs/deployment.md; nothing was changed")
        raise OtherClusterError(message, where=str(backup.path), hint=hint)


def loss_since(backup: Backup, client: KubeClient | None) -> tuple[str, ...]:
    """What a restore removes, in sentences, according to the API."""
    at = backup.manifest.created
    lines = [text("everything written since {at}: jobs, users, tokens, configuration", at=at)]
    try:
        if client is None:
            raise NoAnswerError("")
        jobs = _since(client, _JOBS, at)
        nodes = sorted(name for name, node in nodes_of(client).items() if node["metadata"]["creationTimestamp"] > at)
    except PaictlError:
        return (*lines, text("the API does not answer: it is unknown what would be lost"))
    if jobs:
        lines.append(text("{count} jobs submitted since, including {name}", count=len(jobs), name=jobs[0]))
    if nodes:
        lines.append(text("nodes added since: {names} (they will be added again)", names=", ".join(nodes[:8])))
    return tuple(lines)


def _since(client: KubeClient, path: str, at: str) -> list[str]:
    """Names of objects made after an instant; none where the cluster does not have their kind."""
    try:
        items: list[Any] = [item for _, page in client.list(path) for item in page]
    except PaictlError as error:
        if getattr(error, "status", 0) == 404:
            return []
        raise
    return [str(item["metadata"]["name"]) for item in items if item["metadata"]["creationTimestamp"] > at]


def restore(
    backup: Backup,
    deployment: Deployment,
    examined: Examined,
    options: SshOptions,
    tell: Tell,
    root: Path,
    *,
    break_lock: bool = False,
) -> None:
    """Carry out all steps; raises `DeployError` at the first that does not work on a master.

    Other deployments are kept out meanwhile; `root` gets the run's folder.
    """
    now = datetime.now(UTC)
    request = {"id": backup.id, "members": examined.members, "begun": rfc3339(now), "sha256": backup.files[SNAPSHOT]}
    about = {"cluster": deployment.settings.cluster, "backup": backup.id}
    folder = begin_run(root, "deploy-restore", about, now, deployment.secrets).path
    with (
        Fleet(hosts_of(deployment).only([master.name for master in deployment.masters]), options) as fleet,
        locked(deployment, "deploy restore", folder, break_lock=break_lock),
    ):
        masters = Masters(fleet)
        tell(text("copying the snapshot to the masters"), "")
        folders = masters.all("begin", request)
        with tempfile.TemporaryDirectory(prefix="paictl-restore-") as private:
            snapshot = Path(private) / "snapshot.db"
            unpack(backup, SNAPSHOT, snapshot)
            masters.upload(snapshot, lambda host: f"{folders[host]['folder']}/snapshot.db")
        tell(text("restoring etcd's data from it"), "")
        masters.all("prepare", request)
        _exchange(masters, tell)


def _exchange(masters: Masters, tell: Tell) -> None:
    """The steps with the control plane down. Where it cannot be stopped everywhere, nothing is exchanged."""
    tell(text("stopping the control plane"), "")
    try:
        masters.all("stop")
    except DeployError:
        tell(text("not all masters could be stopped: the others keep running"), "")
        masters.ask("start")  # best effort: the error says what failed
        raise
    masters.all("swap")
    tell(text("starting the control plane"), "")
    masters.all("start")
    masters.all("finish")


def settle(
    deployment: Deployment, client: KubeClient, options: SshOptions, tell: Tell, seconds: float = READY_SECONDS
) -> tuple[str, ...]:
    """Wait until all machines report Ready again; return the names of nodes that are in no list.

    Restart each kubelet whose node the backup does not contain: a kubelet registers only at its start. Raises
    `DeployError` with those that are not Ready within so many seconds.
    """
    before = patiently(lambda: _signs(client))
    names = {machine.name for machine in deployment.machines}
    nodes = patiently(lambda: nodes_of(client))
    lost = sorted(names - set(nodes))
    if lost:
        tell(text("the backup does not contain {names}: restarting their kubelets", names=", ".join(lost[:8])), "")
        with Fleet(hosts_of(deployment).only(lost), options) as fleet:
            fleet.run("systemctl restart kubelet", manner=_KUBELET)  # unreachable ones are reported as not Ready
    end = time.monotonic() + seconds
    tell(text("waiting for the nodes"), "")
    while waiting := {**_silent(client, names, before), **not_ready(client, names)}:
        if time.monotonic() > end:
            reasons = "; ".join(f"{name}: {why}" for name, why in sorted(waiting.items())[:4])
            hint = text("the cluster has been restored; on the host, see: {command}", command="journalctl -u kubelet")
            raise DeployError(text("not Ready: {said}", said=reasons), exit_code=ExitCode.PARTIAL, hint=hint)
        time.sleep(_POLL)
    return tuple(sorted(set(nodes) - names))


def correct_notes(deployment: Deployment, client: KubeClient, options: SshOptions) -> None:
    """Let the first master note what the restored cluster has of what config.yaml may take away or change.

    Its notes were put in doubt when the data were exchanged; a storage class or a cache that only the backup has, they
    do not mention at all. Raises `DeployError` if they cannot be written.
    """
    cache = patiently(lambda: node_dns.applied_mark(client))
    marks = {"MARK_OF_CACHE": cache, "MARK_OF_CLASS": node_dns.UNKNOWN if _has_class(client) else ""}
    words = "".join(f"{name}={shlex.quote(mark)}; " for name, mark in marks.items())
    with Fleet(hosts_of(deployment).only([deployment.first.name]), options) as fleet:
        results = fleet.run(words + _NOTE, manner=_KUBELET)
    raise_for({name: result for name, result in results.items() if not result.ok}, len(results))


def _has_class(client: KubeClient) -> bool:
    return patiently(lambda: storage_class.exists(client))


def _silent(client: KubeClient, names: set[str], before: Mapping[str, str]) -> dict[str, str]:
    """Nodes that have given no sign of life since: that they are Ready is only what the backup says of them."""
    signs = patiently(lambda: _signs(client))
    return {name: text("no answer yet") for name in names if signs.get(name, "") == before.get(name, "")}


def _signs(client: KubeClient) -> dict[str, str]:
    """When each kubelet has last renewed its lease."""
    leases = [lease for _, page in client.list(_LEASES) for lease in page]
    return {str(lease["metadata"]["name"]): str(lease["spec"].get("renewTime", "")) for lease in leases}
