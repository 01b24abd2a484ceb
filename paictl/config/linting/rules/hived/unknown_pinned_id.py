"""A virtual cluster names a pinned cell that does not exist.

Why: HiveD stops at start; the id must be the pinnedCellId of a physical cell.

Passes::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
      - {cellType: NODE, cellAddress: worker2, pinnedCellId: web-box}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
      web:
        pinnedCells:
        - {pinnedCellId: web-box}

Fails with::

    # hivedscheduler.yaml
    -    - {pinnedCellId: web-box}
    +    - {pinnedCellId: web-bxo}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived import HivedConfig, hived


@rule("HVD518", "unknown-pinned-id", ERROR)
def check(document: Document) -> Findings:
    """Each pinned cell id of a virtual cluster that no physical cell has."""
    model = hived(document)
    for promise in model.promises:
        if promise.pin_id is None or promise.pin_id in model.pins:
            continue
        message = f"no physical cell has the pinnedCellId {promise.pin_id!r} that {promise.vc} names"
        if promise.meant is not None:
            meant = promise.pinned
            theirs = meant is not None and any(other.pin_id == promise.meant for other in model.promises)
            edits = () if theirs else renamed(promise.at, promise.meant)
            yield Finding(promise.at, message, f"did you mean {promise.meant!r}?", edits)
        else:
            yield Finding(promise.at, message, _hint(model, promise.pin_id))


def _hint(model: HivedConfig, name: str) -> str:
    """What to write: the pin of the cell of that address, the one pin that is free, or a new one."""
    by_address = [cell.pin.text for cell in model.pins.values() if cell.address and cell.name == name and cell.pin]
    free = [pin for pin, cell in model.pins.items() if cell not in model.claimed]
    if by_address:
        return f"did you mean {by_address[0]!r}, the pinnedCellId of the cell {name}?"
    if len(free) == 1:
        return f"did you mean {free[0]!r}, which no virtual cluster names?"
    return "give it to the physical cell that is meant, as its pinnedCellId"
