"""A stand-in for an NFS server and its clients: this kernel has no NFS client, so `mount -t nfs` would always fail.

mount(8) hands `-t nfs` to the program mount.nfs. On hosts that are plugged in here, that program mounts a file system
which all of them see (they share one kernel), and records what it was asked. So all of a storage is tested but the
protocol: what paictl tells Kubernetes, what kubelet asks of the host, what jobs find.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tools.hosts.machine import Machine
from tools.hosts.shell import run

EXPORT: Final = "10.77.0.1:/shelf"
"""The one export that there is."""
_ASKED: Final = "var/log/mount.nfs"
_DEVICE: Final = "/dev/shelf"
_SIZE: Final = "64M"
_HELPER: Final = f"""\
#!/bin/sh
# what nfs-common has as mount.nfs: mount.nfs SERVER:/PATH FOLDER [-o OPTIONS]
echo "$*" >>/{_ASKED}
[ "$1" = {EXPORT} ] || {{ echo "mount.nfs: mounting $1 failed: No such file or directory" >&2; exit 32; }}
exec mount -t ext4 {_DEVICE} "$2"
"""


def plug_in(machines: Sequence[Machine]) -> None:
    """Give the hosts the export; it goes with the first of them."""
    image = machines[0].folder / "shelf.img"
    run(["truncate", "-s", _SIZE, image])
    run(["mkfs.ext4", "-q", "-m0", image])
    device = Path(run(["losetup", "-f", "--show", image]).stdout.strip())
    major, minor = os.major(device.stat().st_rdev), os.minor(device.stat().st_rdev)
    for machine in machines:
        helper = machine.root / "usr/sbin/mount.nfs"
        helper.write_text(_HELPER)
        helper.chmod(0o755)
        machine.execute(["mknod", _DEVICE, "b", str(major), str(minor)])


def asked(machine: Machine) -> list[str]:
    """What mount.nfs of a host was asked, a line each time."""
    path = machine.root / _ASKED
    return path.read_text().splitlines() if path.exists() else []
