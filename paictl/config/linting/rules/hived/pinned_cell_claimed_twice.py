"""A pinned cell is promised twice.

Why: It exists once. HiveD stops at start with a message that names nothing.

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
         - {cellType: NODE, cellNumber: 1}
    +    pinnedCells:
    +    - {pinnedCellId: web-box}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.reading.source import place_of


@rule("HVD520", "pinned-cell-claimed-twice", ERROR)
def check(document: Document) -> Findings:
    """Each promise of a pinned cell after the first."""
    model = hived(document)
    for promise in model.promises:
        first = model.claimed.get(promise.pinned) if promise.pinned is not None else None
        if first is not None and first is not promise:
            line = place_of(first.at).line
            message = f"pinned cell {promise.at.text} is promised to {promise.vc}, but in line {line} to {first.vc}"
            yield Finding(promise.at, message, "keep one of the two")
