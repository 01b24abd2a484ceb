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

Fails with::

    # hivedscheduler.yaml
    -  - {cellType: NODE, cellAddress: worker1}
    +  - {cellType: NODE, cellAddress: *worker}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT010", "unknown-alias", ERROR)
def check(document: Document) -> Findings:
    """The alias without an anchor."""
    for issue in document.issues:
        if issue.kind is IssueKind.UNKNOWN_ALIAS:
            yield Finding(
                issue.at,
                f"there is no anchor &{issue.detail} before this alias",
                "define the anchor, or quote the text if it is none",
            )
