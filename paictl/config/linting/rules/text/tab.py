r"""A line is indented with a tab.

Why: YAML allows only spaces there, and the message of most parsers for it is of no help.

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

    # hivedscheduler.yaml (escaped)
    physicalCluster:
    \tcellTypes: {}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT002", "tab-in-indentation", ERROR)
def check(document: Document) -> Findings:
    """The first tab in an indentation, where the text cannot be read because of it."""
    for issue in document.issues:
        if issue.kind is IssueKind.TAB:
            yield Finding(issue.at, "a tab indents this line, YAML allows only spaces", "replace the tab by spaces")
