"""The largest pod that a virtual cluster can run is smaller than a node.

Why: Its cells are parts of nodes. A job that asks for all devices of a node in one pod waits for ever.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        SOCKET: {childCellType: GPU, childCellNumber: 2}
        NODE: {childCellType: SOCKET, childCellNumber: 2, isNodeLevel: true}
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
    -    - {cellType: NODE, cellNumber: 1}
    +    - {cellType: NODE.SOCKET, cellNumber: 2}
"""

from __future__ import annotations

from collections import defaultdict

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_promises import VirtualCluster


@rule("HVD535", "small-largest-pod", INFO)
def check(document: Document) -> Findings:
    """Each virtual cluster and device type of which it has no whole node."""
    for vc in hived(document).vcs:
        for device, (largest, node) in _sizes(vc).items():
            if largest < node:
                message = f"a pod of {vc.name} can have at most {largest} of the {node} {device} devices of a node"
                yield Finding(vc.key, message, "promise a whole node if its jobs need one")


def _sizes(vc: VirtualCluster) -> dict[str, tuple[int, int]]:
    """Per device type of a virtual cluster: devices of its largest pod, and of the largest node of the same chains."""
    sizes: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for promise in vc.promises:
        chain = promise.chain
        if chain is not None and chain.countable and chain.node_level and promise.level and promise.number:
            pod, node = sizes[chain.leaf_type]
            sizes[chain.leaf_type] = max(pod, chain.pod(promise.level)), max(node, chain.pod(chain.top))
    return sizes
