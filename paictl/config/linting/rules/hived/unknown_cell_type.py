"""A top cell is of a type that is not defined.

Why: HiveD cannot build the cell: it stops at start, naming nothing, or takes the cell for a single device.

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

Fails with::

    # hivedscheduler.yaml
    -  - {cellType: NODE, cellAddress: worker1}
    +  - {cellType: NDOE, cellAddress: worker1}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.reading.nodes import MappingNode


@rule("HVD505", "unknown-cell-type", ERROR)
def check(document: Document) -> Findings:
    """Each misspelt type of a top cell; a type without definition once."""
    model = hived(document)
    if not isinstance(model.physical.get("cellTypes"), MappingNode):
        return  # without the section no type is defined, which the schema has said
    seen: set[str] = set()
    for top in model.tops:
        name = top.at.text
        if top.meant is not None:
            edits = renamed(top.at, top.meant)
            yield Finding(top.at, f"cell type {name!r} is not defined", f"did you mean {top.meant!r}?", edits)
        elif name not in model.types.by_name and name not in seen:
            seen.add(name)
            if name in model.types.leaves:
                message = f"{name} is a device type; a top cell must be a node or consist of nodes"
                yield Finding(top.at, message, "name the cell type that consists of such devices")
            else:
                yield Finding(top.at, f"cell type {name!r} is not defined", f"define {name} in cellTypes")
