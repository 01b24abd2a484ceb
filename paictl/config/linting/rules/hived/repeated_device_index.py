"""A device stands twice in its node.

Why: HiveD gives the same device to two jobs. Mind the defaults: a leaf cell without address gets its position, which an
explicit address beside it may have taken.

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
    +    - {cellAddress: 0}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import MOST_DEVICES, Device, devices
from paictl.config.reading.source import place_of


@rule("HVD514", "repeated-device-index", ERROR)
def check(document: Document) -> Findings:
    """Each device whose index an earlier device of the node has."""
    for node in hived(document).nodes:
        if not node.children or node.chain.leaves[node.level] > MOST_DEVICES:
            continue
        seen: dict[int, Device] = {}
        for device in devices(node):
            if device.number is None:
                continue
            first = seen.setdefault(device.number, device)
            if first is not device:
                line = place_of(first.at).line
                message = f"device {device.number} of node {node.name} stands twice, first in line {line}"
                yield Finding(device.at, message, "give each device of the node an index of its own")
