"""A SKU has the name of no device type.

Why: The REST server offers it to jobs as skuType, but HiveD has no such devices, so that these jobs are refused.

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
       skuTypes:
    +    V100: {gpu: 1, cpu: 4, memory: 8192Mi}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_types import guess


@rule("HVD528", "unknown-sku", WARNING)
def check(document: Document) -> Findings:
    """Each SKU that no cell type has as its lowest child."""
    model = hived(document)
    devices = model.types.leaves
    if not devices:
        return
    for entry in model.skus:
        if entry.name in devices:
            continue
        message = f"SKU {entry.name} is the name of no device type"
        near = guess(entry.name, (name for name in devices if name not in model.skus))
        if near is not None:
            edits = renamed(entry.key, near)
            yield Finding(entry.key, message, f"did you mean {near!r}?", edits)
        else:
            yield Finding(entry.key, message, f"device types are: {', '.join(list(devices)[:8])}")
