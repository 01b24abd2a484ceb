"""Cluster settings: the values that are really filled in, and the networks of the cluster."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TypeAlias

from paictl.config.models import per_document
from paictl.config.models.placeholders import is_placeholder
from paictl.config.reading.document import Document
from paictl.config.reading.nodes import ScalarNode, SequenceNode
from paictl.frozen import frozen
from paictl.i18n import text

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

EXTRA = "openpai_kubespray_extra_var"
NETWORK_DEFAULTS = {"kube_service_addresses": "10.192.0.0/13", "kube_pods_subnet": "10.200.0.0/13"}
"""The networks that OpenPAI's quick-start hands to Kubespray: of services and of pods."""


_OF_THE_SYSTEM = (
    "bin",
    "boot",
    "dev",
    "etc",
    "lib",
    "lib64",
    "proc",
    "root",
    "run",
    "sbin",
    "sys",
    "usr",
    "var/lib/containerd",
    "var/lib/etcd",
    "var/lib/kubelet",
    "var/lib/paictl",
)


def belongs_to_the_system(path: str) -> bool:
    """Whether a folder is one of Linux or Kubernetes, or below one, where no data of others belong."""
    return any(f"{path}/".startswith(f"/{folder}/") for folder in _OF_THE_SYSTEM)


@frozen
class ClusterNetwork:
    """A network inside the cluster; `at` is None where the default applies."""

    name: str
    network: Network
    at: ScalarNode | None

    @property
    def words(self) -> str:
        """The network for a message."""
        written = f"{self.name} {self.network}"
        return written if self.at else text("{network} (the default)", network=written)


def filled(document: Document, key: str) -> ScalarNode | None:
    """The value of a setting if it is a string with something in it, and no placeholder."""
    scalar = document.top.text(key)
    return scalar if scalar and scalar.text.strip() and not is_placeholder(scalar.text) else None


def filled_items(document: Document, key: str) -> Iterator[ScalarNode]:
    """The strings of a setting that is a list."""
    value = document.top.get(key)
    for item in value.scalars() if isinstance(value, SequenceNode) else ():
        if isinstance(item.value, str) and item.text.strip() and not is_placeholder(item.text):
            yield item


def network_of(text: str) -> Network | None:
    """The network that a text is, or None; bits behind the prefix must be zero."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


@per_document
def cluster_networks(document: Document) -> tuple[ClusterNetwork, ...]:
    """The networks of services and pods, as written or by default; one that is written badly is left out."""
    extra = document.top.mapping(EXTRA)
    networks: list[ClusterNetwork] = []
    for name, default in NETWORK_DEFAULTS.items():
        at = extra.scalar(name)
        network = network_of(at.text if at else default)
        if network is not None:
            networks.append(ClusterNetwork(name, network, at))
    return tuple(networks)


def ports_of_host_daemons(document: Document) -> tuple[int, int]:
    """First and last port that programs of the hosts may take, as written or by default."""
    top = document.top
    start, end = top.integer("host_daemon_port_start"), top.integer("host_daemon_port_end")
    return (40000 if start is None else start, 65535 if end is None else end)
