"""The text is not valid YAML.

Why: nothing behind the mistake can be read. The place is where the parser gave up: the cause is there or shortly
before, most often an indentation that does not match, a missing colon or an unclosed bracket or quote.

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
    -virtualClusters:
    +virtualClusters: [
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamlerrors import HINT
from paictl.config.reading.yamltree import IssueKind


@rule("TXT001", "syntax-error", ERROR)
def check(document: Document) -> Findings:
    """Where the scanner gave up."""
    for issue in document.issues:
        if issue.kind is IssueKind.SYNTAX:
            yield Finding(
                issue.at,
                f"not valid YAML: {issue.detail}",
                issue.hint or HINT,
            )
