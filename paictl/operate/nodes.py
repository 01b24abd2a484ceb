"""Nodes: found by name, changed, added, removed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import replace

from paictl.cluster.interface import ClusterError, MachineSpec, NodeChange, NodeRole, Nodes, NodeView
from paictl.config.making.skus import parse_sku
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text


@frozen
class Changed:
    """A node before and after a change; both are the same where it was so already."""

    before: NodeView
    after: NodeView


def find_node(cluster: Nodes, name: str) -> NodeView:
    """The node of a name; raises `ClusterError` with the nearest name if there is none."""
    return _among({node.machine.name: node for node in cluster.nodes()}, name)


def _among(nodes: dict[str, NodeView], name: str) -> NodeView:
    if name not in nodes:
        hint = did_you_mean(name, nodes) or "list them with: paictl node list"
        raise ClusterError(text("no node {name!r}", name=name), hint=hint)
    return nodes[name]


def change_nodes(cluster: Nodes, names: Sequence[str], change: NodeChange) -> tuple[Changed, ...]:
    """Change nodes, in the order in which they are named; nothing is changed where one of the names is wrong."""
    nodes = {node.machine.name: node for node in cluster.nodes()}
    before = {name: _among(nodes, name) for name in names}
    return tuple(Changed(view, cluster.set_node(name, change)) for name, view in before.items())


@frozen
class ChangedDevices(Changed):
    """A node and the numbers of its devices that were changed."""

    devices: tuple[int, ...]


def change_devices(
    cluster: Nodes, names: Sequence[str], change: NodeChange, devices: Sequence[str]
) -> list[ChangedDevices]:
    """Let devices of nodes fail or heal, each by its number or as ``GPU:instance``.

    Nothing is changed where a name or a device is wrong.
    """
    nodes = {node.machine.name: node for node in cluster.nodes()}
    before = {name: _among(nodes, name) for name in names}
    devices_by_node = {name: tuple(sorted({view.device(word) for word in devices})) for name, view in before.items()}
    return [
        ChangedDevices(view, cluster.set_devices(name, change, devices_by_node[name]), devices_by_node[name])
        for name, view in before.items()
    ]


def add_worker(cluster: Nodes, name: str, address: str, *, like: str | None = None, sku: str | None = None) -> NodeView:
    """A worker joins that has what the node `like` has, or what `sku` says (as `config generate` takes it).

    Raises `PaictlError` for what is no host name or address, `ConflictError` for one that is taken.
    """
    check_machine(name, address)
    if (like is None) == (sku is None):
        raise PaictlError("specify what the machine has", hint="--like NODE, or --sku NAME=gpu:8,cpu:96,memory:900Gi")
    if like is not None:
        return cluster.add_node(
            replace(find_node(cluster, like).machine, name=name, address=address, role=NodeRole.WORKER)
        )
    has = parse_sku(sku or "")
    return cluster.add_node(
        MachineSpec(
            name,
            address,
            NodeRole.WORKER,
            has.name,
            has.cpus,
            has.memory.bytes,
            has.device_type if has.devices else "",
            has.devices,
        )
    )


def check_machine(name: str, address: str) -> None:
    """Raise `PaictlError` for what is no host name or no address."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", name):
        raise PaictlError(
            text("{name!r} is not a valid host name", name=name), hint="use lower-case letters, digits, '-' and '.'"
        )
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise PaictlError(text("{address!r} is not a valid IP address", address=address)) from None
