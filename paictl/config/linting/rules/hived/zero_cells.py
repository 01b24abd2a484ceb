"""A virtual cluster is promised zero cells of a type.

Why: The entry has no effect; users who read the file believe that they have a share of this type.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -    - {cellType: NODE, cellNumber: 1}
    +    - {cellType: NODE, cellNumber: 0}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD533", "zero-cells", WARNING)
def check(document: Document) -> Findings:
    """Each cellNumber 0."""
    for vc in hived(document).vcs:
        for entry in vc.spec.sequence("virtualCells").mappings():
            at = entry.scalar("cellNumber")
            if at is not None and entry.integer("cellNumber") == 0:
                message = f"virtual cluster {vc.name} is promised 0 cells here"
                yield Finding(at, message, "write how many cells, or remove the entry")
