"""A number is read as another one than its digits say.

Why: YAML 1.1 reads `012` as ten (octal) and `12:30` as 750 (sixty to the hour); other readers do not, so that two
tools see two numbers.

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
    +    - {cellType: NODE, cellNumber: 01}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import IssueKind
from paictl.config.secrets.redaction import is_secret


@rule("TXT014", "surprising-number", WARNING)
def check(document: Document) -> Findings:
    """Each number in octal, hexadecimal, binary or base sixty, or with underscores; not where a string is wanted."""
    mistyped = {violation.node.start for violation in document.violations if violation.keyword == "type"}
    for issue in document.issues:
        if issue.kind is not IssueKind.SURPRISING_NUMBER or issue.at.start in mistyped:
            continue
        if is_secret(issue.at):
            yield Finding(issue.at, "the value is read as another number than its digits say", "put it in quotes")
            continue
        written = issue.at.source.text[issue.at.start : issue.at.end]
        hint = f"write {issue.detail}, or put it in quotes if it is text"
        yield Finding(issue.at, f"{written} is read as the number {issue.detail}", hint)
