"""What was found on hosts, and what follows from it: what each lacks, and why some must not be touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from paictl.deploy.inventory import Machine, Role

ARCHITECTURES: Final = ("amd64", "arm64")
FAMILIES: Final = ("debian", "ubuntu", "rhel", "fedora", "centos", "rocky", "almalinux")
LEAST_KERNEL: Final = (5, 4)
_GIB: Final = 1024**3
LEAST_MEMORY: Final = {Role.MASTER: int(1.7 * _GIB), Role.WORKER: int(0.7 * _GIB)}
LEAST_FREE: Final = 4 * _GIB
"""What programs, images and logs of a fresh node take, twice."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host as the module paictl_facts saw it."""

    machine: Machine
    values: Mapping[str, Any]

    def lacks(self, *kinds: str) -> list[str]:
        """What of some kinds (programs, files, images, modules, sysctls, swap) is not as it shall be."""
        found = self.values.get("differences") or {}
        return [f"{kind}: {', '.join(found[kind])}" for kind in kinds if found.get(kind)]

    def joined(self, cluster: str) -> bool:
        """Whether the host is in this cluster, to the end."""
        return bool(self.values.get("done") == cluster and "/etc/kubernetes/kubelet.conf" in self.values["kubernetes"])

    def runs(self, unit: str) -> bool:
        """Whether a unit is active."""
        return bool((self.values.get("units") or {}).get(unit) == "active")

    @property
    def gpus(self) -> int:
        """NVIDIA's GPUs on the host's bus."""
        return len(self.values.get("gpus") or ())


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a host cannot become part of the cluster, and what to do."""

    host: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.host}: {self.message}"


def obstacles(facts: HostFacts, cluster: str) -> Iterator[Obstacle]:
    """All reasons why a host must not be touched; the full list of checks is `paictl deploy check`."""
    name, values = facts.machine.name, facts.values
    begun = values.get("begun") or ""
    if begun not in ("", cluster):
        hint = f"take it out first: paictl deploy reset --node {name}, with the files of {begun}"
        yield Obstacle(name, f"belongs to the cluster {begun}", hint)
    elif values["kubernetes"] and not begun:
        said = f"has another Kubernetes ({', '.join(values['kubernetes'])})"
        yield Obstacle(name, said, "if it is not needed any more: kubeadm reset on that host")
    if values["arch"] not in ARCHITECTURES:
        yield Obstacle(name, f"has the architecture {values['arch']}", f"known are {', '.join(ARCHITECTURES)}")
    family = {values["os"]["id"], *values["os"]["like"].split()}
    if not family & set(FAMILIES):
        yield Obstacle(name, f"runs {values['os']['id'] or 'an unknown system'}", "take Debian, Ubuntu or RHEL 9")
    if not values["systemd"]:
        yield Obstacle(name, "does not run systemd", "containerd and kubelet are started by it")
    if _kernel(values["kernel"]) < LEAST_KERNEL:
        yield Obstacle(name, f"has kernel {values['kernel']}", "5.4 or newer is needed")
    yield from _too_small(facts)
    if facts.gpus and not values.get("driver"):
        hint = "install it and start the host anew: apt install nvidia-driver, or dnf module install nvidia-driver"
        yield Obstacle(name, f"has {facts.gpus} GPUs and no driver of NVIDIA", hint)


def _too_small(facts: HostFacts) -> Iterator[Obstacle]:
    least = LEAST_MEMORY[facts.machine.role]
    if facts.values["memory"] < least:
        said = f"has {facts.values['memory'] / _GIB:.1f} GiB of memory"
        yield Obstacle(facts.machine.name, said, f"a {facts.machine.role} needs {least / _GIB:.1f}")
    if facts.lacks("programs", "images"):
        for path, free in facts.values["free"].items():
            if path != "/etc" and free < LEAST_FREE:
                said = f"has {free / _GIB:.1f} GiB free below {path}"
                yield Obstacle(facts.machine.name, said, f"{LEAST_FREE // _GIB} GiB are needed")


def _kernel(release: str) -> tuple[int, ...]:
    numbers = [part for part in release.replace("-", ".").split(".")[:2] if part.isdigit()]
    return tuple(map(int, numbers))
