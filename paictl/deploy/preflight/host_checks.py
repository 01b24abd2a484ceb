"""Checks of what a host is: system, memory, disks, ports, and what others have installed there."""

from __future__ import annotations

import re
from typing import Final

from paictl.deploy.preflight.verdict import (
    Check,
    DesiredHost,
    Facts,
    Level,
    PreflightVerdict,
    fail,
    fine,
    unknown,
    warn,
)
from paictl.i18n import text

GIB: Final = 2**30
CONTAINERS: Final = "/var/lib/containerd"
ETCD: Final = "/var/lib/etcd"
LOGS: Final = "/var/log"
FOLDERS: Final = (CONTAINERS, ETCD, LOGS)
MODULES: Final = ("overlay", "br_netfilter")
SYSCTLS: Final = (
    "net.ipv4.ip_forward",
    "net.bridge.bridge-nf-call-iptables",
    "net.bridge.bridge-nf-call-ip6tables",
)
"""Settings that Kubernetes wants to be 1."""
MASTER_PORTS: Final = (6443, 10250, 10257, 10259, 2379, 2380)
WORKER_PORTS: Final = (10250,)

KNOWN: Final = {
    "debian": ("12", "13"),
    "ubuntu": ("22.04", "24.04"),
    "rhel": ("9",),
    "rocky": ("9",),
    "almalinux": ("9",),
    "centos": ("9",),
}
"""Distributions and versions that the roles are written for."""
ARCHITECTURES: Final = ("x86_64",)
UNTRIED: Final = ("aarch64",)
OLDEST_KERNEL: Final = (5, 4)
MEMORY: Final = {True: 1700 * 2**20, False: 900 * 2**20}
"""Least bytes of memory of a master (kubeadm's own limit) and of another host."""
CPUS: Final = {True: 2, False: 1}
DISK: Final = {CONTAINERS: (10 * GIB, 50 * GIB), ETCD: (2 * GIB, 8 * GIB), LOGS: (GIB // 2, 2 * GIB)}
"""Free bytes: below the first nothing works for long, below the second it gets narrow."""
FSYNC: Final = (10.0, 500.0)
"""Milliseconds: etcd wants its 99th percentile below the first; near the second (half of its time for an election) it
loses its leader.
"""
CLUSTERS: Final = frozenset({"kubelet", "kube-apiserver", "k3s", "k0s"})
RUNTIMES: Final = frozenset({"dockerd", "crio"})
OUR_PROGRAMS: Final = frozenset({"kubelet", "kube-apiserver", "kube-controller", "kube-scheduler", "etcd"})
"""Names of processes, cut to 15 characters by the kernel."""


def _is_deb(facts: Facts) -> bool:
    system = facts["system"]
    return system["id"] in ("debian", "ubuntu") or "debian" in system["like"]


def check_os(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """A distribution that the roles are written for."""
    system = facts["system"]
    name = system["name"] or system["id"] or "?"
    versions = KNOWN.get(system["id"])
    expected = "Debian 12/13, Ubuntu 22.04/24.04, RHEL 9"
    if versions is None:
        family = next((kind for kind in ("debian", "rhel", "fedora") if kind in system["like"]), None)
        if family is None:
            return fail(name, expected, text("install one of these on {host}", host="it"))
        return warn(name, expected, text("similar to {family}, but untested", family=family))
    if not any(system["version"] == version or system["version"].startswith(f"{version}.") for version in versions):
        return warn(name, expected, text("another version may work, but is untested"))
    return fine(name)


def check_arch(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """An architecture that there are programs and images for."""
    arch = facts["system"]["arch"]
    if arch in ARCHITECTURES:
        return fine(arch)
    if arch in UNTRIED:
        return warn(arch, " or ".join(ARCHITECTURES), text("gather artifacts for it; untested"))
    return fail(arch, " or ".join(ARCHITECTURES), text("use a host of that architecture"))


def check_systemd(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """systemd is PID 1: kubelet and containerd are its units."""
    if facts["system"]["systemd"]:
        return fine("systemd")
    return fail(text("another init"), "systemd", text("boot it with systemd: apt install systemd-sysv, then reboot"))


def check_kernel(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """A kernel that Kubernetes is tested with."""
    release = facts["system"]["kernel"]
    numbers = tuple(int(number) for number in re.findall(r"\d+", release)[:2])
    expected = ".".join(map(str, OLDEST_KERNEL))
    if numbers >= OLDEST_KERNEL:
        return fine(release)
    newer = "apt install --upgrade linux-image-amd64" if _is_deb(facts) else "dnf update kernel"
    return fail(release, text("{version} or newer", version=expected), f"{newer} && reboot")


def check_cgroup(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """cgroup v2: kubelet refuses v1 unless it is told otherwise."""
    if facts["system"]["cgroup"] == 2:
        return fine("v2")
    fix = text(
        "boot with {argument}; or config.yaml: deploy: {{kubelet: {{failCgroupV1: false}}}}",
        argument="systemd.unified_cgroup_hierarchy=1",
    )
    return warn("v1", "v2", fix)


def check_swap(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """Swap is off, or config.yaml allows it."""
    swaps = facts["memory"]["swap"]
    if not swaps or desired.swap_allowed:
        return fine("off" if not swaps else text("on, and allowed"))
    size = sum(swap["bytes"] for swap in swaps)
    finding = f"{_size(size)} ({', '.join(swap['name'] for swap in swaps)})"
    return fail(finding, "off", r"swapoff -a && sed -i.bak '/\sswap\s/s/^/#/' /etc/fstab")


def check_memory(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """Enough memory for what the host is for."""
    total = facts["memory"]["total"]
    if total is None:
        return unknown(text("not known"))
    least = MEMORY[desired.master]
    return fine(_size(total)) if total >= least else fail(_size(total), f">= {_size(least)}", _bigger())


def check_cpu(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """Enough processors for what the host is for."""
    least = CPUS[desired.master]
    count = str(facts["cpus"])
    return fine(count) if facts["cpus"] >= least else fail(count, f">= {least}", _bigger())


def _bigger() -> str:
    return text("add more, or use another host")


def check_disk(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """Enough free space below the folders that grow."""
    worst: PreflightVerdict | None = None
    for folder, (least, good) in DISK.items():
        disk = facts["disks"].get(folder)
        if disk is None or (folder == ETCD and not desired.master) or disk["free"] >= good:
            continue
        finding = text("{size} free for {folder}", size=_size(disk["free"]), folder=folder)
        fix = text("free some space on {folder}, or mount a disk there: df -h {folder}", folder=disk["on"])
        level = Level.FAIL if disk["free"] < least else Level.WARN
        verdict = PreflightVerdict(level, finding, f">= {_size(least if level is Level.FAIL else good)}", fix)
        if worst is None or (level is Level.FAIL and worst.level is Level.WARN):
            worst = verdict
    return worst or fine(text("{size} free", size=_size(facts["disks"][CONTAINERS]["free"])))


def check_fsync(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """The disk of a master is quick enough for etcd."""
    if not desired.master:
        return fine("-")
    milliseconds = facts["fsync"]
    if milliseconds is None:
        return unknown(text("not measured"))
    finding = f"p99 {milliseconds:g} ms"
    if milliseconds < FSYNC[0]:
        return fine(finding)
    fix = text("put {folder} on an SSD of its own", folder=ETCD)
    return (warn if milliseconds < FSYNC[1] else fail)(finding, f"< {FSYNC[0]:g} ms", fix)


def check_ports(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """The ports of Kubernetes are free, or taken by the Kubernetes that paictl has put there."""
    ports = MASTER_PORTS if desired.master else WORKER_PORTS
    listeners = {int(port): program for port, program in facts["listeners"].items() if int(port) in ports}
    if facts["others"]["ours"]:
        listeners = {port: program for port, program in listeners.items() if program not in OUR_PROGRAMS}
    if not listeners:
        return fine(text("free"))
    finding = ", ".join(f"{port} ({program})" for port, program in sorted(listeners.items()))
    port = min(listeners)
    return fail(finding, text("free: {ports}", ports=", ".join(map(str, ports))), f"ss -ltnp 'sport = :{port}'")


def check_modules(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """Kernel modules are there, or built in."""
    missing = [name for name, how in facts["modules"].items() if how == "missing"]
    if not missing:
        return fine(", ".join(f"{name} {how}" for name, how in facts["modules"].items()))
    package = "linux-modules-extra-$(uname -r)" if facts["system"]["id"] == "ubuntu" else "linux-image-amd64"
    fix = f"apt install {package}" if _is_deb(facts) else "dnf install kernel-modules-extra"
    return fail(text("no {names}", names=", ".join(missing)), ", ".join(facts["modules"]), f"{fix} && reboot")


def check_sysctls(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """No file that is read after ours at boot sets a setting back."""
    later = [
        (path, name, value)
        for path, name, value in facts["sysctl_lines"]
        if value != "1" and path.rpartition("/")[2] > "90-paictl.conf"
    ]
    if not later:
        return fine(text("can be set"))
    path, name, value = later[-1]
    fix = f"sed -i.bak '/{name.replace('.', '[./]')}/d' {path}"
    return fail(f"{path}: {name} = {value}", f"{name} = 1", fix)


def check_kubernetes(facts: Facts, desired: DesiredHost) -> PreflightVerdict:
    """No Kubernetes that paictl did not deploy, and no other cluster that it did."""
    others = facts["others"]
    if others["begun"] and others["begun"] == desired.cluster:
        return fine(text("deployed by paictl"))
    if others["begun"]:
        hint = text(
            "reset it with the files of {cluster}: {command}",
            cluster=others["begun"],
            command=f"paictl deploy reset --node {desired.name}",
        )
        return fail(text("belongs to the cluster {cluster}", cluster=others["begun"]), desired.cluster, hint)
    runs = [] if others["ours"] else sorted(CLUSTERS & set(others["runs"]))  # a kubelet of ours may wait for its begin
    if not others["kubernetes"] and not runs:
        return fine(text("none"))
    finding = ", ".join([*runs, *others["kubernetes"][:2]])
    fix = "k3s-uninstall.sh" if "k3s" in runs else "kubeadm reset --force && rm -rf /etc/kubernetes /var/lib/etcd"
    return fail(finding, text("no other Kubernetes"), text("if it can be removed: {command}", command=fix))


def check_runtime(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """No container runtime that would be in the way of ours."""
    others = facts["others"]
    runtime = others["containerd"]
    runs = sorted(RUNTIMES & set(others["runs"]))
    packaged = runtime is not None and runtime["path"] == "/usr/bin/containerd" and "containerd" in others["runs"]
    if not runs and not packaged:
        return fine(text("no conflicts"))
    version = re.search(r"\d+\.\d+\.\d+", (runtime or {}).get("version") or "")
    finding = ", ".join([*runs, *([f"containerd {version.group() if version else ''}".strip()] if packaged else [])])
    packages = "docker-ce containerd.io docker.io containerd"
    fix = f"apt remove {packages}" if _is_deb(facts) else "dnf remove docker-ce containerd.io"
    return fail(finding, text("no other container runtime"), f"systemctl disable --now docker containerd; {fix}")


def check_cni(facts: Facts, _: DesiredHost) -> PreflightVerdict:
    """No network configuration that kubelet would take for ours."""
    others = facts["others"]
    names = [path for path in others["cni"] if not path.rpartition("/")[2].startswith((".", "10-paictl"))]
    if others["ours"] or not names:
        return fine(text("none"))
    return fail(", ".join(names), text("none"), f"mkdir -p /root/cni.old && mv {' '.join(names)} /root/cni.old")


def _size(count: int) -> str:
    return f"{count / GIB:.1f} GiB" if count >= GIB else f"{count / 2**20:.0f} MiB"


CHECKS: Final[dict[str, Check]] = {
    "os": check_os,
    "arch": check_arch,
    "systemd": check_systemd,
    "kernel": check_kernel,
    "cgroup": check_cgroup,
    "swap": check_swap,
    "memory": check_memory,
    "cpu": check_cpu,
    "disk": check_disk,
    "fsync": check_fsync,
    "ports": check_ports,
    "modules": check_modules,
    "sysctls": check_sysctls,
    "kubernetes": check_kubernetes,
    "runtime": check_runtime,
    "cni": check_cni,
}
