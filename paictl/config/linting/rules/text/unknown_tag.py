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

Fails with::

    # hivedscheduler.yaml
    -  default:
    +  default: !vault
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT007", "unknown-tag", ERROR)
def check(document: Document) -> Findings:
    """Each tag outside the YAML core."""
    for issue in document.issues:
        if issue.kind is IssueKind.UNKNOWN_TAG:
            yield Finding(issue.at, f"the tag {issue.detail} is not understood", "remove the tag")
