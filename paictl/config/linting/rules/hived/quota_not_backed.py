"""The promises fit the numbers of the cell types, but not the cells that are really there.

Why: A cell that lists fewer children than its type cannot be promised as a whole, nor can one that holds a pinned cell.
HiveD does not see that: it starts, and crashes or waits when the promise is to be kept.

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

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
        RACK: {childCellType: NODE, childCellNumber: 2}
      physicalCells:
      - cellType: RACK
        cellChildren:
        - {cellAddress: worker1, pinnedCellId: box1}
        - {cellAddress: worker2}
      - cellType: RACK
        cellChildren:
        - {cellAddress: worker3, pinnedCellId: box2}
        - {cellAddress: worker4}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: RACK, cellNumber: 1}
        pinnedCells:
        - {pinnedCellId: box1}
        - {pinnedCellId: box2}
"""

from __future__ import annotations

from paictl.cells.quota import Shortfall
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived_quota import Balance, balances, breaking, shares


@rule("HVD526", "quota-not-backed", ERROR)
def check(document: Document) -> Findings:
    """Each level whose quotas fit by number (else HVD525) but not once incomplete and pinned cells are left out."""
    for balance in balances(document):
        if not balance.shortfalls():
            for short in balance.unbacked():
                yield _finding(balance, short)


def _finding(balance: Balance, short: Shortfall) -> Finding:
    kind = balance.chain.types[short.level]
    reasons = [f"{balance.incomplete} cells list too few children"] if balance.incomplete > 1 else []
    reasons += ["a cell lists too few children"] if balance.incomplete == 1 else []
    reasons += ["pinned cells break up larger ones"] if any(balance.pinned) else []
    message = (
        f"chain {balance.chain.name}, level {short.level}: {short.needed} {kind} cells are promised "
        f"({shares(balance, short.level, pinned=False)}), but only {short.available} are whole"
    )
    hint = f"{' and '.join(reasons)}: promise {short.needed - short.available} fewer, or add cells"
    return Finding(breaking(balance, short, pinned=False).number_at, message, hint)
