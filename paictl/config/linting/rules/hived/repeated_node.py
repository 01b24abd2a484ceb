"""A node stands twice among the physical cells.

Why: HiveD counts its devices twice, silently, and promises what does not exist. A node may stand in two chains only if
it has devices of both kinds, with indices that do not overlap, or if the cells of one are no devices (gpu: 0).

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
      - {cellType: NODE, cellAddress: worker2}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 2}

Fails with::

    # hivedscheduler.yaml
    -  - {cellType: NODE, cellAddress: worker2}
    +  - {cellType: NODE, cellAddress: worker1}
"""

from __future__ import annotations

from collections import defaultdict

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import MOST_DEVICES, Cell, devices
from paictl.config.reading.source import place_of


@rule("HVD510", "repeated-node", ERROR)
def check(document: Document) -> Findings:
    """Each node that an earlier one of the same chain names, or whose devices an earlier one has."""
    model = hived(document)
    earlier: dict[str, list[Cell]] = defaultdict(list)
    for cell in model.nodes:
        address = cell.address
        if address is None or model.node_names[cell.name] < 2:
            continue
        for other in earlier[cell.name]:
            line = place_of(other.address or other.place).line
            if other.chain is cell.chain:
                message = f"node {cell.name} stands twice in the chain {cell.chain.name}, first in line {line}"
                yield Finding(address, message, "list each node once")
                break
            shares = {cell.chain.leaf_type, other.chain.leaf_type} & model.types.without_devices
            common = [] if shares else sorted(_indices(cell) & _indices(other))
            if common:
                shown = ", ".join(map(str, common[:8])) + (", …" if len(common) > 8 else "")
                message = f"device {shown} of node {cell.name} is also in the chain {other.chain.name}, line {line}"
                yield Finding(address, message, "give the devices other addresses, or remove one of the two")
                break
        earlier[cell.name].append(cell)


def _indices(node: Cell) -> set[int]:
    if node.chain.leaves[node.level] > MOST_DEVICES:
        return set()
    return {device.number for device in devices(node) if device.number is not None}
