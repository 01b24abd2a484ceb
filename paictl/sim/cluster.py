"""Typed devices in a tree of levels. Which are free is tracked elsewhere: by each placement, and by the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from paictl.errors import PaictlError
from paictl.frozen import frozen

Devices = tuple[int, ...]
"""Device numbers, ascending; devices are numbered in the order of the tree, so that neighbours are near."""


class ClusterShapeError(PaictlError, ValueError):
    """An impossible cluster."""


@frozen
class Node:
    """A machine: devices of one type, in equal groups of equal groups."""

    name: str
    devices: int
    type: str = "gpu"
    inner: tuple[tuple[str, int], ...] = ()
    """Levels inside, widest first, each with the devices of one group: (("socket", 4), ("pcie", 2))."""
    outer: tuple[tuple[str, str], ...] = ()
    """Levels around, nearest first, each with the name of the group: (("rack", "r1"), ("domain", "d1"))."""
    cpu_milli: int = 0
    """Thousandths of its cores; 0: unlimited."""
    memory_mib: int = 0
    """Its memory; 0: unlimited."""


@frozen
class ClusterShape:
    """A `--cluster` option as read. The engine runs on `Cluster(spec)`."""

    text: str
    """As the user wrote it."""
    nodes: tuple[Node, ...]
    quotas: Mapping[str, int] = field(default_factory=dict)
    """Devices promised to each VC; empty: no promises."""
    quotas_by_type: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """The same by device type, if the promises are by type."""
    hived: str | None = None
    """The HiveD configuration (YAML text) that it is from, for `hived`."""
    sharing: str | None = None
    """The part of the section `sharing` beside it (YAML text) that `hived` obeys; None without one."""


def homogeneous(nodes: int, devices: int, type: str = "gpu", text: str = "") -> ClusterShape:  # noqa: A002 the field
    """`nodes` machines with `devices` each, without racks."""
    return mixed([(type, nodes, devices)], text or f"{nodes}x{devices}")


def mixed(rows: Sequence[tuple[str, int, int]], text: str = "") -> ClusterShape:
    """Machines of several types: rows of (type, nodes, devices of each)."""
    if any(nodes < 1 or devices < 1 for _, nodes, devices in rows) or not rows:
        raise ClusterShapeError(
            "a cluster needs at least one node, and each node at least one device", where=text or None
        )
    machines = [
        Node(f"{kind}-{number}", devices, kind) for kind, nodes, devices in rows for number in range(1, nodes + 1)
    ]
    return ClusterShape(text or ",".join(f"{kind}={nodes}x{devices}" for kind, nodes, devices in rows), tuple(machines))


class Cluster:
    """The tree, with dense numbers.

    `node_of[d]` is the number of the node of device d; `groups[level][d]` the number of its group of that level;
    `levels` are the names from the inside out (the last one, `cluster`, holds all).
    """

    __slots__ = ("first", "groups", "levels", "node_of", "nodes", "size", "spec", "type_of", "types")

    def __init__(self, spec: ClusterShape) -> None:
        self.spec = spec
        self.nodes = spec.nodes
        self.first: list[int] = []
        """First device of each node."""
        self.node_of: list[int] = []
        self.type_of: list[str] = []
        for number, node in enumerate(spec.nodes):
            self.first.append(len(self.node_of))
            self.node_of += [number] * node.devices
            self.type_of += [node.type] * node.devices
        self.size = len(self.node_of)
        self.types: dict[str, int] = {}
        """Devices by type, in the order of the configuration."""
        for node in spec.nodes:
            self.types[node.type] = self.types.get(node.type, 0) + node.devices
        inner = list(dict.fromkeys(level for node in spec.nodes for level, _ in reversed(node.inner)))
        outer = list(dict.fromkeys(level for node in spec.nodes for level, _ in node.outer))
        self.groups: dict[str, list[int]] = {level: self._inner_groups(level) for level in inner}
        self.groups["node"] = self.node_of
        self.groups |= {level: self._outer_groups(level) for level in outer}
        self.levels = (*self.groups, "cluster")

    def devices_of(self, node: int) -> range:
        """The devices of a node, by its number."""
        return range(self.first[node], self.first[node] + self.nodes[node].devices)

    def level(self, devices: Devices) -> str:
        """The smallest level that holds all of them; `device` for a single one."""
        if len(devices) == 1:
            return "device"
        for level, groups in self.groups.items():
            group = groups[devices[0]]
            if groups[devices[-1]] == group and all(groups[device] == group for device in devices):
                return level
        return "cluster"

    def spread(self, devices: Devices) -> int:
        """How many nodes they are on."""
        node_of = self.node_of
        if len(devices) == 1 or node_of[devices[0]] == node_of[devices[-1]]:
            return 1
        return len({node_of[device] for device in devices})

    def _inner_groups(self, level: str) -> list[int]:
        group_of: list[int] = []
        group = -1
        for node in self.nodes:
            size = dict(node.inner).get(level, node.devices)
            for device in range(node.devices):
                if device % size == 0:
                    group += 1
                group_of.append(group)
        return group_of

    def _outer_groups(self, level: str) -> list[int]:
        names: dict[str, int] = {}
        group_of: list[int] = []
        for number, node in enumerate(self.nodes):
            name = dict(node.outer).get(
                level, f"\0{number}"
            )  # a node outside all groups of the level is a group of its own
            group = names.setdefault(name, len(names))
            group_of += [group] * node.devices
        return group_of
