"""A new key for Secrets at rest, as a run of its own: look, lock, change, write all Secrets again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from paictl.deploy.apply import opened, raise_first, wish_of
from paictl.deploy.desired import Desired
from paictl.deploy.encryption import rotate
from paictl.deploy.joining import known_access
from paictl.deploy.locking import locked
from paictl.deploy.phases import LOOKING, phases
from paictl.deploy.site import TIMEOUT, DeployError
from paictl.errors import ExitCode
from paictl.i18n import text
from paictl.plan.events import Listener, both
from paictl.plan.folder import begin_run
from paictl.plan.run import Tell, carry_out


def rotate_key(
    desired: Desired, root: Path, now: Callable[[], datetime], listen: Listener, tell: Tell, *,
    timeout: float = TIMEOUT, break_lock: bool = False,
) -> int:  # fmt: skip
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
