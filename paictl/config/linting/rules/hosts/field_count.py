"""A line of a host list has not exactly two fields.

Why: OpenPAI takes the first field as host name and the second as address. With one field it stops with an IndexError;
further fields it ignores without a word.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2 10.1.1.2
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, Severity, Span, rule
from paictl.config.models.hosts import address_of, host_list, name_fault
from paictl.config.reading.csvtable import Row


@rule("CSV201", "field-count", ERROR)
def check(document: Document) -> Findings:
    """Each line with another number of fields; only a warning where there are more, which the tools ignore."""
    header = host_list(document).header
    for row in document.rows:
        if row.comment or row is header or len(row.fields) in (0, 2):
            continue
        if len(row.fields) > 2:
            at = Span(row.source, row.fields[2].start - 1, row.end)
            message = f"{len(row.fields)} fields; what follows the second is ignored"
            yield Finding(at, message, "write hostname,address and nothing else", (Edit(at, ""),), Severity.WARNING)
        else:
            yield _lone(row)


def _lone(row: Row) -> Finding:
    """One field: most often the two stand there with something else between them."""
    field = row.fields[0]
    message = f"only one field, {field.stripped!r}, where a host name and an address belong"
    parts = re.split(r"[;\s]+", field.stripped)
    if len(parts) == 2 and name_fault(parts[0].lower()) is None and address_of(parts[1]):
        fixed = ",".join(parts)
        return Finding(row, message, f"separate the two by a comma: {fixed}", (Edit(row, fixed),))
    return Finding(row, message, "write hostname,address")
