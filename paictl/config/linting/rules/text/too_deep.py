r"""Values are nested deeper than any real file.

Why: tools that read by recursion crash on such input.

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
      [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
      [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[
      ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
      ]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT011", "too-deep", ERROR)
def check(document: Document) -> Findings:
    """Where the limit is passed."""
    for issue in document.issues:
        if issue.kind is IssueKind.TOO_DEEP:
            yield Finding(
                issue.at, f"nested deeper than {issue.detail} levels", "this is most likely not a configuration file"
            )
