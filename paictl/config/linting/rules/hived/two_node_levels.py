"""A node-level cell type lies inside another one.

Why: A machine cannot contain machines: HiveD takes the outer cell for the node, so that pods are bound to a name that
no node has.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        RACK: {childCellType: NODE, childCellNumber: 2}
      physicalCells:
      - cellType: RACK
        cellChildren:
        - {cellAddress: worker1}
        - {cellAddress: worker2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: RACK.NODE, cellNumber: 2}

Fails with::

    # hivedscheduler.yaml
    -    RACK: {childCellType: NODE, childCellNumber: 2}
    +    RACK: {childCellType: NODE, childCellNumber: 2, isNodeLevel: true}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD504", "two-node-levels", ERROR)
def check(document: Document) -> Findings:
    """Each node-level type above another one, once however many chains have it."""
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        for level in chain.node_levels[1:]:
            outer, inner = chain.types[level], chain.types[chain.node_levels[0]]
            at = model.types.by_name[outer].node_level
            if outer not in seen and at is not None:
                seen.add(outer)
                message = f"{outer} is node-level, and so is {inner} inside it"
                yield Finding(at, message, "keep isNodeLevel on the one type that is a machine")
