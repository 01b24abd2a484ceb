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

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Located, rule
from paictl.config.reading.source import place_of
from paictl.config.reading.yamltree import IssueKind


@rule("TXT005", "duplicate-key", ERROR)
def check(document: Document) -> Findings:
    """Each key after the first of its name."""
    merged = 0
    for issue in document.issues:
        if issue.kind is IssueKind.DUPLICATE_KEY and issue.other is not None:
            line = place_of(issue.other).line
            if line <= merged:
                continue
            if _begins_item(issue.other):
                merged = place_of(issue.at).line - 1
                message = f"key {issue.detail!r} stands twice in one item of a list, first in line {line}"
                yield Finding(issue.at, message, hint="begin the next item with '- ', or keep one of the two")
                continue
            merged = 0
            yield Finding(
                issue.at,
                f"key {issue.detail!r} stands twice here, first in line {line}",
                hint="keep one of the two",
            )


def _begins_item(key: Located) -> bool:
    """Whether a key is the first of a list's item; the keys below a forgotten dash are then all there twice."""
    line = key.source.text.rfind("\n", 0, key.start) + 1
    return key.source.text[line : key.start].strip(" ") == "-"
