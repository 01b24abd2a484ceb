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

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1, pinnedCellId: web-box}
      - {cellType: NODE, cellAddress: worker2, pinnedCellId: web-box}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
      web:
        pinnedCells:
        - {pinnedCellId: web-box}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.hived import hived
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity
from paictl.config.reading.source import place_of

ID = "HVD517"
NAME = "repeated-pinned-id"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
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
