"""A node has more devices than a machine can have.

Why: The numbers of children multiply from level to level; HiveD makes an object of every cell and runs out of memory.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
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
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4000, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.document import Document
from paictl.config.model.hived import hived
from paictl.config.problem import Finding, Severity

ID = "HVD540"
NAME = "huge-node"
SEVERITY = Severity.WARNING


_PLAUSIBLE = 1024
"""Devices of one node; cells of CPU cores are the most numerous."""


def check(document: Document) -> Iterator[Finding]:
    """Each node-level type whose cells have more devices than is plausible."""
    model = hived(document)
    seen: set[str] = set()
    for chain in model.sound_chains:
        if not chain.node_level or not chain.countable or chain.leaves[chain.node_level] <= _PLAUSIBLE:
            continue
        name = chain.types[chain.node_level]
        if name not in seen:
            seen.add(name)
            message = f"a {name} cell, one machine, has {chain.leaves[chain.node_level]:,} {chain.leaf_type} devices"
            at = model.types.by_name[name].spec.get("childCellNumber") or model.types.by_name[name].key
            yield Finding(at, message, "check childCellNumber of the types below it")
