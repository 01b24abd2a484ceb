"""Pinned cells are named inside an entry of virtualCells.

Why: HiveD ignores them there without a word, so that the virtual cluster gets other cells than those it was meant to
get. The list pinnedCells stands beside virtualCells.

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
      - {cellType: NODE, cellAddress: worker1}
      - {cellType: NODE, cellAddress: worker2, pinnedCellId: web-box}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
      web:
        virtualCells:
        - cellType: NODE
          cellNumber: 1
          pinnedCells:
          - {pinnedCellId: web-box}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.hived import hived
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "HVD522"
NAME = "misplaced-pinned-cells"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Each key about pinned cells in an entry of virtualCells."""
    for vc in hived(document).vcs:
        for _, key in vc.misplaced:
            message = f"{key.text} stands inside an entry of virtualCells of {vc.name}, where it has no effect"
            yield Finding(key, message, "put the ids into a list pinnedCells one level up, beside virtualCells")
