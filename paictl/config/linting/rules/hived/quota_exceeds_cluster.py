"""Virtual clusters are promised more cells than there are.

Why: Quotas fit if at every level, from the top of a chain down, the cells that are left after all larger promises
suffice. A pinned cell counts at its level. HiveD stops at start if they do not.

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
    -    - {cellType: RACK.NODE, cellNumber: 2}
    +    - {cellType: RACK.NODE, cellNumber: 3}
"""

from __future__ import annotations

from paictl.cells.quota import Shortfall
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hived_quota import Balance, balances, breaking, shares


@rule("HVD525", "quota-exceeds-cluster", ERROR)
def check(document: Document) -> Findings:
    """Each level of a chain whose quotas do not fit, at the promise that is one too many."""
    for balance in balances(document):
        for short in balance.shortfalls():
            yield _finding(balance, short)


def _finding(balance: Balance, short: Shortfall) -> Finding:
    kind = balance.chain.types[short.level]
    verb = "is" if short.available == 1 else "are"
    message = (
        f"chain {balance.chain.name}, level {short.level}: {short.needed} {kind} cells are promised "
        f"({shares(balance, short.level)}), {short.available} {verb} available"
    )
    larger = [shares(balance, level, named=True) for level in range(balance.chain.top, short.level, -1)]
    taken = ", ".join(filter(None, larger))
    hint = f"promise {short.needed - short.available} fewer, or add cells"
    hint += f"; larger promises come first: {taken}" if taken else ""
    return Finding(breaking(balance, short).number_at, message, hint)
