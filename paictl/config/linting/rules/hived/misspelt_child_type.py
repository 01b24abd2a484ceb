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

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        SWITCH: {childCellType: GPU, childCellNumber: 2}
        NODE: {childCellType: SWITHC, childCellNumber: 2, isNodeLevel: true}
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
from paictl.config.reading.problem import Edit, Finding, Severity

ID = "HVD501"
NAME = "misspelt-child-type"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Each childCellType that is not defined but resembles a type that is."""
    for cell_type in hived(document).types.by_name.values():
        at = cell_type.spec.scalar("childCellType")
        if cell_type.meant is None or at is None:
            continue
        message = f"childCellType {at.text!r} of {cell_type.name} is not defined, and so taken for a device"
        edits = (Edit(at, cell_type.meant),) if at.plain else ()
        yield Finding(at, message, f"did you mean {cell_type.meant!r}?", edits)
