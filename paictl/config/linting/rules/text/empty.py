"""The file holds nothing but comments.

Why: the tools go on with their defaults; if settings were meant to stand here, they are commented out.

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
    # physicalCluster: …
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.reading.kinds import Kind
from paictl.config.reading.yamltree import IssueKind


@rule("TXT013", "empty-file", WARNING)
def check(document: Document) -> Findings:
    """A file or embedded text without a value; a service may do without defaults."""
    if document.kind is Kind.SERVICE_DEFAULTS:
        return
    for issue in document.issues:
        if issue.kind is IssueKind.EMPTY:
            yield Finding(
                issue.at, "nothing is set in this file", "remove the # before what you want to set, or remove the file"
            )
