"""GPUs that are none, for hosts without any: what NVIDIA's hardware, driver, toolkit and device plugin show.

A host gets entries on its PCI bus, a driver's version, device nodes that nothing is behind, and stand-ins for
nvidia-ctk and nvidia-container-runtime that do with `NVIDIA_VISIBLE_DEVICES` as the real ones do. `plugin.go` is the
device plugin, `driver.go` a driver of DRA, whose devices need none of the rest.
"""

from __future__ import annotations

from pathlib import Path

from tools.hosts.machine import Machine

_HERE = Path(__file__).parent

_SCRIPT = """\
set -e
mkdir -p /opt/gpu/pci /opt/gpu/driver/nvidia
printf 'NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  stand-in\\n' >/opt/gpu/driver/nvidia/version
for number in $(seq 0 $(($1 - 1))); do
  at=/opt/gpu/pci/0000:0$number:00.0
  mkdir -p "$at"
  echo 0x10de >"$at/vendor"; echo 0x030200 >"$at/class"; echo 0x20b0 >"$at/device"
  [ -e "/dev/nvidia$number" ] || mknod -m 666 "/dev/nvidia$number" c 195 "$number"
done
mountpoint -q /sys/bus/pci/devices || mount --bind /opt/gpu/pci /sys/bus/pci/devices
mountpoint -q /proc/driver || mount --bind /opt/gpu/driver /proc/driver
"""
_PROGRAMS = {"nvidia-ctk": "nvidia_ctk.py", "nvidia-container-runtime": "nvidia_container_runtime.py"}


def plug_in(machine: Machine, count: int) -> None:
    """Give a host that is on GPUs, with their driver and toolkit; they are gone when its power is cut."""
    for name, source in _PROGRAMS.items():
        path = machine.root / "usr/bin" / name
        path.write_text((_HERE / source).read_text())
        path.chmod(0o755)
    machine.execute(["sh", "-c", _SCRIPT, "sh", str(count)])


def drive(machine: Machine, program: Path, kubeconfig: str, count: int) -> None:
    """Have the driver of DRA offer devices on a host that is a node, with the rights of a kubeconfig (its text)."""
    folder = machine.root / "opt/dra"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dra-driver").write_bytes(program.read_bytes())
    (folder / "dra-driver").chmod(0o755)
    (folder / "kubeconfig").touch(mode=0o600)
    (folder / "kubeconfig").write_text(kubeconfig)
    words = [
        "/opt/dra/dra-driver",
        "--node",
        machine.name,
        "--devices",
        str(count),
        "--kubeconfig",
        "/opt/dra/kubeconfig",
    ]
    machine.execute(["systemd-run", "--unit=dra-driver", "--property=Restart=always", *words])
