"""A childCellType looks like a cell type that is defined, but is written differently.

Why: HiveD takes every name that is not defined in cellTypes for a device type. A typo therefore cuts the chain short:
what should be a switch of two devices becomes a single device.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        SWITCH: {childCellType: GPU, childCellNumber: 2}
        NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}

Fails with::

    # hivedscheduler.yaml
    -    NODE: {childCellType: SWITCH, childCellNumber: 2, isNodeLevel: true}
    +    NODE: {childCellType: SWITHC, childCellNumber: 2, isNodeLevel: true}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived


@rule("HVD501", "misspelt-child-type", ERROR)
def check(document: Document) -> Findings:
    """Each childCellType that is not defined but resembles a type that is."""
    for cell_type in hived(document).types.by_name.values():
        at = cell_type.spec.scalar("childCellType")
        if cell_type.meant is None or at is None:
            continue
        message = f"childCellType {at.text!r} of {cell_type.name} is not defined, and so taken for a device"
        edits = renamed(at, cell_type.meant)
        yield Finding(at, message, f"did you mean {cell_type.meant!r}?", edits)
