"""A cell above node level has the address of a machine.

Why: Above node level an address is only a label; the node names that count are those of the node-level cells.

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
       - cellType: RACK
    +    cellAddress: 10.1.2.3
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hived import hived

_IP = re.compile(r"\d{1,3}(\.\d{1,3}){3}")


@rule("HVD511", "address-above-node", WARNING)
def check(document: Document) -> Findings:
    """Each address above node level that is an IP address, or the name of a node."""
    model = hived(document)
    for cell in model.cells:
        node_level = cell.chain.node_level
        if not node_level or cell.level <= node_level or not cell.listed or cell.address is None:
            continue
        if _IP.fullmatch(cell.name) or cell.name in model.node_names:
            inner = cell.chain.types[node_level]
            message = f"{cell.name} is the address of a {cell.type} cell, which is no node"
            yield Finding(cell.address, message, f"give the address to the {inner} cell that it belongs to")
