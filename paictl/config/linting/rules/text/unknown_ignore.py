"""A comment asks to ignore a rule that does not exist.

Why: a typo in `# paictl: ignore=…` silences nothing, and whoever wrote it believes that it does.

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

    # hivedscheduler.yaml
    physicalCluster:
      cellTypes:
        NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
      physicalCells: # paictl: ignore=HVD9999
      - {cellType: NODE, cellAddress: worker1}
    virtualClusters:
      default:
        virtualCells:
        - {cellType: NODE, cellNumber: 1}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rules import is_known
from paictl.config.linting.silence import ignored_words
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "TXT016"
NAME = "unknown-ignore"
SEVERITY = Severity.WARNING


def check(document: Document) -> Iterator[Finding]:
    """Each word of an ignore comment that matches no rule."""
    if document.host is not None:  # the comments of an embedded text belong to its host
        return
    for word in ignored_words(document.source):
        if not is_known(word.text):
            yield Finding(word, f"no rule matches {word.text!r}, so nothing is ignored", "see: paictl config rules")
