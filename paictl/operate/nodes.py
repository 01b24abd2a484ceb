"""Nodes: found by name, changed, added, removed."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from paictl.cluster.interface import (
    ClusterError,
    Configuration,
    MachineSpec,
    NodeChange,
    NodeRole,
    Nodes,
    NodeView,
)
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


class MembersPorts(Nodes, Configuration, Protocol):
    """What is needed of a cluster to add a worker."""


def add_worker(
    cluster: MembersPorts, name: str, address: str | None = None, *, like: str | None = None, sku: str | None = None
) -> NodeView:
    """A worker joins that has what the node `like` has, or what `sku` says (as `config generate` takes it).

    What is not given is as in the layout of the cluster's configuration. Raises `PaictlError` for what is no host name
    or address, or where nothing says what the machine is, `ConflictError` for a name or address that is taken.
    """
    if like is not None and sku is not None:
        raise PaictlError("--like and --sku both say what the machine has", hint="give one of the two")
    listed = _listed_worker(cluster, name) if address is None or like is sku else None
    address = address or (listed.address if listed else "")
    if not address:
        raise PaictlError(
            text("the configuration does not say where {name} is", name=name),
            hint="--address ADDRESS; or -m -w -c for a real cluster",
        )
    check_machine(name, address)
    if like is not None:
        machine = find_node(cluster, like).machine
    elif sku is not None:
        machine = _machine_of(sku)
    elif listed is not None:
        machine = listed
    else:
        raise PaictlError("specify what the machine has", hint="--like NODE, or --sku NAME=gpu:8,cpu:96,memory:900Gi")
    return cluster.add_node(replace(machine, name=name, address=address, role=NodeRole.WORKER))


def _listed_worker(cluster: Configuration, name: str) -> MachineSpec | None:
    """The machine of a name in the newest layout."""
    from paictl.cluster.machines import machines_in  # late: of these commands, only this one reads YAML

    versions = cluster.configurations()
    machines = machines_in(versions[-1].files) if versions else []
    return next((machine for machine in machines if machine.name == name), None)


def _machine_of(sku: str) -> MachineSpec:
    has = parse_sku(sku)
    device = has.device_type if has.devices else ""
    return MachineSpec("", "", NodeRole.WORKER, has.name, has.cpus, has.memory.bytes, device, has.devices)


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
