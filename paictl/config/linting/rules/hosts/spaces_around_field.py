"""A field of a host list has spaces around it.

Why: the spaces become part of the name or address: two spellings of one host are two hosts, and scripts that cut at
the comma look for a host that is not there.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2, 10.1.1.2
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Edit, Finding, Findings, rule


@rule("CSV205", "spaces-around-field", WARNING)
def check(document: Document) -> Findings:
    """Each field with white space before or behind it."""
    for row in document.rows:
        if row.comment:
            continue
        for field in row.fields[:2]:
            if field.text != field.stripped or field.written != field.written.strip():
                hint = f"remove them: {field.stripped}"
                yield Finding(field, f"spaces around {field.stripped!r}", hint, (Edit(field, field.stripped),))
