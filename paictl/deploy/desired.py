"""What each machine shall be like: programs, files, images, kernel; all made here, once, and compared on the hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import PurePosixPath
from typing import Any, Final

from paictl.deploy.artifacts import Artifact, ArtifactKind, Artifacts, Image, images_in
from paictl.deploy.control_plane import FOLDER, master_files
from paictl.deploy.downloads import (
    IMAGES,
    PROXY_UNITS,
    PROXY_VALUES,
    REGISTRIES,
    account_tables,
    direct_hosts,
    mirror_files,
    proxy_files,
)
from paictl.deploy.inventory import Deployment, Machine, Role, host_of, sign_in
from paictl.deploy.kubeadm import merged
from paictl.deploy.manifests import FOREIGN, images_named
from paictl.deploy.node_dns import ADDRESS, METRICS, UNIT
from paictl.deploy.preflight.checking import asked
from paictl.deploy.storage_class import IMAGE
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.inventory import Inventory
from paictl.resources import resource_folder

_CIPHERS: Final = "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com"
"""The fast ones of processors with AES first: hundreds of megabytes go to each host."""
PACK: Final = "/var/lib/paictl-pack.tar"
"""Where the artifacts that a host lacks arrive, in one archive."""
MODULES: Final = ("overlay", "br_netfilter")
SYSCTLS: Final = {
    "net.ipv4.ip_forward": "1",
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
    "fs.inotify.max_user_instances": "8192",
    "fs.inotify.max_user_watches": "524288",
}
_CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "etcd")
"""Images that only masters run."""
_MORE: Final = "/etc/containerd/conf.d"
"""Files whose settings containerd adds to those of config.toml."""
MARK: Final = "# Written by paictl deploy."
OWNED: Final = ("/etc/containerd/certs.d/*/hosts.toml", REGISTRIES, PROXY_VALUES, *PROXY_UNITS)
"""Files that are removed where they begin with the mark and are not wanted any more."""
_UNITS: Final = "/etc/systemd/system"
MODES: Final = {
    "/var/lib/kubelet/config.yaml": "0600",
    "/etc/cni/net.d/10-paictl.conflist": "0600",
    "/etc/kubernetes/*.conf": "0600",
    "/etc/kubernetes/manifests/*.yaml": "0600",
}
"""Files that kubeadm and programs of ours write, and what they let their owner do at most."""
_PRIVATE: Final = ("/hosts.toml", "/kubelet.service", "/10-kubeadm.conf", REGISTRIES, PROXY_VALUES, *PROXY_UNITS)
"""Ends of paths of files that only root reads."""
NVIDIA: Final = f"{_MORE}/paictl-nvidia.toml"
_PLACES: Final = {
    "kubeadm": "/usr/local/bin/kubeadm",
    "kubelet": "/usr/local/bin/kubelet",
    "kubectl": "/usr/local/bin/kubectl",
    "runc": "/usr/local/sbin/runc",
    "containerd": "/usr/local",
    "cni-plugins": "/opt/cni/bin",
    "crictl": "/usr/local/bin",
}
"""Where a program goes; of archives the folder that they are unpacked in."""

Values = dict[str, Any]


@frozen
class Archive:
    """An archive of images, and what is in it."""

    artifact: Artifact
    images: tuple[Image, ...]

    @property
    def name(self) -> str:
        """The name of the file."""
        return PurePosixPath(self.artifact.path).name

    def is_for(self, role: Role) -> bool:
        """Whether machines of a role need it."""
        return role is Role.MASTER or not any(_short(image) in _CONTROL_PLANE for image in self.images)


@frozen
class Desired:
    """A deployment with the files it takes: what `desired_of` has made of both."""

    deployment: Deployment
    artifacts: Artifacts
    version: str
    archives: tuple[Archive, ...]

    @property
    def images(self) -> tuple[Image, ...]:
        """All images of the archives."""
        return tuple(image for archive in self.archives for image in archive.images)

    def programs(self) -> list[Values]:
        """What every host has, as the module paictl_programs takes it."""
        programs = []
        for name, place in _PLACES.items():
            artifact = self.artifacts.need(name)
            file = PurePosixPath(artifact.path).name
            programs.append(
                {"name": name, "kind": artifact.kind.value, "file": file, "sha256": artifact.sha256, "to": place}
            )
        return programs

    def for_images(self, role: Role) -> list[Values]:
        """The archives of a role, as the module paictl_images takes them."""
        return [
            {
                "archive": archive.name,
                "sha256": archive.artifact.sha256,
                "images": [{"reference": image.reference, "id": image.id} for image in archive.images],
            }
            for archive in self.archives
            if archive.is_for(role)
        ]

    def files(self, machine: Machine) -> list[Values]:
        """Files that a machine has, with their content and mode."""
        deployment = self.deployment
        files = {
            "/etc/containerd/config.toml": containerd_toml(self),
            "/etc/systemd/system/containerd.service": _file("containerd.service", OOM=_oom(deployment)),
            "/etc/systemd/system/kubelet.service": _file("kubelet.service"),
            "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": _file("10-kubeadm.conf"),
            "/etc/crictl.yaml": "runtime-endpoint: unix:///run/containerd/containerd.sock\n",
            "/etc/modules-load.d/paictl.conf": "".join(f"{name}\n" for name in MODULES),
            "/etc/sysctl.d/90-paictl.conf": "".join(f"{name} = {value}\n" for name, value in SYSCTLS.items()),
            **_downloads(self),
        }
        if deployment.settings.network == "bridge":
            files["/usr/local/lib/paictl/paictl_network.py"] = _file("paictl_network.py")
            files["/etc/systemd/system/paictl-network.service"] = _file("paictl-network.service", NODE=machine.name)
            files["/usr/local/lib/paictl/paictl_firewall.py"] = _file("paictl_firewall.py")
            files["/etc/systemd/system/paictl-firewall.service"] = _firewall(deployment, machine)
        if deployment.settings.node_dns:
            files[f"{_UNITS}/{UNIT}.service"] = _file(f"{UNIT}.service", ADDRESS=ADDRESS)
        if deployment.settings.api_address and machine.role is Role.MASTER:
            files["/usr/local/lib/paictl/paictl_address.py"] = _file("paictl_address.py")
            files["/etc/systemd/system/paictl-address.service"] = _file("paictl-address.service")
            files["/etc/paictl/address.json"] = _address(deployment, machine)
        if machine.role is Role.MASTER:
            files |= master_files(deployment.settings.hardening)
            files["/usr/local/lib/paictl/paictl_certificates.py"] = _file("paictl_certificates.py")
            files[f"{_UNITS}/paictl-certificates.service"] = _file("paictl-certificates.service", NODE=machine.name)
        return [{"path": path, "content": content, "mode": _mode(path)} for path, content in sorted(files.items())]

    def units(self, machine: Machine) -> list[str]:
        """Units that run from the beginning, beside containerd and kubelet."""
        settings = self.deployment.settings
        units = ["paictl-network", "paictl-firewall"] if settings.network == "bridge" else []
        units += [UNIT] if settings.node_dns else []
        if machine.role is Role.MASTER:
            units += ["paictl-certificates", *(["paictl-address"] if settings.api_address else [])]
        return units

    def variables(self, machine: Machine) -> Values:
        """What playbooks know about a machine; no secrets."""
        return {
            "paictl_node": machine.name,
            "paictl_asked": asked(self.deployment, machine, quick=True),
            "paictl_files": self.files(machine),
            "paictl_images": self.for_images(machine.role),
            "paictl_units": self.units(machine),
        }

    def inventory(self) -> Inventory:
        """The machines for playbooks: groups `masters`, `first`, `others` (further masters) and `workers`."""
        deployment = self.deployment
        shared = {
            "paictl_programs": self.programs(),
            "paictl_modules": list(MODULES),
            "paictl_sysctls": SYSCTLS,
            "paictl_swap_allowed": deployment.settings.swap_allowed,
            "paictl_pack": PACK,
            "paictl_cluster": deployment.settings.cluster,
            "paictl_owned": list(OWNED),
            "paictl_modes": MODES,
            "paictl_encrypts": deployment.settings.encrypts,
            "ansible_ssh_extra_args": f"-c {_CIPHERS}",
        }
        hosts = tuple(host_of(deployment, machine, self.variables(machine)) for machine in deployment.machines)
        return Inventory(hosts, sign_in(deployment.login), shared)


def _mode(path: str) -> str:
    private = path.endswith(_PRIVATE) or path.startswith(f"{FOLDER}/")
    return "0600" if private else "0644"


def desired_of(deployment: Deployment, artifacts: Artifacts) -> Desired:
    """Put a deployment and a folder of artifacts together; raises `PaictlError` where something needed is not there."""
    version = artifacts.version(deployment.settings.version)
    desired = Desired(
        deployment,
        artifacts,
        version,
        tuple(Archive(artifact, images_in(artifacts.file(artifact))) for artifact in artifacts.of(ArtifactKind.IMAGE)),
    )
    desired.programs()  # which says what is missing
    network = deployment.settings.network
    if network in FOREIGN:
        _need_images(desired, network, images_named(artifacts.file(artifacts.need(network))))
    if deployment.settings.storage_class is not None:
        _need_images(desired, "storage_class", (IMAGE,))
    return desired


def _need_images(desired: Desired, source: str, images: Sequence[str]) -> None:
    """Raise `PaictlError` where no machine reaches a registry and no archive has the images of what a key asks for."""
    if not desired.deployment.settings.offline:
        return
    available = {image.reference for image in desired.images}
    if lacking := [image for image in images if image not in available]:
        message = text(
            "{network} needs images that are not among the artifacts: {images}",
            network=source,
            images=", ".join(lacking),
        )
        hint = text("put archives of them into images/ of the folder, or write offline: false")
        raise PaictlError(message, where=desired.artifacts.where, hint=hint)


def _short(image: Image) -> str:
    return image.reference.rpartition("/")[2].partition(":")[0]


@cache
def _text(name: str) -> str:
    return (resource_folder("playbooks") / "files" / name).read_text(encoding="utf-8")


def _file(name: str, **words: str) -> str:
    return _replaced(_text(name), {f"@{word}@": value for word, value in words.items()})


def _firewall(deployment: Deployment, machine: Machine) -> str:
    settings = deployment.settings
    own = {settings.login.access(machine.name).port, *([METRICS] if settings.node_dns else [])}
    ports = {*settings.closed_ports, *own} if settings.closed_ports else ()
    return _file(
        "paictl-firewall.service",
        NODE=machine.name,
        PORTS=" ".join(map(str, sorted(ports))),
        NAMESPACES=" ".join(settings.exempt_namespaces),
        SHARED=settings.api_address,
    )


def _oom(deployment: Deployment) -> str:
    """containerd cannot lower its score where it may not raise it again."""
    return "0" if deployment.settings.containerd.get("restrict_oom_score_adj") else "-999"


def _address(deployment: Deployment, machine: Machine) -> str:
    masters = [{"name": master.name, "address": master.address} for master in deployment.masters]
    data = {"address": deployment.settings.api_address, "name": machine.name, "masters": masters}
    return json.dumps(data, indent=1) + "\n"


def _downloads(desired: Desired) -> dict[str, str]:
    """Files that say how images are downloaded."""
    deployment = desired.deployment
    settings = deployment.settings
    files = mirror_files(settings.mirrors, settings.insecure, MARK)
    if settings.accounts:
        number = desired.artifacts.need("containerd").version.removeprefix("v")
        tables = account_tables(settings.accounts, number, desired.artifacts.where)
        files[REGISTRIES] = toml({"version": _form(*_parts(number))}, {("plugins",): tables})
    if settings.proxies is not None:
        addresses = [machine.address for machine in deployment.machines]
        host = deployment.endpoint.rpartition(":")[0].strip("[]")
        direct = direct_hosts(settings.domain, (settings.pods, settings.services), addresses, (host,))
        files |= proxy_files(settings.proxies, direct, MARK)
    return files


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, other in words.items():
        text = text.replace(word, other)
    return text


def containerd_toml(desired: Desired) -> str:
    """containerd's configuration in the form of its version; raises `PaictlError` for one that is too old."""
    number = desired.artifacts.need("containerd").version.removeprefix("v")
    major, minor = _parts(number)
    if major < 2:
        hint = "Kubernetes 1.36 and later need containerd 2"
        raise PaictlError(
            text("containerd {number} is too old", number=number), where=desired.artifacts.where, hint=hint
        )
    settings = desired.deployment.settings
    driver = settings.kubelet.get("cgroupDriver", "systemd")
    pause = next((image.reference for image in desired.images if _short(image) == "pause"), "")
    runc = {
        "runtime_type": "io.containerd.runc.v2",
        "options": {
            "BinaryName": "/usr/local/sbin/runc",
            "SystemdCgroup": driver == "systemd",
        },
    }
    runtime = {
        "cni": {"bin_dirs": ["/opt/cni/bin"], "conf_dir": "/etc/cni/net.d"},
        "containerd": {"runtimes": {"runc": runc}},
    }
    images: Values = {"registry": {"config_path": "/etc/containerd/certs.d"}}
    if pause:
        images["pinned_images"] = {"sandbox": pause}
    plugins = {
        IMAGES: images,
        "io.containerd.cri.v1.runtime": merged(runtime, settings.containerd),
    }
    return toml({"version": _form(major, minor), "imports": [f"{_MORE}/*.toml"]}, {("plugins",): plugins})


def nvidia_toml(desired: Desired) -> str:
    """Additional containerd settings of a host with GPUs: containers start with NVIDIA's runtime.

    Jobs name their devices in `NVIDIA_VISIBLE_DEVICES`, as the scheduler chose them; runc alone would give them none.
    """
    cgroups = desired.deployment.settings.kubelet.get("cgroupDriver", "systemd")
    options = {"BinaryName": "/usr/bin/nvidia-container-runtime", "SystemdCgroup": cgroups == "systemd"}
    own = {
        "default_runtime_name": "nvidia",
        "runtimes": {"nvidia": {"runtime_type": "io.containerd.runc.v2", "options": options}},
    }
    version = _form(*_parts(desired.artifacts.need("containerd").version.removeprefix("v")))
    return toml({"version": version}, {("plugins",): {"io.containerd.cri.v1.runtime": {"containerd": own}}})


def _form(major: int, minor: int) -> int:
    """The version of the configuration that a containerd writes itself."""
    return 4 if (major, minor) >= (2, 3) else 3


def _parts(number: str) -> tuple[int, int]:
    major, minor = number.split(".")[:2]
    return int(major), int(minor)


def toml(top: Mapping[str, Any], tables: Mapping[tuple[str, ...], Mapping[str, Any]]) -> str:
    """Settings as TOML: strings, numbers, booleans and lists of them; mappings become tables of their own."""
    lines = [MARK, *(f"{name} = {_toml_value(value)}" for name, value in top.items())]
    waiting = list(tables.items())
    while waiting:
        path, values = waiting.pop(0)
        deeper = [((*path, name), value) for name, value in values.items() if isinstance(value, Mapping)]
        waiting[:0] = deeper
        plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
        if plain or not deeper:
            lines += ["", f"[{'.'.join(json.dumps(part) for part in path)}]"]
            lines += [f"{json.dumps(name)} = {_toml_value(value)}" for name, value in plain.items()]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)
