"""A host list has a blank line.

Why: OpenPAI's generator takes two fields of every line and stops with an IndexError at a blank one, without naming
file or line.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1

    pai-worker-2,10.1.1.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule


@rule("CSV203", "blank-line", ERROR)
def check(document: Document) -> Findings:
    """Each blank line."""
    for row in document.rows:
        if row.blank:
            yield Finding(row, "blank line, at which the old tools crash", "remove it", (Edit(row.whole, ""),))
