"""A node has no address.

Why: The cellAddress of a node-level cell is the name of the node in Kubernetes. Left out, it becomes a running number;
no such node exists, and everything on it waits for ever.

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

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Located, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import NO_DEFAULT, Cell
from paictl.config.models.hived_types import guess
from paictl.config.reading.nodes import MappingNode, ScalarNode, SequenceNode


@rule("HVD508", "node-without-address", ERROR)
def check(document: Document) -> Findings:
    """Each node-level cell without an address, and each larger cell that does not list its nodes."""
    for cell in hived(document).cells:
        node_level = cell.chain.node_level
        if not node_level or cell.level < node_level:
            continue
        if cell.level == node_level and cell.address is None and _lacks(cell, "cellAddress"):
            number = f"{cell.index!r}" if cell.index != NO_DEFAULT else "a number"
            message = f"this {cell.type} cell has no cellAddress, so that its node name would be {number}"
            yield Finding(_place(cell), message, "add cellAddress: the name of the node in Kubernetes")
        elif cell.level > node_level and not cell.listed and _lacks(cell, "cellChildren"):
            inner = cell.chain.types[node_level]
            message = f"this {cell.type} cell does not list its {inner} cells, whose node names would be numbers"
            yield Finding(cell.place, message, f"list the {inner} cells under cellChildren, with cellAddress")


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
