"""A cell lists more or fewer children than its type has.

Why: HiveD accepts it and computes quotas from the type or from the first cell of a level, so that virtual clusters are
promised cells that do not exist.

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
    -    - {cellAddress: worker2}
    @@
    -    - {cellType: RACK.NODE, cellNumber: 2}
    +    - {cellType: RACK.NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections import defaultdict

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_cells import Cell
from paictl.config.models.hived_types import CellTypes


@rule("HVD515", "children-count", ERROR)
def check(document: Document) -> Findings:
    """Each cell whose list of children has another length; where all cells of a type agree, their type."""
    model = hived(document)
    listed: dict[str, list[Cell]] = defaultdict(list)
    for cell in model.cells:
        if cell.listed and cell.chain.countable:
            listed[cell.type].append(cell)
    for cells in listed.values():
        wanted = cells[0].chain.fanout[cells[0].level]
        lengths = {cell.listed for cell in cells}
        if len(cells) > 1 and len(lengths) == 1 and wanted not in lengths and cells[0].level > LEAF_LEVEL:
            yield from _type_is_wrong(model.types, cells)
        else:
            yield from (_cell_is_wrong(cell, wanted) for cell in cells if cell.listed != wanted)


def _type_is_wrong(types: CellTypes, cells: list[Cell]) -> Findings:
    name, count = cells[0].type, cells[0].listed
    at = types.by_name[name].spec.scalar("childCellNumber")
    if at is not None:
        message = f"childCellNumber of {name} is {at.text}, but all {len(cells)} {name} cells list {count} children"
        yield Finding(at, message, f"write {count}, or correct the cells", (Edit(at, str(count)),))


def _cell_is_wrong(cell: Cell, wanted: int) -> Finding:
    at = cell.spec.key("cellChildren") or cell.place
    if cell.level == LEAF_LEVEL:
        return Finding(at, f"{cell.type} is a device type, whose cells have no children", "remove cellChildren")
    noun, verb = "child" if wanted == 1 else "children", "is" if cell.listed == 1 else "are"
    message = f"a {cell.type} cell has {wanted} {noun}, {cell.listed} {verb} listed"
    if cell.listed < wanted:
        return Finding(at, message, "list all of them, or define a cell type for such smaller cells")
    return Finding(at, message, f"remove {cell.listed - wanted} of them, or correct childCellNumber of {cell.type}")
