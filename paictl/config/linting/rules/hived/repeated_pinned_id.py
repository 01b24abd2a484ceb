"""Two physical cells have the same pinnedCellId.

Why: HiveD silently pins the last one; the other is shared like any cell.

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

Fails with::

    # hivedscheduler.yaml
    -  - {cellType: NODE, cellAddress: worker1}
    +  - {cellType: NODE, cellAddress: worker1, pinnedCellId: web-box}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.reading.source import place_of


@rule("HVD517", "repeated-pinned-id", ERROR)
def check(document: Document) -> Findings:
    """Each pinnedCellId that an earlier cell has."""
    model = hived(document)
    for cell in model.cells:
        pin = cell.pin
        if pin is None:
            continue
        first = model.pins[pin.text]
        if first is not cell:
            line = place_of(first.pin or first.place).line
            message = f"pinnedCellId {pin.text} is given to two cells, first in line {line}"
            yield Finding(pin, message, "give each pinned cell an id of its own")
