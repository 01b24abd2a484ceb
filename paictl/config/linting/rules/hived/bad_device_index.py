"""The address of a device is not its index in the node.

Why: HiveD hands the address of a leaf cell to the container runtime as device index, and stops at start if it is no
number.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 2, isNodeLevel: true}
      physicalCells:
      - cellType: NODE
        cellAddress: worker1
        cellChildren:
        - {cellAddress: 0}
        - {cellAddress: 1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -    - {cellAddress: 1}
    +    - {cellAddress: gpu1}
"""

from __future__ import annotations

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import device_index


@rule("HVD513", "bad-device-index", ERROR)
def check(document: Document) -> Findings:
    """Each address of a leaf cell that is not a whole number from 0 on."""
    for cell in hived(document).cells:
        if cell.level != LEAF_LEVEL or cell.address is None or isinstance(cell.address.value, bool):
            continue
        if device_index(cell) is None:
            message = f"{cell.address.text!r} is the address of a {cell.type} device, which must be its index"
            yield Finding(cell.address, message, "write a whole number from 0 on, as nvidia-smi shows it")
