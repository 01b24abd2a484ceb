"""The file holds more than one YAML document.

Why: the old tools read the first document, or refuse the file; what stands behind `---` has no effect.

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
    virtualClusters: {}
    ---
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

ID = "TXT012"
NAME = "more-documents"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """The start of the second document."""
    for mishap in document.mishaps:
        if mishap.trouble is Trouble.MORE_DOCUMENTS:
            yield Finding(
                mishap.at, "a second YAML document starts here and is not read", "put it into a file of its own"
            )
