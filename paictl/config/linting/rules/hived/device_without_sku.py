"""A device type has no SKU, while others have.

Why: Jobs name the SKU and the REST server turns it into cores and memory: what has no SKU cannot be asked for.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
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
       cellTypes:
    +    T4-NODE: {childCellType: T4, childCellNumber: 4, isNodeLevel: true}
    @@
       physicalCells:
    +  - {cellType: T4-NODE, cellAddress: worker2}
    @@
         virtualCells:
    +    - {cellType: T4-NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_types import guess


@rule("HVD529", "device-without-sku", WARNING)
def check(document: Document) -> Findings:
    """Each device type in use without SKU, unless a misspelt SKU is meant for it (HVD528)."""
    model = hived(document)
    if not len(model.skus):
        return
    astray = [entry.name for entry in model.skus if entry.name not in model.types.leaves]
    for name in dict.fromkeys(chain.leaf_type for chain in model.sound_chains):
        at = model.types.leaves.get(name)  # a bare device type as a cell of its own is named nowhere as a child
        if at is not None and name not in model.skus and guess(name, astray) is None:
            yield Finding(at, f"device type {name} has no SKU", f"add {name} to skuTypes, with its cpu and memory")
