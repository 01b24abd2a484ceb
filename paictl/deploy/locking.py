"""One deployment at a time: a lock on all masters that says who changes the cluster, from where, and since when.

It is taken once something is to be changed and released at the end. What a process of this machine left behind that
runs no more is replaced; a lock of another machine only on explicit wish, for nobody here can see whether it is alive.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from paictl.deploy.facts import HostFacts
from paictl.deploy.inventory import Deployment, hosts_of
from paictl.deploy.phase import DeployPhase
from paictl.deploy.site import DeployError, Site, raise_for
from paictl.errors import ExitCode, PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.plan.run import Tell
from paictl.remote.ansible.collecting import PlaybookResult
from paictl.remote.ansible.run import AnsibleSession, PlaybookOptions
from paictl.resources import resource_folder

_MACHINE: Final = Path("/etc/machine-id")
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE: Final = Path("/proc/self/ns/pid")


@frozen
class LockHolder:
    """Who holds a lock; `process` is number and start of the process on the machine `box`, `since` an RFC 3339 time."""

    id: str
    who: str
    command: str
    since: str
    box: str
    process: str

    @property
    def left_over(self) -> bool:
        """Whether it was left by a process of this machine that runs no more."""
        return self.box == _box() and self.process != _process(int(self.process.partition(" ")[0] or 0))


def holder(command: str, now: datetime) -> LockHolder:
    """This process as a holder."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container the user may have a number alone
        user = str(os.getuid())
    owner = f"{user}@{socket.gethostname()}"
    since = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return LockHolder(secrets.token_hex(8), owner, command, since, _box(), _process(os.getpid()))


def holder_from(written: str) -> LockHolder | None:
    """The holder written in a master's lock file; None without a lock, or if it cannot be read."""
    try:
        values: Any = json.loads(written)
        return LockHolder(*(str(values[name]) for name in ("id", "who", "command", "since", "box", "process")))
    except (ValueError, KeyError, TypeError):
        return None


def _box() -> str:
    """What tells this machine, or container, from others; without its boot, so that it is itself after a power cut."""
    machine = _MACHINE.read_text(encoding="ascii").strip() if _MACHINE.is_file() else ""
    namespace = str(_NAMESPACE.readlink()) if os.path.lexists(_NAMESPACE) else ""
    return f"{socket.gethostname()} {machine} {namespace}"


def _process(number: int) -> str:
    """Number, boot and start of a process; numbers are used again. Empty for one that does not run."""
    try:
        fields = Path(f"/proc/{number}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        boot = _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return f"{number} {boot} {fields[19]}"


def held(site: Site) -> Mapping[str, LockHolder]:
    """The locks that the masters had when they were looked at, by host."""
    return _holders({name: fact.values.get("lock") for name, fact in site.facts.items()})


def _holders(written: Mapping[str, object]) -> Mapping[str, LockHolder]:
    holders = {name: holder_from(str(lock or "")) for name, lock in written.items()}
    return {name: other for name, other in holders.items() if other is not None}


def refuse_locked(site: Site) -> None:
    """Raise `DeployError` if another administrator holds the lock on a master; nothing was changed."""
    _refuse(held(site), break_lock=site.break_lock)


def _refuse(holders: Mapping[str, LockHolder], *, break_lock: bool) -> None:
    for host, other in holders.items():
        if not (break_lock or other.left_over):
            message = text(
                "{who} has been running {command} on this cluster since {since}",
                who=other.who,
                command=other.command,
                since=other.since,
            )
            hint = text("wait until it ends; if it was abandoned, repeat the command with --break-lock")
            raise DeployError(message, exit_code=ExitCode.NEGATIVE, hint=hint, where=host)


@contextmanager
def locked(
    deployment: Deployment, command: str, folder: Path, *, break_lock: bool = False, lenient: bool = False
) -> Iterator[None]:
    """Hold the lock on all masters during the block, for commands other than a deployment; logs go to `folder`.

    With `lenient`, skip masters that do not answer: a broken cluster must be resettable, too. Raises `DeployError`
    if another administrator holds the lock.
    """
    masters = tuple(master.name for master in deployment.masters)
    own = holder(command, datetime.now(UTC))
    with AnsibleSession(hosts_of(deployment), folder) as session:

        def play(state: str, **more: object) -> PlaybookResult:
            variables = {"paictl_lock_state": state, "paictl_lock_holder": asdict(own), **more}
            playbook = resource_folder("playbooks") / "lock.yml"
            return session.run(playbook, variables, options=PlaybookOptions(limit=masters))

        present = play("known")
        holders = _holders({name: host.facts.get("paictl_lock") for name, host in present.hosts.items()})
        _refuse(holders, break_lock=break_lock)
        result = play("present", paictl_lock_replace=sorted({other.id for other in holders.values()}))
        try:
            refused = [host for host in result.hosts.values() if host.failures]
            if refused or not lenient:
                raise_for(result, "lock", len(masters))
            yield
        finally:
            with suppress(PaictlError):
                play("absent")


class Lock(DeployPhase):
    """Take the lock on all masters, and release it when the run ends, however it ends."""

    name, says = "lock", "lock out other deployments"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._own: LockHolder | None = None

    def changes(self, facts: HostFacts) -> list[str]:  # noqa: ARG002 - it changes nothing that is looked at
        """Nothing."""
        return []

    def should_run(self) -> str:
        """Always."""
        return ""

    def run(self, tell: Tell) -> None:
        """Take the lock; raises `DeployError` if another administrator took it first."""
        for host, other in held(self.site).items():
            tell(text("replacing the lock held by {who} since {since}", who=other.who, since=other.since), host)
        self._own = holder(self.site.command, datetime.now(UTC))
        self._play(self._own, tell, "present")

    def clean_up(self) -> None:
        """Release it; where a master does not answer, the next run of this machine replaces it."""
        if self._own is not None:
            with suppress(PaictlError):
                self._play(self._own, lambda *_: None, "absent")

    def _play(self, own: LockHolder, tell: Tell, state: str) -> None:
        variables = {
            "paictl_lock_state": state,
            "paictl_lock_holder": asdict(own),
            "paictl_lock_replace": sorted({other.id for other in held(self.site).values()}),
        }
        self.site.play("lock", tell, self.site.desired.deployment.masters, variables)
