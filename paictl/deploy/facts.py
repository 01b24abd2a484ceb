"""What was found on hosts, and in what each differs from what it shall be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.deploy.inventory import Machine
from paictl.frozen import frozen

NVIDIA: Final = "0x10de"
"""How the PCI bus calls NVIDIA."""


def runs_own_driver(host: Mapping[str, Any]) -> bool:
    """Whether a host runs a GPU driver that the service `gpu-driver` has not installed, or has one on its disk."""
    gpus = host["gpus"]
    if not gpus.get("driver"):
        return False
    return bool(gpus.get("own")) or gpus["driver"] not in gpus.get("installed", ())


@frozen
class HostFacts:
    """One host as the module paictl_facts saw it."""

    machine: Machine
    values: Mapping[str, Any]

    def lacks(self, *kinds: str) -> list[str]:
        """Differences of some kinds (programs, files, modes, images, pins, modules, sysctls, swap), one line a kind."""
        differences = self.values.get("differences") or {}
        return [f"{kind}: {', '.join(differences[kind])}" for kind in kinds if differences.get(kind)]

    def joined(self, cluster: str) -> bool:
        """Whether the host is in this cluster, to the end."""
        return bool(self.values.get("done") == cluster and "/etc/kubernetes/kubelet.conf" in self.values["kubernetes"])

    @property
    def version(self) -> str:
        """The version of kubelet on a host that has joined a cluster to the end; empty elsewhere."""
        return str(self.values.get("kubelet") or "")

    def runs(self, unit: str) -> bool:
        """Whether a unit is active."""
        return bool((self.values.get("units") or {}).get(unit) == "active")

    @property
    def host(self) -> Mapping[str, Any]:
        """What the host is, as `paictl_gather` tells it; the checks of `preflight` judge it."""
        host: Mapping[str, Any] = self.values["host"]
        return host

    @property
    def has_own_driver(self) -> bool:
        """Whether a GPU driver is loaded that the service `gpu-driver` has not installed."""
        return runs_own_driver(self.host)

    @property
    def gpus(self) -> int:
        """NVIDIA's GPUs on the host's bus."""
        return sum(device["vendor"] == NVIDIA for device in self.host["gpus"]["devices"])
