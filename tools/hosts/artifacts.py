"""What a deployment puts on hosts, packed under upstream's names from what tools/kube/build.sh has built.

The folder is laid out as `paictl deploy bundle create` wants its source: programs, archives, images and artifacts.json.
Control plane images bear the names that kubeadm asks for; the etcd in its image is the one of versions.env.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from tools.hosts import archive
from tools.hosts.archive import write_image
from tools.hosts.base import base
from tools.hosts.debs import busybox
from tools.hosts.places import hosts, kept, key_of, versions
from tools.hosts.shell import LabError, run
from tools.images import oci

BUSYBOX = "localhost/busybox:1"
"""The image of the tests' own pods."""

LOCK = "artifacts.json"
"""What the folder's files are."""

_BUILD = Path(__file__).parents[1] / "kube" / "build.sh"
_APPLETS = (
    "sh",
    "sleep",
    "cat",
    "id",
    "echo",
    "ls",
    "mount",
    "ip",
    "ping",
    "wget",
    "httpd",
    "hostname",
    "ps",
    "nc",
    "nslookup",
    "grep",
    "true",
    "false",
    "env",
    "head",
    "tail",
    "date",
)
_KUBERNETES = ("kubeadm", "kubelet", "kubectl")
_NETWORK = ("bridge", "loopback", "host-local", "portmap", "bandwidth", "firewall")
_PROXY_NEEDS = (
    "usr/sbin/iptables*",
    "usr/sbin/ip6tables*",
    "usr/sbin/xtables-*-multi",
    "usr/sbin/nft",
    "usr/sbin/conntrack",
    "usr/bin/true",
    "etc/alternatives/iptables*",
    "etc/alternatives/ip6tables*",
    "usr/lib/*/xtables/*.so",
)
"""What kube-proxy calls, from the base root."""
_PROTOCOLS = Path("etc/protocols")
"""A dependency of iptables. Without it nft calls TCP 6, and a kube-proxy that starts again deletes its own elements."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A row of artifacts.json."""

    name: str
    kind: str
    version: str
    arch: str
    url: str
    sha256: str
    path: str


def folder(stamp: str = "", images: Sequence[Path] = ()) -> Path:
    """The artifact folder of a version of Kubernetes, made if it is not in the cache.

    Args:
        stamp: the version the programs say they are, if it is not the built one (KUBE_STAMP of build.sh).
        images: more image archives.

    Raises:
        LabError: something has not been built.
    """
    version = stamp or versions()["KUBE_VERSION"]
    core = _made(_key(version), lambda at: _pack(at, version))
    if not images:
        return core
    more = [_hash(path) for path in images]
    return _made(key_of([core.parent.name, *more]), lambda at: _extend(at, core, images))


def device_plugin(reference: str) -> Path:
    """An archive with the device plugin of `tools.hosts.gpu` under the name of NVIDIA's image."""
    program = built("deviceplugin", "nvidia-device-plugin")

    def fill(at: Path) -> None:
        write_image(at / "device-plugin.tar", reference, {"/usr/bin/nvidia-device-plugin": program})

    return kept(hosts() / "packed" / key_of([program.parent.name, reference]), fill) / "device-plugin.tar"


@lru_cache
def programs(component: str, stamp: str = "") -> Path:
    """The folder where build.sh puts the programs of a component (see `folder`)."""
    environment = {**os.environ, **({"KUBE_STAMP": stamp} if stamp else {})}
    return Path(run([_BUILD, "--where", component], environment=environment).stdout.strip())


def _key(version: str) -> str:
    own = [Path(file).read_bytes() for file in (__file__, archive.__file__, oci.__file__)]
    return key_of([version, base().name, json.dumps(versions(), sort_keys=True), *own])


def _made(key: str, make: Callable[[Path], None]) -> Path:
    def fill(at: Path) -> None:
        (at / "artifacts").mkdir()
        make(at / "artifacts")

    return kept(hosts() / "packed" / key, fill) / "artifacts"


def _pack(at: Path, version: str) -> None:
    known = versions()
    for name in _KUBERNETES:
        _place(built(name, name, version), at / name)
    _place(built("runc", "runc"), at / "runc.amd64")
    number = known["CONTAINERD_VERSION"].removeprefix("v")
    names = ("containerd", "containerd-shim-runc-v2", "ctr")
    _archive(at / f"containerd-{number}-linux-amd64.tar.gz", {f"bin/{n}": built("containerd", n) for n in names})
    network = {f"./{name}": built("cni", name) for name in _NETWORK}
    _archive(at / f"cni-plugins-linux-amd64-{known['CNI_VERSION']}.tgz", network)
    crictl = known["CRICTL_VERSION"]
    _archive(at / f"crictl-{crictl}-linux-amd64.tar.gz", {"crictl": built("crictl", "crictl")})
    (at / "images").mkdir()
    _images(at / "images", version)
    rows = [
        *(row(at, name, "binary", version, name) for name in _KUBERNETES),
        row(at, "runc", "binary", known["RUNC_VERSION"], "runc.amd64"),
        row(at, "containerd", "archive", number, f"containerd-{number}-linux-amd64.tar.gz"),
        row(at, "cni-plugins", "archive", known["CNI_VERSION"], f"cni-plugins-linux-amd64-{known['CNI_VERSION']}.tgz"),
        row(at, "crictl", "archive", crictl, f"crictl-{crictl}-linux-amd64.tar.gz"),
    ]
    _lock(at, rows)


def _extend(at: Path, core: Path, images: Iterable[Path]) -> None:
    shutil.copytree(core, at, copy_function=os.link, dirs_exist_ok=True)
    for image in images:
        _place(image, at / "images" / image.name)
    rows = json.loads((core / LOCK).read_text())["artifacts"]
    (at / LOCK).unlink()  # a hard link still
    _lock(at, [Artifact(**one) for one in rows if one["kind"] != "image"])


def _lock(at: Path, rows: Sequence[Artifact]) -> None:
    """Write artifacts.json: these rows and one for each image."""
    images = [
        row(at, path.stem, "image", path.stem.rpartition("_")[2], f"images/{path.name}")
        for path in sorted((at / "images").iterdir())
    ]
    data = {"schemaVersion": 1, "artifacts": [asdict(one) for one in (*rows, *images)]}
    (at / LOCK).write_text(json.dumps(data, indent=2) + "\n")


def row(at: Path, name: str, kind: str, version: str, path: str) -> Artifact:
    """The row of a file that is there."""
    return Artifact(name, kind, version, "amd64", "", _hash(at / path), path)


def _images(at: Path, version: str) -> None:
    """Those that kubeadm lists, and busybox; the archive is named after the image: ``kube-apiserver_v1.37.1.tar``."""
    listed = run([built("kubeadm", "kubeadm", version), "config", "images", "list", "--kubernetes-version", version])
    for reference in listed.stdout.split():
        name, _, tag = reference.rpartition("/")[2].partition(":")
        files, links, entrypoint = _content(name, version)
        write_image(at / f"{name}_{tag}.tar", reference, files, links=links, entrypoint=entrypoint)
    applets = {f"/bin/{name}": "busybox" for name in _APPLETS}
    write_image(at / "busybox_1.tar", BUSYBOX, {"/bin/busybox": busybox()}, links=applets, command=["/bin/sh"])


def _content(name: str, version: str) -> tuple[Mapping[str, Path], Mapping[str, str], Sequence[str]]:
    """Files, links and entry point of one of kubeadm's images."""
    match name:
        case "etcd":
            client = {f"/usr/local/bin/{each}": built("etcdctl", each) for each in ("etcdctl", "etcdutl")}
            return {"/usr/local/bin/etcd": built("etcd", "etcd"), **client}, {}, ()
        case "coredns" | "pause":
            return {f"/{name}": built(name, name)}, {}, (f"/{name}",)
        case "kube-proxy":
            merged = {f"/{each}": f"usr/{each}" for each in ("bin", "sbin", "lib", "lib64")}
            return {**proxy_files(base()), f"/usr/local/bin/{name}": built(name, name, version)}, merged, ()
        case _:
            return {f"/usr/local/bin/{name}": built(name, name, version)}, {}, ()


def proxy_files(root: Path) -> dict[str, Path]:
    """iptables, nft and conntrack with the libraries they load, and the names of protocols."""
    found = {path.relative_to(root) for pattern in _PROXY_NEEDS for path in root.glob(pattern)}
    for path in sorted(found):
        said = run(["chroot", root, "ldd", f"/{path}"], check=False).stdout
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", said):
            inside = Path(re.sub(r"^/(lib|lib64)/", r"usr/\1/", library).lstrip("/"))
            real = run(["chroot", root, "readlink", "-e", f"/{inside}"]).stdout.strip()
            found |= {inside, Path(real.lstrip("/"))}
    return {f"/{path}": root / path for path in (*found, _PROTOCOLS)}


def built(component: str, program: str, stamp: str = "") -> Path:
    """A file that build.sh has made; raises `LabError` where it has not."""
    path = programs(component, stamp) / program
    if not path.is_file():
        wanted = f"KUBE_STAMP={stamp} " if stamp not in ("", versions()["KUBE_VERSION"]) else ""
        raise LabError(f"{path} is not there: {wanted}tools/kube/build.sh {component}")
    return path


def _place(source: Path, target: Path) -> None:
    """A hard link where the file system allows it."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _archive(target: Path, files: Mapping[str, Path]) -> None:
    """As upstream packs, but hardly compressed: it never leaves this machine."""
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for name, source in files.items():
            archive.add(source, name, filter=_of_root)


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
