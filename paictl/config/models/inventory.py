"""The machines of a cluster as all its files name them: layout, host lists, HiveD's nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator

from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.hived_cells import Cell
from paictl.config.models.hived_types import MOST_NAMES, DeclaredChain
from paictl.config.models.hosts import HostList, HostRow, address_of, host_list
from paictl.config.models.layout import Layout, LayoutSku, MachineEntry, layout_of
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import Node, ScalarNode, SequenceNode
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.suggestions import nearest


def layout_in(bundle: Bundle) -> tuple[Document, Layout] | None:
    """The layout of a bundle that has exactly one, and machines in it."""
    document = bundle.only(FileKind.LAYOUT)
    layout = layout_of(document) if document else None
    return (document, layout) if document and layout and layout.machines else None


def hosts_in(bundle: Bundle, kind: FileKind) -> HostList | None:
    """The host list of a kind in a bundle that has exactly one, and hosts in it."""
    document = bundle.only(kind)
    hosts = host_list(document) if document else None
    return hosts if hosts and hosts.hosts else None


def hived_in(bundle: Bundle) -> HivedConfig | None:
    """The hivedscheduler configuration of a bundle that has exactly one."""
    document = bundle.only(FileKind.HIVED)
    return hived(document) if document else None


@frozen
class ListedHost:
    """A host of one of the lists that the layout must have too; further masters have no place in a layout."""

    host: HostRow
    role: str


def hived_beside(document: Document, bundle: Bundle) -> Document | None:
    """The hivedscheduler configuration that service settings hold, else the only one of the bundle."""
    inside = next((candidate for candidate in bundle.of(FileKind.HIVED) if candidate.host is document), None)
    return inside or bundle.only(FileKind.HIVED)


def virtual_clusters_beside(document: Document, bundle: Bundle) -> list[str]:
    """Names of the VCs in the configuration that `hived_beside` finds."""
    configuration = hived_beside(document, bundle)
    return [] if configuration is None else [entry.name for entry in configuration.top.mapping("virtualClusters")]


def listed_hosts(bundle: Bundle) -> Iterator[ListedHost]:
    """The first master and all workers of the host lists."""
    masters, workers = hosts_in(bundle, FileKind.MASTER_CSV), hosts_in(bundle, FileKind.WORKER_CSV)
    if masters:
        yield ListedHost(masters.hosts[0], "pai-master")
    if workers:
        yield from (ListedHost(host, "pai-worker") for host in workers.hosts)


def machines_by_name(layout: Layout) -> dict[str, MachineEntry]:
    """The machines that have a name, the first of each name."""
    by_name: dict[str, MachineEntry] = {}
    for machine in layout.machines:
        if machine.key:
            by_name.setdefault(machine.key, machine)
    return by_name


def outvoted(bundle: Bundle) -> dict[str, MachineEntry]:
    """Machines that the layout alone calls otherwise, by the name that both the host lists and the cells have."""
    layout_pair, cells = layout_in(bundle), hived_in(bundle)
    if layout_pair is None or cells is None:
        return {}
    nodes = {name.lower() for name in cells.node_names}
    names = machines_by_name(layout_pair[1])
    by_address = {address_of(machine.address.text): machine for machine in layout_pair[1].machines if machine.address}
    renamed: dict[str, MachineEntry] = {}
    for listed in listed_hosts(bundle):
        machine = by_address.get(address_of(listed.host.address.stripped))
        if machine is None or machine.name is None or listed.host.key in names:
            continue
        twice = names.get(machine.key) is not machine
        if listed.host.key in nodes and (twice or machine.key not in nodes):
            renamed[listed.host.key] = machine
    return renamed


def named_in_cells(cells: HivedConfig) -> set[str]:
    """All words in physicalCells in lower case: a machine among them has a place there, however badly written."""
    words: set[str] = set()
    waiting: list[Node] = [cells.physical.sequence("physicalCells")]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ScalarNode):
            words.add(node.text.lower())
        else:
            waiting.extend(node.items if isinstance(node, SequenceNode) else (entry.value for entry in node))
    return words


def misspelt_host(name: str, known: Collection[str]) -> str | None:
    """The host that a name most likely means: it must have the same numbers, because `gpu-13` is no typo of `gpu-3`."""
    if len(known) > MOST_NAMES:
        return None
    numbers = _numbers(name)
    return nearest(name, [other for other in known if _numbers(other) == numbers])


def _numbers(name: str) -> list[str]:
    return [number.lstrip("0") for number in re.findall(r"[0-9]+", name)]


@frozen
class NodeKind:
    """All nodes of one chain that run on machines of one SKU."""

    chain: DeclaredChain
    sku: LayoutSku
    cells: tuple[Cell, ...]
    instances: int = 0
    """MIG instances of each GPU, of which a leaf cell is one; 0 for whole GPUs."""

    @property
    def device_count(self) -> int | None:
        """Devices of a machine as its leaf cells count them; None if the SKU does not say."""
        count = self.sku.device_count
        return None if count is None else count * (self.instances or 1)

    @property
    def leaves(self) -> int:
        """Leaf cells of such a node."""
        return self.chain.leaves[self.chain.node_level]

    @property
    def nodes(self) -> str:
        """The nodes for a message."""
        more = len(self.cells) - 1
        name = self.cells[0].name
        return text("{name} and {count} more", name=name, count=more) if more else name


def node_kinds(bundle: Bundle) -> Iterator[NodeKind]:
    """Nodes of HiveD with the SKU of the worker they run on, where both are known; in file order."""
    layout_pair, cells = layout_in(bundle), hived_in(bundle)
    if layout_pair is None or cells is None:
        return
    layout = layout_pair[1]
    machines = machines_by_name(layout)
    groups: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in cells.nodes:
        machine = machines.get(cell.name.lower()) if cell.address else None
        sku = layout.sku_of(machine) if machine and machine.has("pai-worker") else None
        if sku is not None and cell.chain.countable:
            groups[(cell.chain.name, sku.name)].append(cell)
    for (_, sku_name), members in groups.items():
        chain = members[0].chain
        yield NodeKind(chain, layout.skus[sku_name], tuple(members), cells.mig_instances(chain.leaf_type))
