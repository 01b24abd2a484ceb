"""An alias refers to something that it is itself a part of.

Why: such a value has no end; the tools hang or crash on it.

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
    +  default: &loop
    +        again: *loop
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT008", "alias-cycle", ERROR)
def check(document: Document) -> Findings:
    """The alias that closes the cycle."""
    for issue in document.issues:
        if issue.kind is IssueKind.ALIAS_CYCLE:
            yield Finding(issue.at, f"the alias *{issue.detail} stands inside what it refers to", "write the value out")
