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

Fails::

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default: &loop
            again: *loop
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity
from paictl.config.reading.yamltree import Trouble

ID = "TXT008"
NAME = "alias-cycle"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """The alias that closes the cycle."""
    for mishap in document.mishaps:
        if mishap.trouble is Trouble.ALIAS_CYCLE:
            yield Finding(
                mishap.at, f"the alias *{mishap.detail} stands inside what it refers to", "write the value out"
            )
