"""Cell types contain each other in a circle.

Why: HiveD follows childCellType without end and runs out of memory.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        SWITCH: {childCellType: GPU, childCellNumber: 2}
        NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -    SWITCH: {childCellType: GPU, childCellNumber: 2}
    +    SWITCH: {childCellType: NODE, childCellNumber: 2}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD502", "cell-type-circle", ERROR)
def check(document: Document) -> Findings:
    """Each circle once, at the childCellType that closes it."""
    types = hived(document).types
    for circle in types.cycles:
        at = types.by_name[circle[-1]].spec.scalar("childCellType")
        if at is not None:
            way = " > ".join((*circle, circle[0]))
            yield Finding(at, f"cell types contain each other: {way}", "let the smallest of them consist of devices")
