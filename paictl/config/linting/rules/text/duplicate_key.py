"""A key stands twice in the same mapping.

Why: YAML forbids it, yet the parsers of OpenPAI and HiveD silently keep the last value, so that the first one, which
may be the one you see, has no effect.

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
    -    - {cellType: NODE, cellNumber: 1}
    +    - {cellType: NODE, cellNumber: 1, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.source import place_of
from paictl.config.reading.yamltree import IssueKind


@rule("TXT005", "duplicate-key", ERROR)
def check(document: Document) -> Findings:
    """Each key after the first of its name."""
    for issue in document.issues:
        if issue.kind is IssueKind.DUPLICATE_KEY and issue.other is not None:
            line = place_of(issue.other).line
            yield Finding(
                issue.at,
                f"key {issue.detail!r} stands twice here, first in line {line}",
                hint="keep one of the two",
            )
