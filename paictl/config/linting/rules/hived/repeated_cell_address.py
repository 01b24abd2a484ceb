"""Two cells side by side have the same address.

Why: The address is how reports and the inspection API tell cells apart; two of one address look like one.

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

from __future__ import annotations

from collections.abc import Iterable

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import Cell
from paictl.config.reading.source import place_of


@rule("HVD512", "repeated-cell-address", WARNING)
def check(document: Document) -> Findings:
    """Each cell with the address of an earlier sibling; nodes and devices have rules of their own."""
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
            message = f"two {cell.type} cells side by side have the address {cell.name}, the first in line {line}"
            yield Finding(cell.address or cell.place, message, "give each an address of its own, or none")
