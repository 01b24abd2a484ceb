"""Certificates of the masters and of kubelets: when they end, and renewing them, one master after the other.

kubeadm renews those of the masters. The programs of the control plane are started again with them, and the next master
has its turn once the API of this one answers. Kubelets renew theirs themselves while the cluster runs. A kubelet whose
certificate has ended does not start: a master signs a new one for its own, workers get a token to ask for one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from paictl.deploy.inventory import Deployment, hosts_of
from paictl.deploy.locking import locked
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.folder import begin_run
from paictl.remote.inventory import Host
from paictl.remote.private import private_folder, write_private
from paictl.remote.ssh.fleet import CommandOptions, Fleet
from paictl.remote.ssh.link import SshOptions
from paictl.remote.ssh.results import CommandStatus, HostResult, exit_code
from paictl.resources import resource_folder

SOON: Final = timedelta(days=30)
"""What ends sooner than this should be renewed now."""
KUBELET: Final = "kubelet"
"""The name of the certificate with which the kubelet of a machine signs in."""
RENEW: Final = "paictl deploy certs renew"

_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH; "
_STATUS: Final = _PATH + "kubeadm certs check-expiration -o json"
_BOOTSTRAP: Final = "/etc/kubernetes/bootstrap-kubelet.conf"
_ASK: Final = CommandOptions(sudo=True, timeout=60)
_WAIT: Final = CommandOptions(sudo=True, timeout=300)
_SHOWN: Final = 8

Tell = Callable[[str, str], object]


@frozen
class Certificate:
    """One certificate of a machine; `authority` says whether it is one, which kubeadm does not renew."""

    host: str
    name: str
    ends: datetime
    authority: bool = False

    def left(self, now: datetime) -> timedelta:
        """How long it is still good; negative once it has ended."""
        return self.ends - now


@frozen
class Certificates:
    """The certificates of all masters that answered, and what the others said.

    `clocks` are the seconds by which machines are ahead of this one (negative: behind): certificates end by theirs.
    """

    found: tuple[Certificate, ...]
    errors: tuple[HostResult, ...]
    code: ExitCode
    clocks: Mapping[str, float] = field(default_factory=dict)

    def ending(self, now: datetime) -> tuple[Certificate, ...]:
        """Those that end soon, or have."""
        return tuple(certificate for certificate in self.found if certificate.left(now) < SOON)

    def ended(self, now: datetime) -> tuple[Certificate, ...]:
        """Those that have ended: who relies on them is refused."""
        return tuple(certificate for certificate in self.found if certificate.ends <= now)


class RenewError(PaictlError):
    """The renewal stopped at a master; those before it have theirs."""

    exit_code = ExitCode.PARTIAL


def status(deployment: Deployment, options: SshOptions) -> Certificates:
    """Ask all masters when their certificates end, and all machines about their kubelet's.

    Of kubelets' only those that end soon are in it: a kubelet that works has renewed its own long before. A worker that
    does not answer is no error.
    """
    with Fleet(hosts_of(deployment), options) as fleet:
        certificates = certificates_of(fleet.run(_STATUS, manner=_ASK, hosts=_masters(deployment, fleet)))
        answers = _ask_all(fleet, "end", fleet.inventory)
    kubelets = kubelets_of(answers, datetime.now(UTC))
    return Certificates((*certificates.found, *kubelets), certificates.errors, certificates.code, clocks_of(answers))


def kubelets_of(results: Mapping[str, HostResult], now: datetime) -> list[Certificate]:
    """The certificates of kubelets that end soon, or have, from what machines said of theirs."""
    certificates = []
    for name, result in results.items():
        end = _number(result, "kubelet")
        if (
            end is not None
            and (certificate := Certificate(name, KUBELET, datetime.fromtimestamp(end, UTC))).left(now) < SOON
        ):
            certificates.append(certificate)
    return certificates


def clocks_of(results: Mapping[str, HostResult]) -> dict[str, float]:
    """The seconds by which machines are ahead, from what they said of their clocks; what the network takes counts 0."""
    clocks = {}
    for name, result in results.items():
        now = _number(result, "clock")
        if now is not None:
            clocks[name] = min(now - result.sent, 0.0) or max(now - result.ended, 0.0)
    return clocks


def _number(result: HostResult, name: str) -> float | None:
    """A number that a machine said of itself; None if it said none."""
    try:
        return float(json.loads(result.stdout)[name]) if result.ok else None
    except (ValueError, KeyError, TypeError):
        return None


def _masters(deployment: Deployment, fleet: Fleet) -> list[Host]:
    names = {master.name for master in deployment.masters}
    return [host for host in fleet.inventory if host.name in names]


def _ask_all(fleet: Fleet, verb: str, hosts: Iterable[Host]) -> dict[str, HostResult]:
    """What machines say to a verb of the program that looks after certificates, which is sent to them."""
    program = (resource_folder("playbooks") / "files" / "paictl_certificates.py").read_bytes()
    manner = _ASK if verb == "end" else _WAIT
    return fleet.run_each(
        {host.name: f"python3 -B - {host.name} {verb}" for host in hosts}, stdin=program, manner=manner
    )


def certificates_of(results: Mapping[str, HostResult]) -> Certificates:
    """The certificates on each master; one whose kubeadm output cannot be read counts among the errors."""
    certificates: list[Certificate] = []
    errors: list[HostResult] = []
    for name, result in results.items():
        listed = _read(name, result.stdout) if result.ok else None
        if listed is None:
            errors.append(result)
        else:
            certificates += listed
    code = exit_code(results)
    return Certificates(
        tuple(certificates), tuple(errors), ExitCode.NEGATIVE if errors and code is ExitCode.OK else code
    )


def _read(host: str, output: str) -> list[Certificate] | None:
    """kubeadm's `CertificateExpirationInfo` (output.kubeadm.k8s.io), or None."""
    try:
        data: Any = json.loads(output)
        rows = [(row, False) for row in data["certificates"]] + [(row, True) for row in data["certificateAuthorities"]]
        return [
            Certificate(host, str(row["name"]), _instant(row["expirationDate"]), authority)
            for row, authority in rows
            if not row.get("missing")
        ]
    except (ValueError, KeyError, TypeError):
        return None


def _instant(timestamp: str) -> datetime:
    return datetime.fromisoformat(timestamp).astimezone(UTC)


def renew(deployment: Deployment, options: SshOptions, tell: Tell, root: Path, *, break_lock: bool = False) -> None:
    """Renew the certificates of all masters, one after the other, and those of kubelets that have ended.

    Where certificates of masters have ended, no API answers before all masters have new ones: then they are renewed on
    all of them first. `tell` hears of each step (text, host). Other deployments are kept out meanwhile; `root` gets the
    run's folder.

    Raises `RenewError` at the first machine where it does not work; nothing is done on those after it. Doing it again
    does no harm.
    """
    request = {"cluster": deployment.settings.cluster}
    folder = begin_run(root, "certs-renew", request, datetime.now(UTC), deployment.secrets).path
    with (
        Fleet(hosts_of(deployment), options) as fleet,
        locked(deployment, "deploy certs renew", folder, break_lock=break_lock),
    ):
        now, masters = datetime.now(UTC), _masters(deployment, fleet)
        ended = certificates_of(fleet.run(_STATUS, manner=_ASK, hosts=masters)).ended(now)
        renewal = _Renewal(fleet, tell)
        renewal.masters(masters, together=bool(ended))
        kubelets = {
            kubelet.host for kubelet in kubelets_of(_ask_all(fleet, "end", fleet.inventory), now) if kubelet.ends <= now
        }
        if kubelets:
            renewal.kubelets(masters[0], [host for host in fleet.inventory if host.name in kubelets])


class _Renewal:
    """The steps of one renewal, and where they have come to an end."""

    def __init__(self, fleet: Fleet, tell: Tell) -> None:
        self._fleet, self._tell = fleet, tell
        self._done: list[str] = []

    def masters(self, hosts: list[Host], *, together: bool) -> None:
        """Renew on each and wait for its API before the next; or on all of them, and then wait for all."""
        for group in [hosts] if together else [[host] for host in hosts]:
            for host in group:
                self._tell(text("renewing"), host.name)
            self._check(_ask_all(self._fleet, "renew", group))
            for host in group:
                self._run("ready", host)
                self._done.append(host.name)
                self._tell(text("renewed, the API answers"), host.name)

    def kubelets(self, master: Host, hosts: list[Host]) -> None:
        """Let kubelets whose certificates have ended ask for new ones, by a token that a master makes."""
        names = [host.name for host in hosts]
        self._tell(text("the certificate of the kubelet has expired: renewing it"), ", ".join(names[:_SHOWN]))
        invitation = self._run("invite", master).stdout
        with private_folder() as folder:
            path = folder / "bootstrap-kubelet.conf"
            write_private(path, invitation)
            results = self._fleet.upload(path, _BOOTSTRAP, mode=0o600, manner=_WAIT, hosts=hosts)
        self._check(results)
        results = _ask_all(self._fleet, "rejoin", hosts)
        self._done += [name for name, result in results.items() if result.ok]
        self._check(results)

    def _run(self, verb: str, host: Host) -> HostResult:
        results = _ask_all(self._fleet, verb, [host])
        self._check(results)
        return results[host.name]

    def _check(self, results: Mapping[str, HostResult]) -> None:
        bad = next((result for result in results.values() if not result.ok), None)
        if bad is not None:
            raise _stopped(bad, self._done)


def _stopped(result: HostResult, done: list[str]) -> RenewError:
    lines = result.stderr.strip().splitlines()
    reason = result.message or (lines[-1] if lines else text("ended with code {code}", code=result.code))
    before = text("done before: {names}", names=", ".join(done) or "none")
    hint = result.hint or text("on the host, see: {command}", command="crictl ps -a; journalctl -u kubelet")
    error = RenewError(text("{reason} ({before})", reason=reason, before=before), hint=hint, where=result.host)
    if not done:
        error.exit_code = ExitCode.NEGATIVE if result.reach is CommandStatus.DONE else exit_code([result])
    return error
