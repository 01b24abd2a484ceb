"""The forms of `--cluster`: `15x4`, `V100=2x4,P100=4x4`, or a file.

Files are a machine layout (``layout.yaml``: its workers), a HiveD configuration (``hivedscheduler.yaml`` or a
``services-configuration.yaml`` with one: its nodes, cell levels and quotas), or a cluster file of our own::

    cluster:
    - {name: a, nodes: 4, devices: 8, type: V100, inside: {socket: 4, pcie: 2}, around: {rack: r1, domain: d1}}
    quotas: {research: 24, product: 8}

`inside` has the devices of one group of a level in a node, widest first; `around` the groups that the nodes are in,
nearest first; `cpu_milli` and `memory_mib` what a node has, for policies that place fractional devices. Only `devices`
is required. A ``.csv`` is a table of nodes as Alibaba publishes them, also inside an archive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from paictl import i18n
from paictl.cells.chain import build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import ClusterSpec as HivedSpec
from paictl.cells.tree import PhysicalTree, build_physical
from paictl.config.models.layout import layout_of
from paictl.config.quotas.capacity import configuration
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, is_file, is_folder, load
from paictl.config.reading.nodes import to_data
from paictl.i18n import did_you_mean
from paictl.sim.cluster import ClusterShape, ClusterShapeError, Node, mixed
from paictl.sim.job import BadRow
from paictl.sim.traces import lines
from paictl.sim.traces.source import TraceFile, source
from paictl.workload.budgets import SECTION

_COUNT: Final = re.compile(r"(?:(?P<type>[^=,\s]+)=)?(?P<nodes>\d{1,9})x(?P<devices>\d{1,9})", re.ASCII)
_HINT: Final = "write 15x4 (nodes x devices), V100=2x4,P100=4x4, or a file's path"
_KEYS: Final = frozenset({"name", "nodes", "devices", "type", "inside", "around", "cpu_milli", "memory_mib"})
SIMULATED: Final = ("borrow-limits", "lend-limits", "departments", "budgets", "user-limits", "spares")
"""The lists of the section `sharing` that `hived` obeys; the rest of it are parameters of the policy."""
_TABLE_HINT: Final = "a table of nodes has the columns sn, cpu_milli, memory_mib, gpu, model"
MOST: Final = 1_000_000
"""Devices of a cluster at most: a larger one is a typing error."""


def cluster_named(text: str) -> ClusterShape:
    """Parse a cluster; raises `ClusterShapeError` (or the file's `PaictlError`) with what to write instead."""
    if text.endswith(".csv"):
        spec = _from_table(source(text))
    else:
        spec = _from_file(text) if text and (is_file(text) or is_folder(text)) else _counted(text)
    _limited(sum(node.devices for node in spec.nodes), text)
    return spec


def _limited(devices: int, text: str) -> None:
    if devices > MOST:
        raise ClusterShapeError(
            i18n.text("more than {most:,} devices", most=MOST), where=text, hint="check the numbers"
        )


def _counted(text: str) -> ClusterShape:
    parts = [(_COUNT.fullmatch(part.strip()), part.strip()) for part in text.split(",")]
    rows = []
    for match, part in parts:
        if match is None:
            problem = i18n.text("neither a file nor a number of nodes and devices")
            raise ClusterShapeError(f"{part!r}: {problem}" if len(parts) > 1 else problem, where=text, hint=_HINT)
        rows.append((match["type"] or "gpu", int(match["nodes"]), int(match["devices"])))
    if any(min(nodes, devices) < 1 for _, nodes, devices in rows):
        raise ClusterShapeError(
            "a cluster needs at least one node, and each node at least one device", where=text, hint=_HINT
        )
    if len({kind for kind, _, _ in rows}) < len(rows):
        raise ClusterShapeError("a type is listed twice", where=text, hint=_HINT)
    _limited(sum(nodes * devices for _, nodes, devices in rows), text)  # before creating that many nodes
    return mixed(rows, text)


def _from_file(text: str) -> ClusterShape:
    loaded = load([text], skip_unknown=is_folder(text))
    for failure in loaded.failures:
        raise failure
    kinds = {document.kind for document in loaded.documents}
    if FileKind.HIVED in kinds:
        return from_hived(configuration(loaded), text, loaded.documents)
    if FileKind.LAYOUT in kinds:
        return _from_layout(loaded, text)
    for document in loaded.documents:
        if isinstance(document.data, Mapping) and "cluster" in document.data:
            return _from_rows(document.data, text)
    raise ClusterShapeError("is not a cluster description", where=text, hint=_HINT + " (layout, HiveD, or `cluster:`)")


# --- a table of nodes


def _from_table(table: TraceFile) -> ClusterShape:
    """Nodes of Alibaba's openb: ``sn,cpu_milli,memory_mib,gpu,model``; nodes without devices are left out."""
    nodes = []
    for row in lines.table(table, _table_row):
        if isinstance(row, BadRow):
            raise ClusterShapeError(row.message, where=f"{table.name}:{row.line}", hint=_TABLE_HINT)
        if row[1].devices:
            nodes.append(row[1])
    if not nodes:
        raise ClusterShapeError("no node of the table has devices", where=table.name, hint=_TABLE_HINT)
    return ClusterShape(table.name, tuple(nodes))


def _table_row(line: lines.Line) -> Node:
    return Node(
        line.text("sn"),
        line.whole("gpu", 0),
        line.get("model") or "gpu",
        cpu_milli=line.whole("cpu_milli", 1),
        memory_mib=line.whole("memory_mib", 1),
    )


# --- HiveD


def from_hived(document: Document, text: str, beside: Iterable[Document] = ()) -> ClusterShape:
    """Nodes, levels and quotas of a HiveD configuration; raises `SpecError` if it is not a valid cluster.

    The section `sharing` is taken from the service settings that contain the configuration, or that lie beside it.
    """
    if not isinstance(document.data, Mapping):
        raise ClusterShapeError("the hivedscheduler configuration is not a mapping", where=text)
    data = to_data(document.root) if document.root is not None else {}
    assert isinstance(data, Mapping)  # noqa: S101 - narrows the type
    shape = hived_cluster(HivedSpec.from_mapping(data), text, _yaml(data))
    settings = document.host or next((document for document in beside if document.kind is FileKind.SERVICES), None)
    return replace(shape, sharing=None if settings is None else _sharing(settings))


def _sharing(settings: Document) -> str | None:
    """The lists of the section `sharing` that the simulator supports."""
    data = settings.data if isinstance(settings.data, Mapping) else {}
    section = data.get(SECTION)
    obeyed = {key: section[key] for key in SIMULATED if key in section} if isinstance(section, Mapping) else {}
    return json.dumps(obeyed) if obeyed else None


def hived_cluster(spec: HivedSpec, text: str, yaml_text: str) -> ClusterShape:
    """The same from a specification that was read; `written` is it as YAML, for the scheduler core."""
    tree = build_physical(spec)
    nodes = []
    for name, cells in tree.nodes.items():
        chains = {tree.chains[tree.chain[cell]].name for cell in cells}
        if len(chains) > 1:
            raise ClusterShapeError(
                i18n.text(
                    "node {name} has devices of several chains: {names}", name=name, names=", ".join(sorted(chains))
                ),
                where=text,
            )
        nodes.append(_hived_node(tree, name, cells[0], len(cells)))
    by_type = promised_by_type(spec)
    totals = {vc: sum(promised.values()) for vc, promised in by_type.items()}
    return ClusterShape(text, tuple(nodes), totals, by_type, yaml_text)


def _hived_node(tree: PhysicalTree, name: str, cell: Any, cells: int) -> Node:
    chain = tree.chains[tree.chain[cell]]
    size = chain.leaves[chain.node_level]
    inner = tuple(
        (chain.types[level], chain.leaves[level])
        for level in range(chain.node_level - 1, 1, -1)
        if 1 < chain.leaves[level] < size
    )
    outer = tuple(
        (chain.types[level], tree.address(tree.ancestor(cell, level)))
        for level in range(chain.node_level + 1, chain.top + 1)
    )
    return Node(name, size * cells, chain.leaf_type, inner, outer)


def promised_by_type(spec: HivedSpec) -> dict[str, dict[str, int]]:
    """By VC and device type: the devices of its cells, pinned ones included."""
    chains = build_chains(spec)
    pinned = pinned_levels(spec, chains)
    by_vc: dict[str, dict[str, int]] = {}
    for vc in spec.virtual_clusters:
        promised = by_vc.setdefault(vc.name, {})
        for name, level, _ in preassigned_levels(vc, chains, pinned):
            chain = chains[name]
            promised[chain.leaf_type] = promised.get(chain.leaf_type, 0) + chain.leaves[level]
    return by_vc


def _yaml(data: Mapping[str, Any]) -> str:
    # JSON is YAML, and needs no YAML library here.
    keys = ("physicalCluster", "virtualClusters", "lazyPreemptionRecovery")
    return json.dumps({key: data[key] for key in keys if key in data})


# --- layout


def _from_layout(loaded: Loaded, text: str) -> ClusterShape:
    document = next(document for document in loaded.documents if document.kind is FileKind.LAYOUT)
    layout = layout_of(document)
    nodes = []
    for number, machine in enumerate(layout.with_role("pai-worker"), 1):
        sku = layout.sku_of(machine)
        count = sku.device_count if sku else None
        if sku is None or not count:
            continue  # a worker for jobs without devices
        model = sku.device.scalar("model") or sku.device.scalar("type")
        nodes.append(
            Node(machine.name.text if machine.name else f"worker-{number}", count, model.text if model else sku.name)
        )
    if not nodes:
        raise ClusterShapeError("the layout has no worker with devices", where=text, hint="see: paictl config validate")
    return ClusterShape(text, tuple(nodes))


# --- our own


def _from_rows(data: Mapping[str, Any], text: str) -> ClusterShape:
    rows = data["cluster"]
    if not isinstance(rows, list) or not rows:
        raise ClusterShapeError("expected a list of nodes", where=f"{text}: cluster", hint="- {nodes: 4, devices: 8}")
    nodes = [node for place, row in enumerate(rows) for node in _row(row, place, f"{text}: cluster[{place}]")]
    if len({node.name for node in nodes}) < len(nodes):
        raise ClusterShapeError("two nodes have the same name", where=f"{text}: cluster", hint="give each row a name")
    quotas = data.get("quotas") or {}
    if not isinstance(quotas, Mapping) or not all(isinstance(value, int) and value >= 0 for value in quotas.values()):
        raise ClusterShapeError("expected devices by virtual cluster", where=f"{text}: quotas", hint="quotas: {vc1: 8}")
    return ClusterShape(text, tuple(nodes), {str(name): int(value) for name, value in quotas.items()})


def _row(row: Any, place: int, where: str) -> list[Node]:
    if not isinstance(row, Mapping):
        raise ClusterShapeError("expected a node", where=where, hint="{nodes: 4, devices: 8, type: V100}")
    for key in row:
        if key not in _KEYS:
            near = did_you_mean(str(key), _KEYS)
            raise ClusterShapeError(
                i18n.text("unknown key {key!r}", key=key),
                where=where,
                hint=near or i18n.text("one of: {names}", names=", ".join(sorted(_KEYS))),
            )
    number, devices = _whole(row.get("nodes", 1), f"{where}.nodes"), _whole(row.get("devices"), f"{where}.devices")
    _limited(number * devices, where)
    inside = tuple((str(level), _whole(size, f"{where}.inside")) for level, size in _levels(row, "inside", where))
    around = tuple((str(level), str(group)) for level, group in _levels(row, "around", where))
    for level, size in inside:
        if devices % size:
            raise ClusterShapeError(
                i18n.text(
                    "{devices} devices cannot be divided into a {level} of {size}",
                    devices=devices,
                    level=level,
                    size=size,
                ),
                where=where,
            )
    name, kind = str(row.get("name", f"node{place + 1}")), str(row.get("type", "gpu"))
    names = [name] if number == 1 else [f"{name}-{count}" for count in range(1, number + 1)]
    cpu, memory = (_whole(row[key], f"{where}.{key}") if key in row else 0 for key in ("cpu_milli", "memory_mib"))
    return [Node(name, devices, kind, inside, around, cpu, memory) for name in names]


def _levels(row: Mapping[str, Any], key: str, where: str) -> list[tuple[Any, Any]]:
    levels = row.get(key) or {}
    if not isinstance(levels, Mapping):
        raise ClusterShapeError("expected levels with a value each", where=f"{where}.{key}", hint="{socket: 4}")
    return list(levels.items())


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ClusterShapeError("expected a whole number of at least 1", where=where)
    return value
