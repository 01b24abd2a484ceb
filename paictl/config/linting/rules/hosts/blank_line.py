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

from collections.abc import Iterator

from paictl.config.reading.document import Document
from paictl.config.reading.problem import Edit, Finding, Severity

ID = "CSV203"
NAME = "blank-line"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """Each blank line."""
    for row in document.rows:
        if row.blank:
            yield Finding(row, "blank line, at which the old tools crash", "remove it", (Edit(row.whole, ""),))
