"""An alias refers to something that it is itself a part of.

Why: such a value has no end; the tools hang or crash on it.

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
    -  default:
    +  default: &loop
    +        again: *loop
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import Trouble


@rule("TXT008", "alias-cycle", ERROR)
def check(document: Document) -> Findings:
    """The alias that closes the cycle."""
    for mishap in document.mishaps:
        if mishap.trouble is Trouble.ALIAS_CYCLE:
            yield Finding(
                mishap.at, f"the alias *{mishap.detail} stands inside what it refers to", "write the value out"
            )
