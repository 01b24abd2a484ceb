"""A key is a list or a mapping.

Why: YAML allows it, none of the tools can use it. Most often it is a template such as `{{ name }}` without quotes.

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
    +  {{ vc }}:
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT006", "odd-key", ERROR)
def check(document: Document) -> Findings:
    """Each key that is no scalar."""
    for issue in document.issues:
        if issue.kind is IssueKind.ODD_KEY:
            yield Finding(issue.at, "a list or mapping stands where a key is wanted", "quote it if it is meant as text")
