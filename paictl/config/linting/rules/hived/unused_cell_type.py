"""A cell type is defined, but no physical cell is of it or contains it.

Why: It is kept for later, or a cell that should use it uses another type.

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
       cellTypes:
    +    RACK: {childCellType: NODE, childCellNumber: 2}
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.hived import HivedConfig, hived


@rule("HVD507", "unused-cell-type", INFO)
def check(document: Document) -> Findings:
    """Each unused type that lies in no other unused one."""
    model = hived(document)
    if not model.tops or any(top.cell is None and top.at.text not in model.chains for top in model.tops):
        return  # cells whose type is unknown may be meant to be of these
    used = _used(model)
    unused = [name for name in model.types.by_name if name not in used]
    inner = {model.types.by_name[name].child for name in unused}
    for name in unused:
        if name not in inner:
            message = f"no physical cell is of the type {name} or contains it"
            yield Finding(model.types.by_name[name].key, message, "remove it, or list cells of it in physicalCells")


def _used(model: HivedConfig) -> set[str]:
    """The types of all chains, and those in circles, which have a rule of their own."""
    used = {name for circle in model.types.cycles for name in circle}
    for top in model.chains:
        name: str | None = top
        while name in model.types.by_name and (name not in used or name == top):
            used.add(name)
            name = model.types.by_name[name].child
            if name == top:
                break
    return used
