"""A SKU gives no devices, and its name does not say that it is for CPUs.

Why: Jobs of this SKU that ask for a gpu are refused; a SKU of CPU cores alone is fine and best named so.

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
    -    GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
    +    GPU: {cpu: 8, memory: 65536Mi}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.reading.nodes import MappingNode


@rule("HVD539", "sku-without-gpu", WARNING)
def check(document: Document) -> Findings:
    """Each SKU with neither gpu nor CPU in its name."""
    for entry in hived(document).skus:
        spec = entry.value
        if (
            isinstance(spec, MappingNode)
            and spec.get("gpu") is None
            and "cpu" in spec
            and "cpu" not in entry.name.lower()
        ):
            message = f"SKU {entry.name} has no gpu"
            yield Finding(entry.key, message, "add gpu: 1, or put CPU into its name")
