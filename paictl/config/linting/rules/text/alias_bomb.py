r"""Aliases of aliases unfold to millions of values.

Why: a few lines can fill the memory of every tool that reads them; no real configuration does this.

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
    a: &a [0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]
    c: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b, *b]
    d: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c, *c]
    e: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d, *d]
    f: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e, *e]
    g: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f, *f]
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.reading.yamltree import MAX_EXPANSION, IssueKind


@rule("TXT009", "alias-bomb", ERROR)
def check(document: Document) -> Findings:
    """The alias that goes over the limit."""
    for issue in document.issues:
        if issue.kind is IssueKind.ALIAS_BOMB:
            yield Finding(
                issue.at,
                f"the alias *{issue.detail} makes this file unfold to more than {MAX_EXPANSION:,} values",
                "write the values out",
            )
