"""An alias refers to an anchor that is not defined before it.

Why: a text that starts with `*` is an alias in YAML; without the anchor the file cannot be read.

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
      - {cellType: NODE, cellAddress: *worker}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity
from paictl.config.reading.yamltree import Trouble

ID = "TXT010"
NAME = "unknown-alias"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """The alias without an anchor."""
    for mishap in document.mishaps:
        if mishap.trouble is Trouble.UNKNOWN_ALIAS:
            yield Finding(
                mishap.at,
                f"there is no anchor &{mishap.detail} before this alias",
                "define the anchor, or quote the text if it is none",
            )
