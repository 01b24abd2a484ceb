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

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        SWITCH: {childCellType: NODE, childCellNumber: 2}
        NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.hived import hived
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "HVD502"
NAME = "cell-type-circle"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Each circle once, at the childCellType that closes it."""
    types = hived(document).types
    for circle in types.cycles:
        at = types.by_name[circle[-1]].spec.scalar("childCellType")
        if at is not None:
            way = " > ".join((*circle, circle[0]))
            yield Finding(at, f"cell types contain each other: {way}", "let the smallest of them consist of devices")
