"""A value carries a YAML tag that the tools do not know.

Why: `!vault`, `!Ref` and the like belong to other programs; OpenPAI's loaders refuse the whole file.

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
      default: !vault
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity
from paictl.config.reading.yamltree import Trouble

ID = "TXT007"
NAME = "unknown-tag"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Each tag outside the YAML core."""
    for mishap in document.mishaps:
        if mishap.trouble is Trouble.UNKNOWN_TAG:
            yield Finding(mishap.at, f"the tag {mishap.detail} is not understood", "remove the tag")
