"""A lab: a dev box and hosts behind one bridge, made in seconds and gone without a trace."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.hosts.base import base
from tools.hosts.limits import raise_limits, restore_limits
from tools.hosts.machine import CGROUPS, CONTROLLERS, GROUP, Machine
from tools.hosts.network import Network
from tools.hosts.places import hosts
from tools.hosts.shell import LabError, run

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,20}")
_PROGRAMS = ("ip", "nsenter", "ssh", "ssh-keygen", "losetup", "mkfs.ext4", "mount", "tc", "apt-get", "dpkg", "perl")
_NAMED = 30
"""So many hosts have a name in everybody's /etc/hosts, also those that come later."""


def obstacle() -> str:
    """Why no test hosts can run on this machine; empty where they can."""
    if os.uname().sysname != "Linux":
        return "test hosts need Linux"
    if os.geteuid() != 0:
        return "test hosts need root"
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"test hosts need {', '.join(absent)} (Debian: apt-get install iproute2 openssh-client e2fsprogs mount)"
    missing = [name for name in CONTROLLERS if not (CGROUPS / name / "cgroup.procs").exists()]
    if missing:
        return f"test hosts are started in control groups of version 1, which this machine lacks: {', '.join(missing)}"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "test hosts need overlay file systems, which this kernel lacks"
    if run(["unshare", "--mount", "--net", "true"], check=False).returncode:
        return "test hosts need namespaces, and this machine does not let root make any"
    return ""


class Lab:
    """The hosts of one name; `up` may be called again for more of them.

    A lab with an owner (a process id) belongs to that process: once it is dead, the next `up` of any lab removes what
    it has left behind.
    """

    def __init__(self, name: str, *, owner: int | None = None, seed: Path | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise LabError(f"{name!r} is no name of a lab: lower case letters, digits and hyphens, at most 21")
        self.name = name
        self.folder = _labs() / name
        self.network = Network(f"paictl-{name}")
        self._owner = owner
        self._seed = seed

    @property
    def key(self) -> Path:
        """The private key of user deploy."""
        return self.folder / "id"

    @property
    def known_hosts(self) -> Path:
        """The host keys as they were at `up` or at the last `trust`."""
        return self.folder / "known_hosts"

    def machines(self) -> list[Machine]:
        """Those that exist, on or off."""
        numbers = sorted(int(path.name[1:]) for path in self.folder.glob("h[0-9]*"))
        return [self.machine(number) for number in numbers]

    def machine(self, number: int) -> Machine:
        """Host 1, 2, … whether it exists or not."""
        return Machine(number, self.name, self.folder / f"h{number}", base(), self.network)

    def address(self, number: int) -> str:
        """Of host 1, 2, …"""
        return self.network.address(number)

    def up(self, count: int) -> None:
        """Hosts 1 to `count`, on and ready; those that are there stay as they are.

        Raises:
            LabError: this machine cannot have hosts, or one did not start.
        """
        if reason := obstacle():
            raise LabError(reason)
        sweep()
        base()
        self.claim()
        if not self.key.exists():
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "deploy", "-f", self.key])
        self.network.make()
        new = [self.machine(number) for number in range(1, count + 1)]
        new = [machine for machine in new if machine.leader() is None]
        _each(new, self._start)
        _each(new, Machine.ready)
        self.trust()

    def claim(self) -> None:
        """Make the lab's folder with its owner: while it is there, the limits of the machine stay raised."""
        with _alone():
            self.folder.mkdir(parents=True, exist_ok=True)
            if self._owner is not None:
                (self.folder / "owner").write_text(f"{self._owner} {_started(self._owner)}\n")
            raise_limits()

    def down(self) -> None:
        """Leave nothing: no process, mount, namespace, control group, loop device or file."""
        self._empty()
        with _alone():
            self._leave()

    def start(self, number: int) -> None:
        """Power on what `kill` has switched off."""
        self._start(self.machine(number))
        self.machine(number).ready()

    def reset(self, number: int) -> None:
        """A new machine at the same place: fresh file system, another host key (which known_hosts has not)."""
        self.machine(number).remove()
        self.start(number)

    def trust(self) -> None:
        """Write known_hosts from the keys that the hosts have now."""
        lines = [f"{machine.address} {machine.host_key}\n" for machine in self.machines()]
        self.known_hosts.write_text("".join(lines))

    def run(
        self,
        words: Sequence[str | Path],
        *,
        check: bool = True,
        text: str | None = None,
        seconds: float | None = None,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on the dev box: this machine's files and user, the lab's network."""
        return run(
            [*self.network.inside(), *words],
            check=check,
            text=text,
            seconds=seconds,
            environment={**os.environ, **(environment or {})},
            folder=folder,
        )

    def ssh_words(self, number: int, *words: str, user: str = "deploy") -> list[str]:
        """The command that runs `words` on a host by SSH, the host key verified."""
        options = [f"UserKnownHostsFile={self.known_hosts}", "StrictHostKeyChecking=yes", "ConnectTimeout=30"]
        flags = [word for option in options for word in ("-o", option)]
        return [*self.network.inside(), "ssh", "-i", str(self.key), *flags, f"{user}@{self.address(number)}", *words]

    def ssh(self, number: int, *words: str) -> str:
        """What a command prints that user deploy runs on a host."""
        return run(self.ssh_words(number, *words)).stdout

    def _empty(self) -> None:
        _each(self.machines(), Machine.remove)
        self.network.remove()
        for controller in CONTROLLERS:
            own = CGROUPS / controller / GROUP / self.name
            if own.is_dir() and not any(path.is_dir() for path in own.iterdir()):
                own.rmdir()

    def _leave(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if not any(_labs().glob("*")):
            for controller in CONTROLLERS:
                with suppress(OSError):  # there was none
                    (CGROUPS / controller / GROUP).rmdir()
            restore_limits()

    def _start(self, machine: Machine) -> None:
        names = [(self.address(number), f"h{number}") for number in range(1, _NAMED + 1)]
        machine.make((self.folder / "id.pub").read_text(), names, self._seed)
        machine.boot()


@contextmanager
def lab(name: str, count: int, *, seed: Path | None = None) -> Iterator[Lab]:
    """A lab of this process with hosts that are up inside the block."""
    made = Lab(name, owner=os.getpid(), seed=seed)
    made.down()
    try:
        made.up(count)
        yield made
    finally:
        made.down()


def sweep() -> list[str]:
    """Remove the labs whose owner has died; their names."""
    swept = []
    with _alone():
        for file in _labs().glob("*/owner"):
            pid, _, started = file.read_text().strip().partition(" ")
            if _started(int(pid)) != started:
                dead = Lab(file.parent.name)
                dead._empty()
                dead._leave()
                swept.append(dead.name)
    return swept


@contextmanager
def _alone() -> Iterator[None]:
    """Labs come and go one at a time, in all processes: nobody sees half a claim, or ends what another uses."""
    hosts().mkdir(parents=True, exist_ok=True)
    with (hosts() / "labs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _labs() -> Path:
    return hosts() / "labs"


def _started(pid: int) -> str:
    """When a process began, in ticks: with its id no other process is taken for it; empty where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _each(machines: Sequence[Machine], action: Callable[[Machine], None]) -> None:
    """All at once; the first error after all have ended."""
    if machines:
        with ThreadPoolExecutor(len(machines)) as pool:
            list(pool.map(action, machines))
