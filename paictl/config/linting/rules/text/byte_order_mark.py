r"""The file starts with a byte order mark.

Why: some Windows editors write one. In a host list it becomes part of the first host name; elsewhere it is merely
invisible.

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
    \xef\xbb\xbfphysicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells:
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Edit, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind


@rule("TXT004", "byte-order-mark", WARNING)
def check(document: Document) -> Findings:
    """The mark at the start of the file."""
    for issue in document.issues:
        if issue.kind is IssueKind.BYTE_ORDER_MARK:
            yield Finding(
                issue.at,
                "the file starts with a byte order mark (BOM)",
                "save it as UTF-8 without BOM",
                (Edit(document.source.byte_order_mark, ""),),
            )
