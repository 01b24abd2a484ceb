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

Fails with::

    # hivedscheduler.yaml
    -    pinnedCells:
    -    - {pinnedCellId: web-box}
    +    virtualCells:
    +    - cellType: NODE
    +      cellNumber: 1
    +      pinnedCells:
    +      - {pinnedCellId: web-box}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD522", "misplaced-pinned-cells", ERROR)
def check(document: Document) -> Findings:
    """Each key about pinned cells in an entry of virtualCells."""
    for vc in hived(document).vcs:
        for _, key in vc.misplaced:
            message = f"{key.text} stands inside an entry of virtualCells of {vc.name}, where it has no effect"
            yield Finding(key, message, "put the ids into a list pinnedCells one level up, beside virtualCells")
