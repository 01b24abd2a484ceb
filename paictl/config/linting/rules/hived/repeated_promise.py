"""A virtual cluster lists the same cells in two entries.

Why: HiveD adds the numbers up. Whoever changes one of the entries may believe that it stands for all.

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
    -    - {cellType: NODE, cellNumber: 2}
    +    - {cellType: NODE, cellNumber: 1}
    +    - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.hived import hived
from paictl.config.models.hived_promises import Promise
from paictl.config.reading.source import place_of


@rule("HVD537", "repeated-promise", INFO)
def check(document: Document) -> Findings:
    """Each entry for a chain and level that an earlier one of the virtual cluster has."""
    for vc in hived(document).vcs:
        seen: dict[tuple[str, int], Promise] = {}
        for promise in vc.promises:
            if promise.chain is None or not promise.level or promise.pin_id is not None:
                continue
            first = seen.setdefault((promise.chain.name, promise.level), promise)
            if first is not promise:
                line = place_of(first.at).line
                message = f"{vc.name} is promised {promise.type} cells of {promise.chain.name} in line {line} already"
                yield Finding(promise.at, message, "make one entry of the two; the numbers add up")
