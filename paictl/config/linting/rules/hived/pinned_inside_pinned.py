"""A pinned cell lies inside another pinned cell, and both are promised.

Why: The devices of the inner cell are then promised twice.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
      - {cellType: NODE, cellAddress: worker2, pinnedCellId: web-box}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
      web:
        pinnedCells:
        - {pinnedCellId: web-box}

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        RACK: {childCellType: NODE, childCellNumber: 2}
      physicalCells:
      - cellType: RACK
        pinnedCellId: web-rack
        cellChildren:
        - {cellAddress: worker1, pinnedCellId: web-box}
        - {cellAddress: worker2}
    virtualClusters:
      default:
        pinnedCells:
        - {pinnedCellId: web-rack}
      web:
        pinnedCells:
        - {pinnedCellId: web-box}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD521", "pinned-inside-pinned", ERROR)
def check(document: Document) -> Findings:
    """Each promised pinned cell that lies in a promised one."""
    model = hived(document)
    for cell, promise in model.claimed.items():
        outer = model.claimed_around(cell)
        if outer is not None and cell.pin is not None and outer.pin is not None:
            owner = model.claimed[outer].vc
            message = f"pinned cell {cell.pin.text} of {promise.vc} lies inside pinned cell {outer.pin.text} of {owner}"
            yield Finding(cell.pin, message, "pin cells that do not overlap")
