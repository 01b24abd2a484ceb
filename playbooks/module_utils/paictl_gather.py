"""What a host is, as values of JSON. Standard library only, Python 3.8 and newer.

`paictl deploy check` sends this file over stdin and runs it; the module paictl_facts takes it as a module of its own.

Nothing is changed there: no file is made that has a name for longer than an instant, no module is loaded, no program is
called that does more than tell. What cannot be found out is null. Run as root, else less is told.
"""

from __future__ import annotations

import base64
import fcntl
import glob
import json
import os
import re
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SERVICE_ROOT = "/run/nvidia/driver"  # where the service gpu-driver shows its driver
STATE = "/var/lib/paictl/installed.json"
BEGUN = "/var/lib/paictl/kubeadm-begun"
BRIDGE = "/proc/sys/net/bridge"
KUBELET_CERTIFICATE = "/var/lib/kubelet/pki/kubelet-client-current.pem"
PKI = "/etc/kubernetes/pki"


def read(path: str, default: str = "") -> str:
    """The text of a file without white space around it; `default` where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return default


def said(*command: str) -> str | None:
    """What a program prints; None where it is not there, fails, or takes more than five seconds."""
    env = {"PATH": PATH, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=5,
            env=env,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else None


def within(seconds: float, work: Callable[[], Any]) -> Any:
    """What a function returns, or None if it takes longer or cannot do it (names are looked up without any end)."""
    box: list[Any] = []

    def go() -> None:
        try:
            box.append(work())
        except (OSError, UnicodeError):
            box.append(None)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(seconds)
    return box[0] if box else None


def system() -> dict[str, Any]:
    """Distribution, architecture, kernel, init."""
    release = {}
    for line in read("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        release[name] = value.strip("\"'")
    return {
        "id": release.get("ID", ""),
        "like": release.get("ID_LIKE", "").split(),
        "version": release.get("VERSION_ID", ""),
        "name": release.get("PRETTY_NAME", ""),
        "arch": os.uname().machine,
        "kernel": os.uname().release,
        "systemd": os.path.isdir("/run/systemd/system"),
        "cgroup": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
        "python": ".".join(map(str, sys.version_info[:2])),
        "root": os.getuid() == 0,
    }


def memory() -> dict[str, Any]:
    """Bytes of memory and of swap."""
    total = re.search(r"MemTotal:\s+(\d+) kB", read("/proc/meminfo"))
    swaps = [line.split() for line in read("/proc/swaps").splitlines()[1:]]
    return {
        "total": int(total.group(1)) * 1024 if total else None,
        "swap": [{"name": one[0], "bytes": int(one[2]) * 1024} for one in swaps if len(one) > 2],
    }


def nearest(path: str) -> str:
    """The folder itself, or the nearest above it that exists."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def disk(path: str) -> dict[str, Any]:
    """Free and all bytes of the file system that a folder is on, or would be."""
    place = nearest(path)
    status = os.statvfs(place)
    return {"on": place, "free": status.f_bavail * status.f_frsize, "total": status.f_blocks * status.f_frsize}


def fsync_p99(path: str, count: int = 60) -> float:
    """The 99th percentile of small synchronous writes in milliseconds, in a file that has no name."""
    place = nearest(path)
    before = os.stat(place)
    try:
        handle = os.open(place, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # not every file system has files without names
        handle, name = tempfile.mkstemp(dir=place)
        os.unlink(name)
        os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    try:
        times = []
        for _ in range(count):
            os.write(handle, b"p" * 2300)
            began = time.perf_counter()
            os.fdatasync(handle)
            times.append(time.perf_counter() - began)
    finally:
        os.close(handle)
    return round(sorted(times)[int(count * 0.99) - 1] * 1000, 2)


def listeners(wanted: set[int]) -> dict[str, str]:
    """Who listens on which of the wanted TCP ports: port → name of the program."""
    inodes = {}
    for name in ("tcp", "tcp6"):
        for line in read("/proc/net/" + name).splitlines()[1:]:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == "0A" and port in wanted:
                inodes[f"socket:[{fields[9]}]"] = port
    found = {str(port): "?" for port in inodes.values()}
    for path in glob.glob("/proc/[0-9]*/fd/*") if inodes else ():
        try:
            owned = inodes.get(os.readlink(path))
        except OSError:
            continue
        if owned is not None:
            found[str(owned)] = read("/proc/{}/comm".format(path.split("/")[2]), "?")
    return found


def modules(wanted: list[str]) -> dict[str, str]:
    """How each kernel module is there: `loaded`, `builtin`, `loadable`, or `missing`."""
    folder = "/lib/modules/" + os.uname().release
    builtin, loadable = (read(f"{folder}/modules.{name}") for name in ("builtin", "dep"))
    systems = read("/proc/filesystems").split()

    def how(name: str) -> str:
        pattern = r"/{}\.ko".format(name.replace("_", "[-_]"))
        if os.path.isdir("/sys/module/" + name):
            return "loaded"
        if name in systems or re.search(pattern, builtin) or (name == "br_netfilter" and os.path.isdir(BRIDGE)):
            return "builtin"
        return "loadable" if re.search(pattern, loadable) else "missing"

    return {name: how(name) for name in wanted}


def sysctl_lines(wanted: set[str]) -> list[list[str]]:
    """Lines of files read at boot that set one of the wanted settings: (file, name, value), in their order."""
    files = {}
    for folder in ("/usr/lib/sysctl.d", "/run/sysctl.d", "/etc/sysctl.d"):
        for path in glob.glob(folder + "/*.conf"):
            files[os.path.basename(path)] = path
    order = [files[name] for name in sorted(files)] + ["/etc/sysctl.conf"]
    found = []
    for path in order:
        for line in read(path).splitlines():
            name, _, value = line.partition("=")
            name = name.strip().lstrip("-").replace("/", ".")
            if name in wanted:
                found.append([path, name, value.strip()])
    return found


def running(*names: str) -> list[str]:
    """Those of some programs that run, by the name of their process."""
    found = {read(path) for path in glob.glob("/proc/[0-9]*/comm")}
    return sorted(name for name in names if name in found)


def others() -> dict[str, Any]:
    """What is there of Kubernetes, container runtimes and CNI, and whether paictl has put it there."""
    pieces = glob.glob("/etc/kubernetes/*.conf") + glob.glob("/etc/kubernetes/manifests/*.yaml")
    pieces += [path for path in ("/var/lib/etcd/member", "/var/lib/rancher", "/var/lib/k0s") if os.path.exists(path)]
    program = next(
        (path for path in ("/usr/local/bin/containerd", "/usr/bin/containerd") if os.path.exists(path)), None
    )
    return {
        "ours": os.path.exists(STATE),
        "begun": read(BEGUN),
        "kubernetes": sorted(pieces),
        "runs": running("kubelet", "kube-apiserver", "k3s", "k0s", "dockerd", "containerd", "crio", "etcd"),
        "containerd": {"path": program, "version": said(program, "--version")} if program else None,
        "cni": sorted(glob.glob("/etc/cni/net.d/*")),
    }


def node_name() -> str | None:
    """The name of the node that kubelet here runs as, by its certificate; None where it has none.

    No program or library that reads certificates is on every host, but the common name is text with its length before
    it in any DER file.
    """
    pem = re.search("-----BEGIN CERTIFICATE-----(.+?)-----END", read(KUBELET_CERTIFICATE), re.DOTALL)
    der = base64.b64decode(pem.group(1)) if pem else b""
    prefix = b"system:node:"
    at = der.find(prefix)
    return der[at + len(prefix) : at + der[at - 1]].decode("ascii", "replace") if at > 0 else None


def cluster_nodes(address: str) -> dict[str, list[str]] | None:
    """The nodes of the cluster with their internal addresses, by the API server of this master; None elsewhere.

    None also while it does not answer. kubeadm gives each master a client certificate for asking kubelets; its group
    may list nodes, too.
    """
    certificate = PKI + "/apiserver-kubelet-client"
    if not os.path.exists(certificate + ".key"):
        return None
    host = f"[{address}]" if ":" in address else address
    try:
        context = ssl.create_default_context(cafile=PKI + "/ca.crt")
        context.load_cert_chain(certificate + ".crt", certificate + ".key")
        url = f"https://{host}:6443/api/v1/nodes"
        with urllib.request.urlopen(url, timeout=5, context=context) as answer:
            items = json.load(answer)["items"]
    except (OSError, ValueError, KeyError):
        return None
    return {
        item["metadata"]["name"]: [
            one["address"] for one in item["status"].get("addresses", []) if one["type"] == "InternalIP"
        ]
        for item in items
    }


def network(address: str, asked: list[list[Any]], names: bool) -> dict[str, Any]:
    """Names if they shall be looked up, the interface that has the host's address, and whether others are reached."""
    name = os.uname().nodename
    interface = next((one for one in os.listdir("/sys/class/net") if address in addresses(one)), None)
    return {
        "hostname": name,
        "resolves": within(3, lambda: sorted({one[4][0] for one in socket.getaddrinfo(name, None)})) if names else None,
        "reverse": within(3, lambda: socket.gethostbyaddr(address)[0]) if names else None,
        "interface": interface,
        "mtu": int(read(f"/sys/class/net/{interface}/mtu", "0")) if interface else None,
        "reached": {f"{host}:{port}": reach(host, port) for host, port in asked},
    }


def addresses(interface: str) -> list[str]:
    """The IP addresses of an interface: the first of IPv4, all of IPv6."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            answer = fcntl.ioctl(asking.fileno(), 0x8915, struct.pack("256s", interface[:15].encode()))
            found.append(socket.inet_ntoa(answer[20:24]))
        except OSError:
            pass
    for line in (said("ip", "-o", "addr", "show", "dev", interface) or "").splitlines():
        found += re.findall(r"inet6? ([0-9a-f.:]+)/", line)
    return found


def reach(host: str, port: int) -> str:
    """Whether a connection gets there: `open`, `closed` (a refusal is an answer too), or the reason why not."""
    try:
        socket.create_connection((host, port), 3).close()
    except ConnectionRefusedError:
        return "closed"
    except OSError as error:
        return error.strerror or str(error)
    return "open"


def driver_root(settings: str) -> str:
    """Where the container toolkit looks for the driver; empty where its settings do not say it."""
    section = settings.partition("[nvidia-container-cli]")[2].partition("\n[")[0]
    found = re.search(r"^\s*root\s*=\s*[\"']([^\"']*)", section, re.MULTILINE)
    return found.group(1) if found else ""


def gpus() -> dict[str, Any]:
    """GPUs as the PCI bus has them, and the state of their driver; nothing more is asked where there are none."""
    found, switches = [], 0
    for path in sorted(glob.glob("/sys/bus/pci/devices/*")):
        vendor, kind = read(path + "/vendor"), read(path + "/class")
        if vendor == "0x10de" and kind.startswith("0x0680"):
            switches += 1
        if (vendor == "0x10de" and kind.startswith("0x03")) or (
            vendor == "0x1002" and kind[:6] in ("0x0380", "0x1200")
        ):
            found.append({"at": os.path.basename(path), "vendor": vendor, "device": read(path + "/device")})
    if not found:
        return {"devices": []}
    version = re.search(r"Kernel Module.*?(\d+(?:\.\d+)+)", read("/proc/driver/nvidia/version"))
    smi = nvidia_smi()
    modes = said(*smi, "--query-gpu=mig.mode.current", "--format=csv,noheader")
    return {
        "devices": found,
        "switches": switches,
        "nouveau": os.path.isdir("/sys/module/nouveau"),
        "driver": version.group(1) if version else read("/sys/module/nvidia/version") or None,
        "installed": read("/run/nvidia/paictl-gpu-driver").split(),  # by the service gpu-driver since the start
        "own": on_disk(os.uname().release),
        "root": driver_root(read("/etc/nvidia-container-runtime/config.toml")),
        "nodes": len(glob.glob("/dev/nvidia[0-9]*")),
        "headers": os.path.exists(f"/lib/modules/{os.uname().release}/build"),
        "secureboot": secure_boot(),
        "fabric": said("systemctl", "is-active", "nvidia-fabricmanager") == "active" if switches else None,
        "smi": " ".join(smi),
        "mig": sorted(set(modes.splitlines())) if modes else None,
        "instances": instances(said(*smi, "-L") or "") if modes and "Enabled" in modes else [],
    }


def nvidia_smi() -> list[str]:
    """How to call nvidia-smi: the host's own, or else the one in the container that the service gpu-driver runs."""
    inside = not os.path.islink(SERVICE_ROOT) and os.access(f"{SERVICE_ROOT}/usr/bin/nvidia-smi", os.X_OK)
    return (
        ["chroot", SERVICE_ROOT, "nvidia-smi"]
        if inside and not shutil.which("nvidia-smi", path=PATH)
        else ["nvidia-smi"]
    )


def on_disk(release: str, folder: str = "/lib/modules") -> bool:
    """Whether NVIDIA's driver for a kernel is on the disk of the host, where the service gpu-driver never puts it."""
    names = (name for _, _, files in os.walk(f"{folder}/{release}") for name in files)
    return any(re.match(r"nvidia(-current[^/]*)?\.ko", name) for name in names)


def instances(listed: str) -> list[list[list[Any]]]:
    """Index and profile of the MIG instances of each GPU, in the order of the GPUs, as `nvidia-smi -L` lists them."""
    found: list[list[list[Any]]] = []
    for line in listed.splitlines():
        part = re.match(r"\s+MIG (\S+)\s+Device\s+(\d+):", line)
        if line.startswith("GPU "):
            found.append([])
        elif part and found:
            found[-1].append([int(part.group(2)), part.group(1)])
    return found


def secure_boot() -> bool | None:
    """Whether Secure Boot is on; None on machines without UEFI."""
    for path in glob.glob("/sys/firmware/efi/efivars/SecureBoot-*"):
        try:
            with open(path, "rb") as file:
                return file.read()[-1:] == b"\x01"
        except OSError:
            return None
    return None


def gather(wish: dict[str, Any]) -> dict[str, Any]:
    """All facts; `wish` says the address of the host, which folders, ports, modules, settings, and whom to reach."""
    began = time.time()
    facts = {
        "system": system(),
        "cpus": len(os.sched_getaffinity(0)),
        "memory": memory(),
        "disks": {path: disk(path) for path in wish["folders"]},
        "fsync": fsync_p99(wish["fsync"]) if wish["fsync"] else None,
        "listeners": listeners(set(wish["ports"])),
        "modules": modules(wish["modules"]),
        "sysctls": {name: read("/proc/sys/" + name.replace(".", "/")) or None for name in wish["sysctls"]},
        "sysctl_lines": sysctl_lines(set(wish["sysctls"])),
        "others": others(),
        "machine_id": read("/etc/machine-id") or None,
        "product_uuid": read("/sys/class/dmi/id/product_uuid") or None,
        "network": network(wish["address"], wish["reach"], wish["names"]),
        "gpus": gpus(),
        "node": node_name(),
        "nodes": cluster_nodes(wish["address"]),
    }
    facts["clock"] = [began, time.time()]
    return facts


if __name__ == "__main__":
    json.dump(gather(json.loads(sys.argv[1])), sys.stdout)
