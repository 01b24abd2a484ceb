"""A virtual cluster has SKUs with devices and SKUs without.

Why: For a job without skuType the REST server takes the smallest of each resource over all SKUs of the virtual cluster.
One SKU without gpu makes that 0, and every job that asks for a gpu is refused with "SKU does not configure GPU".

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        CPU: {cpu: 1, memory: 4096Mi}
        GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
      cellTypes:
        CPU-NODE: {childCellType: CPU, childCellNumber: 16, isNodeLevel: true}
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: CPU-NODE, cellAddress: worker2}
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      cpu:
        virtualCells:
        - {cellType: CPU-NODE, cellNumber: 1}
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      skuTypes:
        CPU: {cpu: 1, memory: 4096Mi}
        GPU: {gpu: 1, cpu: 8, memory: 65536Mi}
      cellTypes:
        CPU-NODE: {childCellType: CPU, childCellNumber: 16, isNodeLevel: true}
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: CPU-NODE, cellAddress: worker2}
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: CPU-NODE, cellNumber: 1}
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.document import Document
from paictl.config.model.hived import hived
from paictl.config.problem import Finding, Severity

ID = "HVD539"
NAME = "mixed-skus"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """Each virtual cluster that is promised cells of both kinds."""
    model = hived(document)
    devices = {entry.name: model.skus.mapping(entry.name).integer("gpu") or 0 for entry in model.skus}
    for vc in model.vcs:
        kinds = [promise.chain.leaf_type for promise in vc.promises if promise.chain is not None and promise.number]
        bare = next((kind for kind in kinds if devices.get(kind) == 0), None)
        full = next((kind for kind in kinds if devices.get(kind, 0) > 0), None)
        if bare is not None and full is not None:
            message = f"{vc.name} has cells of SKU {full}, with gpu, and of SKU {bare}, without"
            yield Finding(vc.key, message, f"promise the {bare} cells to a virtual cluster of their own")
