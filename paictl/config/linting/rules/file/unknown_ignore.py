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

Fails with::

    # hivedscheduler.yaml
    -  physicalCells:
    +  physicalCells: # paictl: ignore=HVD9999
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.linting.rules import is_known
from paictl.config.linting.suppressions import suppressions_in


@rule("TXT016", "unknown-ignore", WARNING)
def check(document: Document) -> Findings:
    """Each word of an ignore comment that matches no rule."""
    if document.host is not None:  # the comments of an embedded text belong to its host
        return
    for word in suppressions_in(document.source):
        if not is_known(word.text):
            yield Finding(word, f"no rule matches {word.text!r}, so nothing is ignored", "see: paictl config rules")
