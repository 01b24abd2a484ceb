"""The file holds nothing but comments.

Why: the tools go on with their defaults, or stop; rules across files have nothing to compare with. If settings were
meant to stand here, they are commented out. Where nothing tells what the file should be, it is a warning.

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

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Severity, rule
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.yamltree import IssueKind


@rule("TXT013", "empty-file", ERROR)
def check(document: Document) -> Findings:
    """A file or embedded text without a value; a service may do without defaults."""
    if document.kind is FileKind.SERVICE_DEFAULTS:
        return
    for issue in document.issues:
        if issue.kind is IssueKind.EMPTY:
            hint = "remove the # before what you want to set, or remove the file"
            severity = Severity.WARNING if document.kind is FileKind.UNKNOWN else None
            yield Finding(issue.at, "nothing is set in this file", hint, severity=severity)
