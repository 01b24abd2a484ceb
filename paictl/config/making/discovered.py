"""What was read of a running cluster that a configuration can be drafted from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import Final

from paictl.frozen import frozen
from paictl.i18n import text

QUOTA: Final = "ResourceQuota"
"""The kind of a share that has its namespace's name."""


@frozen
class DiscoveredNode:
    """A node with devices. `cpus` and `memory` (MiB) are what it can allocate."""

    name: str
    resource: str
    """How pods ask for its devices, as ``nvidia.com/gpu``."""
    devices: int
    cpus: Decimal
    memory: int
    model: str = ""
    """Of its devices; empty if nobody says."""
    labels: Mapping[str, str] = field(default_factory=dict)
    per_switch: int = 0
    """Devices under one PCIe root, if all have as many, or instances of one GPU; 0 if nobody says or they differ."""
    instances: int = 0
    """MIG instances that each of its GPUs seems to be divided into, if its devices are these; else 0."""
    profile: str = ""
    """Their profile, as ``1g.10gb``."""
    guessed: bool = False
    """Whether `instances` is only one of several numbers that its devices would allow."""


@frozen
class Ask:
    """Devices of a quota: of nodes with these labels, by this resource (empty: any)."""

    devices: int
    resource: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@frozen
class DiscoveredShare:
    """What somebody was given: a queue, or the quota of a namespace."""

    kind: str
    name: str
    asks: tuple[Ask, ...]
    namespaces: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Its kind and name."""
        return titled(self.kind, self.name)


def titled(kind: str, names: str) -> str:
    """One or more shares of a kind, for a message."""
    return text("ResourceQuota of {names}", names=names) if kind == QUOTA else f"{kind} {names}"


@frozen
class DiscoveredTopology:
    """A topology that another scheduler was told: labels of nodes from the widest domain down."""

    kind: str
    name: str
    levels: tuple[str, ...]


@frozen
class DiscoveredCluster:
    """What was read of a cluster; `remarks` is what was seen and cannot be used."""

    nodes: tuple[DiscoveredNode, ...]
    topologies: tuple[DiscoveredTopology, ...] = ()
    shares: tuple[DiscoveredShare, ...] = ()
    remarks: tuple[str, ...] = ()
