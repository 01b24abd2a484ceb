"""Runs that change one thing on a running cluster: a machine joins or leaves, or Secrets at rest get a new key.

For a machine only masters and itself are looked at, so that it costs the same in a cluster of any size. A new key goes:
look, lock, change, write all Secrets again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from paictl.deploy.apply import opened, raise_first, wish_of
from paictl.deploy.desired import Desired
from paictl.deploy.encryption import rotate
from paictl.deploy.inventory import Deployment, Machine
from paictl.deploy.joining import known_access
from paictl.deploy.locking import locked
from paictl.deploy.phases import LOOKING, phases, planned
from paictl.deploy.reset import clean, forget_nodes
from paictl.deploy.site import TIMEOUT, DeployError, raise_for
from paictl.errors import ExitCode
from paictl.i18n import text
from paictl.plan.events import Listener, both
from paictl.plan.folder import begin_run
from paictl.plan.run import Tell, carry_out
from paictl.remote.kube.client import KubeClient


def limited(deployment: Deployment, machine: Machine) -> Deployment:
    """A deployment of the masters and one machine."""
    return replace(deployment, machines=(*deployment.masters, machine))


def join(desired: Desired, machine: Machine, root: Path, now: Callable[[], datetime], listen: Listener) -> bool:
    """Join a machine, by a deployment that is `limited` to it; return whether anything had to be done.

    Raises `DeployError` if a master differs from the configuration: adding a node must not change masters.
    """
    folder = begin_run(root, "node-add", wish_of(desired), now(), desired.deployment.secrets)
    listener = both(folder.listener(now), listen)
    with opened(desired, folder.path) as site:
        site.command = "node add"
        raise_first(carry_out(phases(site, LOOKING), listener))
        changes = planned(site)
        for other in (change for change in changes if change.host != machine.name):
            message = text("{host} differs from config.yaml: {what}", host=other.host, what=other.what[0])
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint="first: paictl deploy apply -m … -w … -c …")
        raise_first(carry_out(phases(site), listener, done=LOOKING))
        return bool(changes)


@contextmanager
def leaving(
    deployment: Deployment, machine: Machine, root: Path, now: Callable[[], datetime], *, break_lock: bool
) -> Iterator[Callable[[KubeClient, Tell], None]]:
    """Keep other deployments out while a machine is drained; yield a function that resets it and deletes its node.

    Raises `DeployError` if another administrator holds the lock, or if the reset or the deletion fails.
    """
    few = limited(deployment, machine)
    request = {"cluster": few.settings.cluster, "machines": [machine.name]}
    folder = begin_run(root, "node-remove", request, now(), few.secrets).path

    def leave(client: KubeClient, tell: Tell) -> None:
        raise_for(clean(few, [machine], folder, tell), "reset", 1)
        if forget_nodes(client, [machine]):
            hint = text("the machine is clean; run this again: {command}", command=f"paictl node remove {machine.name}")
            message = text("{name} is still a node of the cluster", name=machine.name)
            raise DeployError(message, exit_code=ExitCode.PARTIAL, hint=hint)

    with locked(few, "node remove", folder, break_lock=break_lock):
        yield leave


# --- a new key for Secrets at rest


def rotate_key(
    desired: Desired,
    root: Path,
    now: Callable[[], datetime],
    listen: Listener,
    tell: Tell,
    *,
    timeout: float = TIMEOUT,
    break_lock: bool = False,
) -> int:
    """Encrypt all Secrets of a cluster with a new key; how many were written.

    Raises `DeployError` if the cluster does not encrypt them, another deployment is at work, or a master fails.
    """
    deployment = desired.deployment
    folder = begin_run(root, "rotate-encryption-key", wish_of(desired), now(), deployment.secrets)
    with (
        locked(deployment, "deploy rotate-encryption-key", folder.path, break_lock=break_lock),
        opened(desired, folder.path, timeout) as site,
    ):
        raise_first(carry_out(phases(site, LOOKING), both(folder.listener(now), listen)))
        if not known_access(site):
            message = text("your kubeconfig does not reach cluster {cluster}", cluster=site.cluster)
            raise DeployError(message, exit_code=ExitCode.UNREACHABLE, hint="paictl deploy apply -m … -w … -c …")
        return rotate(site, tell)
