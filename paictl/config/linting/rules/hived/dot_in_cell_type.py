"""The name of a cell type holds a dot.

Why: Virtual clusters name cells by a path whose parts are joined by dots, so that no virtual cluster can be promised a
cell of this type, nor of any type below it.

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
        NODE.V2: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE.V2, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE.V2, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Severity, rule
from paictl.config.models.hived import hived


@rule("HVD506", "dot-in-cell-type", ERROR)
def check(document: Document) -> Findings:
    """Each cell type with a dot in its name; a warning for device types, whose parents still can be promised."""
    types = hived(document).types
    message = "the name {} holds a dot, which separates the parts of a path"
    for name, cell_type in types.by_name.items():
        if "." in name:
            yield Finding(cell_type.key, message.format(name), f"rename it, e.g. {name.replace('.', '-')}")
    for name, at in types.leaves.items():
        if "." in name:
            hint = f"rename it, e.g. {name.replace('.', '-')}"
            yield Finding(at, message.format(name), hint, severity=Severity.WARNING)
