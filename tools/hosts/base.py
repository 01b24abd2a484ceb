"""The root file system that all hosts share, read only: Debian with systemd, sshd and the users of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tools.hosts.debs import codename, mmdebstrap, sources
from tools.hosts.places import hosts, kept, key_of
from tools.hosts.shell import run

PACKAGES = (
    "systemd",
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "sudo",
    "curl",
    "ca-certificates",
    "kmod",
    "procps",
    "iputils-ping",
    "iptables",
    "nftables",
    "conntrack",
    "socat",
    "ethtool",
    "ebtables",
    "util-linux",
    "e2fsprogs",
    "haproxy",
    "keepalived",
    "libfaketime",
)
"""A server as it is delivered, what kubeadm asks for, and haproxy and keepalived (disabled) for several masters."""

_MASKED = (
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "dpkg-db-backup.timer",
    "getty.target",
    "console-getty.service",
    "systemd-pstore.service",
    "logrotate.timer",
)
_BUILT_IN = (
    "net/bridge/br_netfilter",
    "fs/overlayfs/overlay",
    "net/netfilter/nf_conntrack",
    "net/ipv4/netfilter/ip_tables",
    "net/bridge/bridge",
    "drivers/net/veth",
    "drivers/net/vxlan",
    "net/netfilter/nf_tables",
)
_USERS = """\
set -e
useradd -m -s /bin/bash deploy
useradd -m -s /bin/bash ops
echo ops:ops-pw | chpasswd
echo 'deploy ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/deploy
echo 'ops ALL=(ALL) ALL' >/etc/sudoers.d/ops
chmod 440 /etc/sudoers.d/*
install -d -m700 -o deploy -g deploy /home/deploy/.ssh
rm -f /etc/ssh/ssh_host_* && : >/etc/machine-id
systemctl disable haproxy keepalived nftables 2>/dev/null
"""
_SSHD = """\
UseDNS no
GSSAPIAuthentication no
PasswordAuthentication yes
PermitRootLogin no
MaxStartups 200
HostKey /etc/ssh/ssh_host_ed25519_key
"""
_FAKE_SYSCTLS = """\
#!/bin/sh
# Settings of the whole machine (vm, fs, kernel) are faked for each host; those of the network are really its own.
for key in vm/overcommit_memory vm/panic_on_oom vm/swappiness vm/max_map_count kernel/panic kernel/panic_on_oops \\
  kernel/pid_max kernel/keys/root_maxkeys kernel/keys/root_maxbytes fs/inotify/max_user_instances \\
  fs/inotify/max_user_watches fs/file-max fs/aio-max-nr fs/protected_fifos fs/protected_hardlinks \\
  fs/protected_regular fs/protected_symlinks; do
  [ -e /proc/sys/$key ] || continue
  mkdir -p /run/sysctls/${key%/*}
  cat /proc/sys/$key >/run/sysctls/$key
  mount --bind /run/sysctls/$key /proc/sys/$key
done
# containerd and kubelet make control groups of their own, below those of the host.
mount -o remount,bind,rw /sys/fs/cgroup
for controller in cpu cpuacct cpuset memory devices freezer blkio pids; do
  mount -o remount,bind,rw /sys/fs/cgroup/$controller
done
mount --make-rshared /
"""
_UNIT = """\
[Unit]
Description=What a container needs to look like a machine
DefaultDependencies=no
Before=systemd-sysctl.service sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/like-a-machine
[Install]
WantedBy=sysinit.target
"""
_NO_MODULES = """\
# A kernel without modules has no /proc/modules, but Ansible's modprobe reads it: an empty one is as true.
import builtins
def _opening(opened=builtins.open):
    def open(file, *args, **kwargs):
        return opened("/dev/null" if file == "/proc/modules" else file, *args, **kwargs)
    return open
builtins.open = _opening()
"""


def base() -> Path:
    """The folder of the root file system, made if this content (packages, settings, kernel) is not in the cache.

    Raises:
        LabError: Debian's packages cannot be had.
    """
    own = Path(__file__).read_bytes()
    folder = hosts() / "base" / f"{codename()}-{key_of([own, os.uname().release])}"
    return kept(folder, _make)


def _make(root: Path) -> None:
    _bootstrap(root)
    _configure(root)


def _bootstrap(root: Path) -> None:
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale")]
    words: list[str | Path] = [
        *mmdebstrap(),
        "--mode=root",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        *excluded,
        "--dpkgopt=force-unsafe-io",
        '--aptopt=Acquire::Languages "none"',
        '--aptopt=Apt::Install-Recommends "false"',
        "--skip=cleanup/apt/lists,check/empty",
        "--format=directory",
        codename(),
        root,
    ]
    run([*words, *sources()])


def _configure(root: Path) -> None:
    for unit in _MASKED:
        _link(root / "etc/systemd/system" / unit, "/dev/null")
    _write(root / "etc/ssh/sshd_config.d/test.conf", _SSHD)
    run(["chroot", root, "sh", "-c", _USERS])
    modules = root / "lib/modules" / os.uname().release
    _write(modules / "modules.builtin", "".join(f"kernel/{name}.ko\n" for name in _BUILT_IN))
    _write(modules / "modules.order", "")
    run(["chroot", root, "depmod", "-a", os.uname().release])
    if not Path("/proc/modules").exists():
        for folder in root.glob("etc/python3.*"):
            _write(folder / "sitecustomize.py", _NO_MODULES)
    _write(root / "usr/local/sbin/like-a-machine", _FAKE_SYSCTLS, mode=0o755)
    _write(root / "etc/systemd/system/like-a-machine.service", _UNIT)
    _link(root / "etc/systemd/system/sysinit.target.wants/like-a-machine.service", "../like-a-machine.service")


def _write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text)
    path.chmod(mode)


def _link(path: Path, target: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
