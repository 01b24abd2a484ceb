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

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        GPU: {cpu: 8, memory: 65536Mi}
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.hived import hived
from paictl.config.reading.document import Document
from paictl.config.reading.nodes import Mapping
from paictl.config.reading.problem import Finding, Severity

ID = "HVD539"
NAME = "sku-without-gpu"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """Each SKU with neither gpu nor CPU in its name."""
    for entry in hived(document).skus:
        spec = entry.value
        if isinstance(spec, Mapping) and spec.get("gpu") is None and "cpu" in spec and "cpu" not in entry.name.lower():
            message = f"SKU {entry.name} has no gpu"
            yield Finding(entry.key, message, "add gpu: 1, or put CPU into its name")
