"""A child is said to be of another type than its parent's type gives it.

Why: HiveD then builds a cell of mixed types, in which promises cannot be found.

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
    +    - {cellType: GPU, cellAddress: worker2}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_types import name_under


@rule("HVD516", "other-cell-type", ERROR)
def check(document: Document) -> Findings:
    """Each cellType of a child that is not the childCellType of its parent's type."""
    for cell in hived(document).cells:
        at = name_under(cell.spec, "cellType")
        if cell.parent is not None and at is not None and at.text != cell.type:
            message = f"the children of a {cell.parent.type} cell are {cell.type} cells, not {at.text}"
            edits = renamed(at, cell.type)
            yield Finding(at, message, f"write {cell.type}, or leave cellType out", edits)
