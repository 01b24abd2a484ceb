"""No virtual cluster is promised any cell of a chain.

Why: Only opportunistic jobs can use these cells, and some versions of HiveD stop at start over such a chain.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        T4-NODE: {childCellType: T4, childCellNumber: 4, isNodeLevel: true}
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: T4-NODE, cellAddress: worker2}
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: T4-NODE, cellNumber: 1}
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -    - {cellType: T4-NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD534", "unused-chain", WARNING)
def check(document: Document) -> Findings:
    """Each chain that no promise leads into; silent while some promise leads nowhere, as it may mean this chain."""
    model = hived(document)
    if not model.promises or any(promise.chain is None for promise in model.promises):
        return
    used = {promise.chain.name for promise in model.promises if promise.chain is not None}
    seen: set[str] = set()
    for top in model.tops:
        if top.cell is None:
            continue
        name = top.cell.chain.name
        if name not in used and name not in seen:
            seen.add(name)
            message = f"no virtual cluster is promised a cell of the chain {name}"
            yield Finding(top.at, message, "promise its cells to a virtual cluster, e.g. to default")
