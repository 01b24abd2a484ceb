r"""The file is not UTF-8 text.

Why: OpenPAI's tools and HiveD read UTF-8 only; other encodings fail or turn names into other names.

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
    physicalCluster: {}  # caf\xe9
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT003", "not-utf-8", ERROR)
def check(document: Document) -> Findings:
    """The first byte that is not UTF-8."""
    for issue in document.issues:
        if issue.kind is IssueKind.ENCODING:
            yield Finding(issue.at, issue.detail, "save the file as UTF-8 (iconv -t UTF-8)")
