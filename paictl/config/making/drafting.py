"""What a running cluster has → a draft of its HiveD configuration.

Cells follow the topology that labels of nodes tell, tenants the quotas that other schedulers were given. Nothing is
guessed in silence: what the cluster does not say is a question, what cells cannot express a remark. The same cluster
gives the same draft.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from paictl.config.making.discovered import Ask, DiscoveredCluster, DiscoveredNode, DiscoveredShare
from paictl.config.making.shapes import (
    CellShape,
    DraftCell,
    DraftType,
    joined,
    level_names,
    name_types,
    natural,
    useful,
    word,
)
from paictl.config.making.skus import free_cpus, free_memory
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import listed, text

_NVIDIA: Final = "network.topology.nvidia.com"
FAMILIES: Final = (
    tuple(f"{_NVIDIA}/{level}" for level in ("core", "datacenter", "spine", "block", "leaf", "accelerator")),
    tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock")),
    tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)),
    tuple(f"oci.oraclecloud.com/rdma.{level}_id" for level in ("hpc_island", "network_block", "local_block")),
    ("cloud.provider.com/topology-block", "cloud.provider.com/topology-rack"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/rack"),
)
"""Labels of nodes that tell where they are, from the widest domain down, as their vendors name them."""


@frozen
class DraftTenant:
    """A virtual cluster: cells by their path (``RACK.NODE``), and what it stands for."""

    name: str
    cells: Mapping[str, int]
    source: str = ""
    namespaces: tuple[str, ...] = ()


@frozen
class Draft:
    """A configuration, and what an administrator should look at before it is used."""

    skus: Mapping[str, tuple[int, int]]
    """CPUs and memory (MiB) for one device, by leaf cell type."""
    types: Mapping[str, DraftType]
    cells: tuple[DraftCell, ...]
    tenants: tuple[DraftTenant, ...]
    questions: tuple[str, ...]
    remarks: tuple[str, ...]
    mig: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """MIG instances of a GPU and their profile, by leaf cell type, where leaf cells are these."""

    def devices(self, cell_type: str) -> int:
        """Devices of a cell."""
        draft_type = self.types.get(cell_type)
        return 1 if draft_type is None else draft_type.number * self.devices(draft_type.child)


def draft(cluster: DiscoveredCluster, levels: Sequence[str] = (), topology: str = "") -> Draft:
    """Draft a configuration. `levels` are labels of nodes from the widest domain down, instead of those that are found.

    Raises `PaictlError` if no node has devices, a node lacks one of the `levels`, or there is no such `topology`.
    """
    if not cluster.nodes:
        raise PaictlError(
            "no node has devices", hint="is the device plugin or the DRA driver running? kubectl describe nodes"
        )
    nodes = sorted(cluster.nodes, key=lambda node: natural(node.name))
    maker = _Maker(cluster, _levels(cluster, levels, topology))
    for leaf in sorted({maker.leaf_of(node) for node in nodes}):
        maker.add([node for node in nodes if maker.leaf_of(node) == leaf], leaf)
    maker.promise()
    return maker.result()


def _levels(cluster: DiscoveredCluster, levels: Sequence[str], topology: str) -> tuple[str, ...] | None:
    """The labels to go by; None if the known families are to be tried for each kind of device."""
    if levels:
        for label in levels:
            lacking = [node.name for node in cluster.nodes if label not in node.labels]
            if lacking:
                raise PaictlError(
                    text("nodes without the label {label}: {nodes}", label=label, nodes=_some(lacking)), where="--level"
                )
        return tuple(levels)
    named = [candidate for candidate in cluster.topologies if topology in ("", candidate.name)]
    if topology and not named:
        known = ", ".join(topology.name for topology in cluster.topologies)
        raise PaictlError(
            text("no topology {topology}", topology=topology),
            where="--topology",
            hint=text("one of: {known}", known=known) if known else None,
        )
    return named[0].levels if len(named) == 1 else None


@dataclass
class _Chain:
    """Cells of one type at the top: how many of each level are free, by the buddy rule."""

    types: tuple[str, ...]
    """From the top down to the leaf."""
    leaves: tuple[int, ...]
    """Devices of a cell of each."""
    free: list[int]
    nodes: list[DiscoveredNode]

    def take(self, wanted: int) -> dict[str, int]:
        """Take cells for so many devices, the largest first; by path."""
        taken: dict[str, int] = {}
        for level, size in enumerate(self.leaves):
            while wanted >= size and self._split_to(level):
                self.free[level] -= 1
                wanted -= size
                path = ".".join(self.types[: level + 1])
                taken[path] = taken.get(path, 0) + 1
        return taken

    def _split_to(self, level: int) -> bool:
        """Have a free cell at a level, by splitting the smallest larger one; whether there is one."""
        above = next((at for at in range(level, -1, -1) if self.free[at]), None)
        if above is None:
            return False
        for at in range(above, level):
            self.free[at] -= 1
            self.free[at + 1] += self.leaves[at] // self.leaves[at + 1]
        return True

    @property
    def left(self) -> int:
        """Devices that nobody has."""
        return sum(number * size for number, size in zip(self.free, self.leaves, strict=True))


class _Maker:
    """Puts a draft together, one kind of device after the other."""

    def __init__(self, cluster: DiscoveredCluster, levels: tuple[str, ...] | None) -> None:
        self.cluster = cluster
        self.levels = levels
        self.skus: dict[str, tuple[int, int]] = {}
        self.mig: dict[str, tuple[int, str]] = {}
        self.types: dict[str, DraftType] = {}
        self.cells: list[DraftCell] = []
        self.chains: dict[str, _Chain] = {}
        self.tenants: list[DraftTenant] = []
        self.questions: list[str] = []
        self.remarks: list[str] = list(cluster.remarks)

    def result(self) -> Draft:
        """The draft."""
        return Draft(
            self.skus,
            self.types,
            tuple(self.cells),
            tuple(self.tenants),
            tuple(self.questions),
            tuple(self.remarks),
            self.mig,
        )

    @staticmethod
    def leaf_of(node: DiscoveredNode) -> str:
        """The leaf cell type of a node's devices: their model, else vendor and kind of the resource."""
        vendor, _, kind = node.resource.partition("/")
        name = word(node.model).removeprefix("NVIDIA-") or word(f"{vendor.split('.')[0]}-{kind}").upper()
        return f"{name}-BY-{node.instances}" if node.guessed else name  # not the cells of nodes that are known

    def add(self, nodes: Sequence[DiscoveredNode], leaf: str) -> None:
        """All nodes with devices of a kind, in their natural order."""
        if not nodes[0].model:
            self.questions.append(
                text(
                    "which model are the devices of {names}? {leaf} is a placeholder",
                    names=_some([node.name for node in nodes]),
                    leaf=leaf,
                )
            )
        self.skus[leaf] = (
            max(1, min(int(free_cpus(node.cpus) / node.devices) for node in nodes)),
            max(1, min(int(free_memory(Decimal(node.memory)) / node.devices) for node in nodes)),
        )
        if nodes[0].instances:
            self._divide(nodes, leaf)
        levels = useful(nodes, self._levels_of(nodes))
        if not levels:
            self.questions.append(
                text(
                    "which nodes with {leaf} are near each other? No label says so, and all form one pool; with "
                    "--level LABEL, or racks written by hand, tenants can have whole racks",
                    leaf=leaf,
                )
            )
        if not all(node.per_switch for node in nodes):
            self.questions.append(
                text(
                    "which devices of a node with {leaf} share a switch? The cluster does not say; a level between "
                    "device and "
                    "node keeps small jobs on devices that are near each other",
                    leaf=leaf,
                )
            )
        shapes = [CellShape.of_node(node, leaf) for node in nodes]
        for label in reversed(levels):
            shapes = self._domains(shapes, label, levels)
        if not levels:
            shapes = joined(shapes, "POOL", "")
        name_types(leaf, shapes)
        self._enter(leaf, shapes)

    def _divide(self, nodes: Sequence[DiscoveredNode], leaf: str) -> None:
        """Leaf cells that are MIG instances; labels do not say how each GPU is divided."""
        self.mig[leaf] = nodes[0].instances, nodes[0].profile
        names, (instances, profile) = _some([node.name for node in nodes]), self.mig[leaf]
        self.questions.append(
            text(
                "into how many MIG instances {profile} is each GPU of {names} divided? {instances} is a guess: "
                "run nvidia-smi -L there, and correct migInstances and cells of {leaf}",
                profile=profile,
                names=names,
                instances=instances,
                leaf=leaf,
            )
            if nodes[0].guessed
            else text(
                "is each GPU of {names} divided into {instances} MIG instances {profile}? Labels only count "
                "those of the whole node; run nvidia-smi -L there",
                names=names,
                instances=instances,
                profile=profile,
            )
        )

    def _levels_of(self, nodes: Sequence[DiscoveredNode]) -> tuple[str, ...]:
        if self.levels is not None:
            return tuple(label for label in self.levels if all(label in node.labels for node in nodes))
        for family in FAMILIES:
            common = tuple(label for label in family if all(label in node.labels for node in nodes))
            if common:
                return common
        return ()

    def _domains(self, shapes: Sequence[CellShape], label: str, levels: Sequence[str]) -> list[CellShape]:
        """Cells of one domain each; where its parts differ, one for each kind of part."""
        upper = levels[: levels.index(label) + 1]
        by_domain: dict[tuple[str, ...], list[CellShape]] = defaultdict(list)
        for shape in shapes:
            by_domain[tuple(shape.labels.get(level, "") for level in upper)].append(shape)
        cells = []
        for domain in sorted(by_domain, key=lambda path: tuple(map(natural, path))):
            parts = joined(by_domain[domain], level_names(levels)[label], domain[-1])
            if len(parts) > 1:
                self.remarks.append(
                    text(
                        "{label} has parts of {count} shapes, and a cell only parts of one: it becomes {count} cells",
                        label=f"{label}={domain[-1]}",
                        count=len(parts),
                    )
                )
            cells += parts
        return cells

    def _enter(self, leaf: str, shapes: Sequence[CellShape]) -> None:
        """The finished cells of a kind of device."""
        for shape in shapes:
            self.cells.append(shape.cell())
            chain = self.chains.get(shape.type)
            if chain is None:
                types, leaves = shape.line(leaf, self.types)
                chain = self.chains[shape.type] = _Chain(types, leaves, [0] * len(types), [])
            chain.free[0] += 1
            chain.nodes += shape.nodes

    # --- tenants

    def promise(self) -> None:
        """Give tenants cells for their quotas, the largest first; without quotas all to one of the name `default`."""
        named = list(zip(_tenant_names(self.cluster.shares), self.cluster.shares, strict=True))
        cells = {}
        for name, share in sorted(named, key=lambda pair: -sum(ask.devices for ask in pair[1].asks)):
            cells[name] = self._cells_for(share)
        for name, share in named:
            if cells[name]:
                self.tenants.append(DraftTenant(name, cells[name], share.title, share.namespaces))
        if not self.tenants:
            everything = {name: chain.free[0] for name, chain in self.chains.items()}
            for chain in self.chains.values():
                chain.free[0] = 0
            self.tenants.append(DraftTenant("default", everything))
            self.questions.append(
                text("who are the tenants? No queue or device quota says so: default gets everything")
            )
        for chain in self.chains.values():
            if chain.left:
                self.remarks.append(
                    text(
                        "{count} devices of {leaf} in {top} are not promised to any virtual cluster: only "
                        "opportunistic jobs use them",
                        count=chain.left,
                        leaf=chain.types[-1],
                        top=chain.types[0],
                    )
                )

    def _cells_for(self, share: DiscoveredShare) -> dict[str, int]:
        total: Counter[str] = Counter()
        for ask in share.asks:
            left = ask.devices
            for chain in self._fitting(ask):
                taken = chain.take(left)
                total.update(taken)
                left -= sum(number * chain.leaves[path.count(".")] for path, number in taken.items())
            if left:
                self.remarks.append(
                    text(
                        "{share} has {count} {resource}: for {left} of them no cell is left",
                        share=share.title,
                        count=ask.devices,
                        resource=ask.resource or text("devices"),
                        left=left,
                    )
                )
        return dict(total)

    def _fitting(self, ask: Ask) -> list[_Chain]:
        """Chains with nodes that a quota is for, the larger cells first."""

        def fits(node: DiscoveredNode) -> bool:
            return ask.resource in ("", node.resource) and ask.labels.items() <= node.labels.items()

        chains = [chain for chain in self.chains.values() if all(map(fits, chain.nodes))]
        chains = chains or [chain for chain in self.chains.values() if any(map(fits, chain.nodes))]
        return sorted(chains, key=lambda chain: (-chain.leaves[0], chain.types))


def _tenant_names(shares: Iterable[DiscoveredShare]) -> list[str]:
    """Names that OpenPAI and HiveD take for virtual clusters: small letters and digits, no two the same."""
    names: list[str] = []
    for share in shares:
        base = re.sub(r"[^a-z0-9]", "", share.name.lower()) or "vc"
        number = 1
        while (name := base if number == 1 else f"{base}{number}") in names:
            number += 1
        names.append(name)
    return names


def _some(names: Sequence[str]) -> str:
    return listed(names, 3)
