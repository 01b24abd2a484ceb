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

Fails with::

    # hivedscheduler.yaml
       - {cellType: NODE, cellAddress: worker1}
    +virtualClusters: {}
    +---
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.yamltree import IssueKind


@rule("TXT012", "more-documents", ERROR)
def check(document: Document) -> Findings:
    """The start of the second document; of a file of unknown kind nobody knows how many it may hold."""
    for issue in document.issues:
        if issue.kind is IssueKind.MORE_DOCUMENTS and document.kind is not FileKind.UNKNOWN:
            yield Finding(
                issue.at, "a second YAML document starts here and is not read", "put it into a file of its own"
            )
