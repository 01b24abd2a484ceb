"""Certificates of the masters: when they end, and renewing them, one master after the other.

kubeadm does both. After a renewal the programs of the control plane are started again, for they read certificates only
when they start, and the next master has its turn once the API of this one answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from paictl.deploy.inventory import Deployment, hosts_of
from paictl.deploy.locking import locked
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.folder import begin_run
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import CommandStatus, HostResult, exit_code

SOON: Final = timedelta(days=30)
"""What ends sooner than this should be renewed now."""

_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH; "
_STATUS: Final = _PATH + "kubeadm certs check-expiration -o json"
_RENEW: Final = (
    _PATH
    + r"""
kubeadm certs renew all >&2 || exit 1
for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
  for pod in $(crictl pods --namespace kube-system --name "^$name-" --state ready -q); do
    crictl stopp "$pod" >/dev/null && crictl rmp "$pod" >/dev/null
  done
done
for try in $(seq 240); do
  kubectl --kubeconfig /etc/kubernetes/admin.conf --request-timeout 3s get --raw /readyz >/dev/null 2>&1 && exit 0
  sleep 0.5
done
echo "the API does not answer again" >&2; exit 1
"""
)
_ASK: Final = CommandOptions(sudo=True, timeout=60)
_WAIT: Final = CommandOptions(sudo=True, timeout=240)


@frozen
class Certificate:
    """One certificate of a master; `authority` says whether it is one, which kubeadm does not renew."""

    host: str
    name: str
    ends: datetime
    authority: bool = False

    def left(self, now: datetime) -> timedelta:
        """How long it is still good; negative once it has ended."""
        return self.ends - now


@frozen
class Certificates:
    """The certificates of all masters that answered, and what the others said."""

    found: tuple[Certificate, ...]
    errors: tuple[HostResult, ...]
    code: ExitCode

    def ending(self, now: datetime) -> tuple[Certificate, ...]:
        """Those that end soon, or have."""
        return tuple(one for one in self.found if one.left(now) < SOON)


class RenewError(PaictlError):
    """The renewal stopped at a master; those before it have theirs."""

    exit_code = ExitCode.PARTIAL


def status(deployment: Deployment, options: SshOptions) -> Certificates:
    """Ask all masters when their certificates end."""
    inventory = hosts_of(deployment).only([one.name for one in deployment.masters])
    with Fleet(inventory, options) as fleet:
        return certificates_of(fleet.run(_STATUS, manner=_ASK))


def certificates_of(results: Mapping[str, HostResult]) -> Certificates:
    """What masters said, by host; one whose kubeadm says something else counts among the errors."""
    found: list[Certificate] = []
    errors: list[HostResult] = []
    for name, result in results.items():
        told = _read(name, result.stdout) if result.ok else None
        if told is None:
            errors.append(result)
        else:
            found += told
    code = exit_code(results)
    return Certificates(tuple(found), tuple(errors), ExitCode.NEGATIVE if errors and code is ExitCode.OK else code)


def _read(host: str, said: str) -> list[Certificate] | None:
    """kubeadm's `CertificateExpirationInfo` (output.kubeadm.k8s.io), or None."""
    try:
        data: Any = json.loads(said)
        rows = [(one, False) for one in data["certificates"]] + [(one, True) for one in data["certificateAuthorities"]]
        return [
            Certificate(host, str(one["name"]), _instant(one["expirationDate"]), authority)
            for one, authority in rows
            if not one.get("missing")
        ]
    except (ValueError, KeyError, TypeError):
        return None


def _instant(said: str) -> datetime:
    return datetime.fromisoformat(said).astimezone(UTC)


def renew(
    deployment: Deployment, options: SshOptions, tell: Callable[[str, str], object], root: Path, *,
    break_lock: bool = False,
) -> None:  # fmt: skip
    """Renew the certificates of all masters, one after the other; `tell` hears of each (text, host).

    Other deployments are kept out meanwhile; `root` gets the run's folder.

    Raises `RenewError` at the first master where it does not work; nothing is done on those after it. Doing it again
    does no harm.
    """
    inventory = hosts_of(deployment).only([one.name for one in deployment.masters])
    done: list[str] = []
    wish = {"cluster": deployment.settings.cluster}
    folder = begin_run(root, "certs-renew", wish, datetime.now(UTC), deployment.secrets).path
    with (
        Fleet(inventory, options) as fleet,
        locked(deployment, "deploy certs renew", folder, break_lock=break_lock),
    ):
        for host in inventory:
            tell(text("renewing"), host.name)
            result = fleet.run(_RENEW, manner=_WAIT, hosts=[host])[host.name]
            if not result.ok:
                raise _stopped(result, done)
            done.append(host.name)
            tell(text("renewed, the API answers"), host.name)


def _stopped(result: HostResult, done: list[str]) -> RenewError:
    lines = result.stderr.strip().splitlines()
    said = result.message or (lines[-1] if lines else text("ended with code {code}", code=result.code))
    before = text("done before: {names}", names=", ".join(done) or "none")
    hint = result.hint or text("on the host, see: {command}", command="crictl ps -a; journalctl -u kubelet")
    error = RenewError(text("{reason} ({before})", reason=said, before=before), hint=hint, where=result.host)
    if not done:
        error.exit_code = ExitCode.NEGATIVE if result.reach is CommandStatus.DONE else exit_code([result])
    return error
