"""One test host: a root of its own over the shared base, an address, and what can happen to a machine."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.hosts.debs import nspawn
from tools.hosts.network import Network
from tools.hosts.shell import LabError, run, wait_until

CONTROLLERS = ("systemd", "unified", "cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
CGROUPS = Path("/sys/fs/cgroup")
GROUP = "paictl-hosts"
"""The folder of all labs below each controller; nothing outside it is touched."""

_DISK = "64G"
"""Size of a host's disk, a file with holes: how full this machine's disk is must not matter to kubelet."""

_BOUND = ("containerd", "kubelet")
"""Below /var/lib, beside the overlay: an overlay's upper layer cannot be inside another overlay."""

_SUPERVISOR = 'while :; do "$@"; [ $? = 133 ] || break; done'
"""systemd-nspawn ends with 133 where the host rebooted: it is started again."""

_LAUNCH = """\
{ for group in $GROUPS_OF_HOST; do echo $BASHPID >"$group/cgroup.procs"; done
  exec setsid bash -c "$@"; } </dev/null >>"$LOG" 2>&1 &
echo $!
"""
"""A supervisor in its control groups that is nobody's child: whoever started it may end."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Host `number` (1, 2, …) of a lab; its folder holds root, writable layers, log and the supervisor's pid."""

    number: int
    lab: str
    folder: Path
    base: Path
    network: Network

    @property
    def name(self) -> str:
        """As it is known to itself and the others."""
        return f"h{self.number}"

    @property
    def address(self) -> str:
        """IPv4."""
        return self.network.address(self.number)

    @property
    def root(self) -> Path:
        """Its file system, seen from this machine, on or off."""
        return self.folder / "root"

    @property
    def host_key(self) -> str:
        """Type and key of its sshd, as a line of known_hosts has them."""
        return " ".join((self.root / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2])

    def make(self, key: str, names: Sequence[tuple[str, str]], seed: Path | None = None) -> None:
        """File system (if new) and network; `key` is deploy's public key, `names` (address, name) of /etc/hosts."""
        self._disk(seed)
        self.root.mkdir(exist_ok=True)
        if not self.root.is_mount():
            disk = self.folder / "disk"
            layers = f"lowerdir={self.base},upperdir={disk / 'upper'},workdir={disk / 'work'}"
            run(["mount", "-t", "overlay", f"{GROUP}-{self.lab}", "-o", layers, self.root])
        self._identity(key, names)
        self.network.plug(self.number)

    def boot(self) -> None:
        """Power on; returns when systemd runs, which is before sshd answers.

        Raises:
            LabError: systemd-nspawn ended.
        """
        if self.leader():
            return
        environment = {
            **os.environ,
            "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network",
            "LOG": str(self.folder / "log"),
            "GROUPS_OF_HOST": " ".join(str(group) for group in self._make_groups()),
        }
        words = ["bash", "-c", _LAUNCH, "bash", _SUPERVISOR, GROUP, *nspawn(), *self._nspawn_options()]
        supervisor = run(words, environment=environment).stdout.strip()
        (self.folder / "pid").write_text(supervisor)

        def started() -> bool:
            if not Path("/proc", supervisor).exists():
                raise LabError(f"{self.name} did not start:\n{_tail(self.folder / 'log')}")
            return self.leader() is not None

        wait_until(started, f"{self.name} starts", pause=0.02)

    def ready(self, seconds: float = 180.0) -> None:
        """Wait until sshd answers and systemd has settled."""

        def settled() -> bool:
            if not self.network.speaks(self.number, 22, "SSH"):
                return False
            state = self.execute(["systemctl", "is-system-running"], check=False).stdout.strip()
            return state in {"running", "degraded"}

        wait_until(settled, f"{self.name} is ready", seconds=seconds)

    def leader(self) -> int | None:
        """The pid of its systemd as this machine sees it; None where it is off."""
        supervisor = self._supervisor()
        with suppress(OSError):
            for child in _children(supervisor) if supervisor else ():
                for pid in _children(child):
                    if Path(f"/proc/{pid}/comm").read_text() == "systemd\n":
                        return pid
        return None

    def execute(
        self, words: Sequence[str], *, check: bool = True, text: str | None = None, seconds: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root in it, without SSH."""
        return run(self.entering(words), check=check, text=text, seconds=seconds)

    def entering(self, words: Sequence[str]) -> list[str]:
        """The words that run a command in it, from this machine."""
        pid = self.leader()
        if pid is None:
            raise LabError(f"{self.name} is off")
        return ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "-C", "--", *words]

    def kill(self) -> None:
        """Cut its power; the file system stays."""
        self.thaw()

        def off() -> bool:
            pid = self.leader()
            if pid is not None:  # again each time: it may be starting
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return self._supervisor() is None

        wait_until(off, f"{self.name} is off", pause=0.02)
        (self.folder / "pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        """No process of it gets time: the kernel still takes connections, and nothing answers."""
        self._freezer("FROZEN")

    def thaw(self) -> None:
        """End `freeze`."""
        if (self._group("freezer") / "freezer.state").exists():
            self._freezer("THAWED")

    def rekey(self) -> None:
        """Give it another SSH host key; known_hosts of the lab keeps the old one."""
        for path in (self.root / "etc/ssh").glob("ssh_host_*"):
            path.unlink()
        self.execute(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "/etc/ssh/ssh_host_ed25519_key"])
        self.execute(["systemctl", "restart", "ssh"])

    def clock(self, seconds: int) -> None:
        """Set the clock that sessions of SSH and sudo see that far off (0: right again).

        All hosts and this machine have one clock: only programs of a session are lied to, not sshd or kubelet.
        """
        lines = []
        if seconds:
            library = next(self.root.glob("usr/lib/*/faketime/libfaketime.so.1")).relative_to(self.root)
            lines = [f"LD_PRELOAD=/{library}", f"FAKETIME={seconds:+d}"]
        (self.root / "etc/environment").write_text("".join(f"{line}\n" for line in lines))
        (self.root / "etc/sudoers.d/clock").write_text("Defaults env_file=/etc/environment\n")

    def fill(self, folder: str, size: str = "64M") -> None:
        """Mount a full file system of that size on a folder."""
        image = self._image(folder)
        run(["truncate", "-s", size, image])
        run(["mkfs.ext4", "-q", "-m0", image])
        device = run(["losetup", "-f", "--show", image]).stdout.strip()
        major, minor = divmod(Path(device).stat().st_rdev, 256)
        script = (
            'mkdir -p "$1" && mknod "/dev/$2" b "$3" "$4" && mount -t ext4 "/dev/$2" "$1" '
            '&& { head -c 100G /dev/zero >"$1/.filler" 2>/dev/null || :; }'
        )
        self.execute(["sh", "-c", script, "sh", folder, image.name, str(major), str(minor)])

    def unfill(self, folder: str) -> None:
        """End `fill`."""
        image = self._image(folder)
        self.execute(["umount", folder])
        self.execute(["rm", "-f", f"/dev/{image.name}"])
        _detach(image)
        image.unlink()

    def remove(self) -> None:
        """Leave nothing of it."""
        self.kill()
        below = [line for line in _mounts() if line == str(self.folder) or line.startswith(f"{self.folder}/")]
        for target in sorted(below, reverse=True):
            run(["umount", "-l", target], check=False)
        _detach(self.folder)
        for controller in CONTROLLERS:
            _remove_groups(self._group(controller))
        self.network.unplug(self.number)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _disk(self, seed: Path | None) -> None:
        """A file system of its own, mounted at `disk`: the layers of the overlay, and what is beside it."""
        disk, image = self.folder / "disk", self.folder / "disk.img"
        if disk.is_mount():
            return
        disk.mkdir(parents=True, exist_ok=True)
        new = not image.exists()
        if new:
            run(["truncate", "-s", _DISK, image])
            run(["mkfs.ext4", "-q", "-m0", "-O", "^has_journal", "-E", "lazy_itable_init=1,nodiscard", image])
        run(["mount", "-o", "loop,noatime", image, disk])
        if new:
            for name in ("upper", "work", *_BOUND):
                (disk / name).mkdir()
            if seed is not None:
                run(["cp", "-a", f"{seed}/.", disk / "containerd"])

    def _identity(self, key: str, names: Sequence[tuple[str, str]]) -> None:
        etc = self.root / "etc"
        if not (etc / "ssh/ssh_host_ed25519_key").exists():
            private = etc / "ssh/ssh_host_ed25519_key"
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self.name, "-f", private])
        (etc / "hostname").write_text(f"{self.name}\n")
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for address, name in names)]
        (etc / "hosts").write_text("".join(f"{line}\n" for line in lines))
        # Nothing answers there, at once; a loopback address would make CoreDNS find itself and end.
        (etc / "resolv.conf").unlink(missing_ok=True)
        (etc / "resolv.conf").write_text(f"nameserver {self.network.gateway}\n")
        home = self.root / "home/deploy"
        authorized = home / ".ssh/authorized_keys"
        authorized.write_text(key)
        os.chown(authorized, home.stat().st_uid, home.stat().st_gid)

    def _nspawn_options(self) -> list[str]:
        binds = [f"--bind={self.folder / 'disk' / name}:/var/lib/{name}" for name in _BOUND]
        calls = [f"--system-call-filter={name}" for name in ("@keyring", "bpf", "perf_event_open")]
        return [
            "-q",
            "-D",
            str(self.root),
            "-b",
            "--register=no",
            "--keep-unit",
            "-M",
            self.name,
            f"--hostname={self.name}",
            f"--network-namespace-path={self.network.path_of(self.number)}",
            "--resolv-conf=off",
            "--timezone=off",
            "--link-journal=no",
            "--console=pipe",
            "--kill-signal=SIGRTMIN+3",
            "--capability=all",
            "--bind=/dev/kmsg",
            *binds,
            *calls,
        ]

    def _make_groups(self) -> list[Path]:
        """Its own control group below each controller; without those of pods from before a power cut.

        A kubelet that finds such asks for each of their containers in vain, 3 s long, before it starts any pod.
        """
        made = [self._group(controller) for controller in CONTROLLERS]
        for group in made:
            _remove_groups(group)
            group.mkdir(parents=True, exist_ok=True)
        cpuset = self._group("cpuset")
        for each in (cpuset.parent.parent, cpuset.parent, cpuset):  # a new one has no processors until it is told
            for name in ("cpuset.cpus", "cpuset.mems"):
                (each / name).write_text((CGROUPS / "cpuset" / name).read_text())
        return made

    def _group(self, controller: str) -> Path:
        return CGROUPS / controller / GROUP / self.lab / self.name

    def _freezer(self, state: str) -> None:
        path = self._group("freezer") / "freezer.state"
        path.write_text(state)
        wait_until(lambda: path.read_text().strip() == state, f"{self.name} is {state.lower()}", pause=0.01)

    def _supervisor(self) -> int | None:
        """The pid of the loop around systemd-nspawn, or None; no other process with its number is taken for it."""
        with suppress(OSError, ValueError):
            pid = int((self.folder / "pid").read_text())
            if str(self.root).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        return None

    def _image(self, folder: str) -> Path:
        return self.folder / f"full{folder.replace('/', '-')}"


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _mounts() -> list[str]:
    return [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]


def _detach(below: Path) -> None:
    """Free the loop devices of files there."""
    listed = run(["losetup", "-nO", "NAME,BACK-FILE"], check=False).stdout.splitlines()
    for name, _, file in (line.partition(" ") for line in listed):
        if Path(file.strip().removesuffix(" (deleted)")).is_relative_to(below):
            run(["losetup", "-d", name], check=False)


def _remove_groups(group: Path) -> None:
    if not group.is_dir():
        return
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def _tail(path: Path, lines: int = 8) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
