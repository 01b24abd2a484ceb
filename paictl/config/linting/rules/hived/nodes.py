"""Nodes among the physical cells, and the cells above them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from paictl.cells.spec import LEAF_LEVEL, MAX_CELLS, MAX_LEVELS
from paictl.config.linting.rule import (
    ERROR,
    WARNING,
    Document,
    Edit,
    Finding,
    Findings,
    Located,
    Severity,
    renamed,
    rule,
)
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.hived_cells import MOST_DEVICES, NO_DEFAULT, Cell, devices
from paictl.config.models.hived_types import DeclaredChain, guess
from paictl.config.reading.nodes import MappingNode, ScalarNode, SequenceNode
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("HVD508", "node-without-address", ERROR)
def node_without_address(document: Document) -> Findings:
    """A node has no address.

    Why: The cellAddress of a node-level cell is the name of the node in Kubernetes. If it is omitted, it becomes a
    sequence number. No such node exists, and everything on it waits forever.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
            RACK: {childCellType: NODE, childCellNumber: 2}
          physicalCells:
          - cellType: RACK
            cellChildren:
            - {cellAddress: worker1}
            - {cellAddress: worker2}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: RACK.NODE, cellNumber: 2}

    Fails with::

        # hivedscheduler.yaml
        -    - {cellAddress: worker2}
        +    - {}
    """
    # Each node-level cell without an address, and each larger cell that does not list its nodes.
    for cell in hived(document).cells:
        node_level = cell.chain.node_level
        if not node_level or cell.level < node_level:
            continue
        if cell.level == node_level and cell.address is None and _lacks(cell, "cellAddress"):
            number = str(cell.index) if cell.index != NO_DEFAULT else text("a number")
            message = text(
                "this {type} cell has no cellAddress, so its node name would be {number}",
                type=cell.type,
                number=number,
            )
            yield Finding(_place(cell), message, "add cellAddress: the name of the node in Kubernetes")
        elif cell.level > node_level and not cell.listed and _lacks(cell, "cellChildren"):
            inner = cell.chain.types[node_level]
            message = text(
                "this {type} cell does not list its {inner} cells, so their node names would be numbers",
                type=cell.type,
                inner=inner,
            )
            yield Finding(
                cell.place, message, text("list the {inner} cells under cellChildren, with cellAddress", inner=inner)
            )


def _place(cell: Cell) -> Located:
    return cell.spec.get("cellAddress") or cell.place


def _lacks(cell: Cell, key: str) -> bool:
    """Whether a key is missing, or empty, and not just misspelt or of another shape (reported elsewhere)."""
    value = cell.spec.get(key)
    if isinstance(value, ScalarNode) and value.tag != "null" and value.text:
        return False
    if isinstance(value, MappingNode) or (isinstance(value, SequenceNode) and key == "cellAddress"):
        return False
    known = ("cellType", "cellAddress", "cellChildren", "pinnedCellId", "reservationId")
    return not any(guess(entry.name, known) == key for entry in cell.spec if entry.name not in known)


_FORM = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


_LONGEST = 253


@rule("HVD509", "bad-node-name", ERROR)
def bad_node_name(document: Document) -> Findings:
    """The address of a node is not a valid Kubernetes node name.

    Why: A pod is bound to a node by this name. Kubernetes allows lower-case letters, digits, dashes and dots; the
    kubelet turns the host name into lower case, so Worker1 is never found.

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: NODE, cellAddress: worker1}
        +  - {cellType: NODE, cellAddress: Worker_1}
    """
    # Each address of a node that breaks the form; a warning for one that looks like a device index.
    for cell in hived(document).nodes:
        address = cell.address
        if address is None or isinstance(address.value, bool):
            continue
        name = address.text
        if isinstance(address.value, float):
            yield Finding(
                address,
                text("node name {name} is read as the number {address!r}", name=name, address=address.value),
                text('write "{name}"', name=name),
            )
        elif not _FORM.fullmatch(name) or len(name) > _LONGEST:
            hint = "use lower-case letters, digits, dashes and dots, as kubectl get nodes shows the name"
            yield Finding(
                address, text("{name!r} is not a valid Kubernetes node name", name=name), hint, _lowered(address)
            )
        elif name.isdigit() and address.plain:
            message = text(
                "the {type} cell has the node name {name}, which looks like an index", type=cell.type, name=name
            )
            hint = "write the name that kubectl get nodes shows"
            yield Finding(address, message, hint, severity=Severity.WARNING)


def _lowered(address: ScalarNode) -> tuple[Edit, ...]:
    """The repair where only the case is wrong."""
    lower = address.text.lower()
    return renamed(address, lower) if _FORM.fullmatch(lower) else ()


@rule("HVD510", "repeated-node", ERROR)
def repeated_node(document: Document) -> Findings:
    """A node appears twice among the physical cells.

    Why: HiveD silently counts its devices twice, and promises cells that do not exist. A node may be in two chains
    only if it has devices of both kinds, with indices that do not overlap, or if the cells of one chain are not
    devices (gpu: 0).

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
          physicalCells:
          - {cellType: NODE, cellAddress: worker1}
          - {cellType: NODE, cellAddress: worker2}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 2}

    Fails with::

        # hivedscheduler.yaml
        -  - {cellType: NODE, cellAddress: worker2}
        +  - {cellType: NODE, cellAddress: worker1}
    """
    # Each node that an earlier one of the same chain names, or whose devices an earlier one has.
    model = hived(document)
    earlier: dict[str, list[Cell]] = defaultdict(list)
    for cell in model.nodes:
        address = cell.address
        if address is None or model.node_names[cell.name] < 2:
            continue
        for other in earlier[cell.name]:
            line = place_of(other.address or other.place).line
            if other.chain is cell.chain:
                message = text(
                    "node {cell} appears twice in the chain {chain}, first in line {line}",
                    cell=cell.name,
                    chain=cell.chain.name,
                    line=line,
                )
                yield Finding(address, message, "list each node once")
                break
            shares = {cell.chain.leaf_type, other.chain.leaf_type} & model.types.without_devices
            common = [] if shares else sorted(_indices(cell) & _indices(other))
            if common:
                shown = ", ".join(map(str, common[:8])) + (", …" if len(common) > 8 else "")
                message = text(
                    "device {shown} of node {cell} is also in the chain {chain}, line {line}",
                    shown=shown,
                    cell=cell.name,
                    chain=other.chain.name,
                    line=line,
                )
                yield Finding(address, message, "give the devices other addresses, or remove one of the two")
                break
        earlier[cell.name].append(cell)


def _indices(node: Cell) -> set[int]:
    if node.chain.leaves[node.level] > MOST_DEVICES:
        return set()
    return {device.number for device in devices(node) if device.number is not None}


_IP = re.compile(r"\d{1,3}(\.\d{1,3}){3}")


@rule("HVD511", "address-above-node", WARNING)
def address_above_node(document: Document) -> Findings:
    """A cell above node level has the address of a machine.

    Why: Above node level an address is only a label; the node names that count are those of the node-level cells.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
            RACK: {childCellType: NODE, childCellNumber: 2}
          physicalCells:
          - cellType: RACK
            cellChildren:
            - {cellAddress: worker1}
            - {cellAddress: worker2}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: RACK.NODE, cellNumber: 2}

    Fails with::

        # hivedscheduler.yaml
           - cellType: RACK
        +    cellAddress: 10.1.2.3
    """
    # Each address above node level that is an IP address, or the name of a node.
    model = hived(document)
    for cell in model.cells:
        node_level = cell.chain.node_level
        if not node_level or cell.level <= node_level or not cell.listed or cell.address is None:
            continue
        if _IP.fullmatch(cell.name) or cell.name in model.node_names:
            inner = cell.chain.types[node_level]
            message = text("{cell} is the address of a {type} cell, not of a node", cell=cell.name, type=cell.type)
            yield Finding(
                cell.address, message, text("give the address to the {inner} cell that it belongs to", inner=inner)
            )


@rule("HVD512", "repeated-cell-address", WARNING)
def repeated_cell_address(document: Document) -> Findings:
    """Two cells side by side have the same address.

    Why: Reports and the inspection API distinguish cells by their address; two cells with the same address look like
    one.

    Passes::

        # hivedscheduler.yaml
        physicalCluster:
          cellTypes:
            SOCKET: {childCellType: GPU, childCellNumber: 2}
            NODE: {childCellType: SOCKET, childCellNumber: 2, isNodeLevel: true}
          physicalCells:
          - cellType: NODE
            cellAddress: worker1
            cellChildren:
            - {cellAddress: 0}
            - {cellAddress: 1}
        virtualClusters:
          default:
            virtualCells:
            - {cellType: NODE, cellNumber: 1}

    Fails with::

        # hivedscheduler.yaml
        -    - {cellAddress: 1}
        +    - {cellAddress: 0}
    """
    # Each cell with the address of an earlier sibling; nodes and devices have rules of their own.
    model = hived(document)
    for tops in model.tops_by_chain.values():
        yield from _repeated(tops)
    for cell in model.cells:
        if len(cell.children) > 1:
            yield from _repeated(cell.children)


def _repeated(siblings: Iterable[Cell]) -> Findings:
    seen: dict[str, Cell] = {}
    for cell in siblings:
        if cell.level == LEAF_LEVEL or cell.is_node or not cell.name:
            return
        first = seen.setdefault(cell.name, cell)
        if first is not cell and (cell.address or first.address):
            line = place_of(first.address or first.place).line
            message = text(
                "two {type} cells side by side have the address {cell}, the first in line {line}",
                type=cell.type,
                cell=cell.name,
                line=line,
            )
            yield Finding(cell.address or cell.place, message, "give each an address of its own, or none")


_PLAUSIBLE = 1024
"""Devices of one node; cells of CPU cores are the most numerous."""


@rule("HVD540", "huge-node", WARNING)
def huge_node(document: Document) -> Findings:
    """A node has more devices than a machine can have, or the cluster more cells than a scheduler can hold (an error).

    Why: The numbers of children multiply from level to level; HiveD makes an object of every cell and runs out of
    memory.

    Fails with::

        # hivedscheduler.yaml
        -    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        +    NODE: {childCellType: GPU, childCellNumber: 4000, isNodeLevel: true}
    """
    # Each node-level type whose cells have more devices than is plausible; the top cell that is one too many.
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        if not chain.node_level or not chain.countable or chain.leaves[chain.node_level] <= _PLAUSIBLE:
            continue
        name = chain.types[chain.node_level]
        if name not in seen:
            seen.add(name)
            message = text(
                "a {name} cell, one machine, has {leaves:,} {leaf_type} devices",
                name=name,
                leaves=chain.leaves[chain.node_level],
                leaf_type=chain.leaf_type,
            )
            at = model.types.by_name[name].spec.get("childCellNumber") or model.types.by_name[name].key
            yield Finding(at, message, "check childCellNumber of the types below it")
    yield from _too_many(model)


def _too_many(model: HivedConfig) -> Findings:
    """What `paictl.cells` refuses to build: the first top cell with which there are too many cells, or levels."""
    total = 0
    for top in model.tops:
        if top.cell is None or not top.cell.chain.countable:
            continue
        total += _cells(top.cell.chain)
        if total > MAX_CELLS or top.cell.chain.top > MAX_LEVELS:
            message = text("with it the cluster has more than {most:,} cells", most=MAX_CELLS)
            if total <= MAX_CELLS:
                message = text("its chain has more than {most} levels", most=MAX_LEVELS)
            hint = "check childCellNumber of the types below it"
            yield Finding(
                top.at, text("{message}; the scheduler accepts no more", message=message), hint, severity=Severity.ERROR
            )
            return


def _cells(chain: DeclaredChain) -> int:
    """Cells of all levels in a top cell."""
    cells = 1
    for fanout in chain.fanout[2:]:
        cells = min(1 + fanout * cells, MAX_CELLS + 1)
    return cells
