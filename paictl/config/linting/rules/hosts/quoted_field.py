"""A field of a host list stands in quotes.

Why: OpenPAI's Python reads the quotes away, its shell scripts do not. A quote that is never closed swallows the lines
after it.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    "pai-worker-2","10.1.1.2"
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Edit, Finding, Findings, Severity, rule


@rule("CSV206", "quoted-field", WARNING)
def check(document: Document) -> Findings:
    """Each field with quotes; an error where they do not come in pairs."""
    for row in document.rows:
        if row.comment:
            continue
        for field in row.fields[:2]:
            if field.written.count('"') % 2:
                message = 'a quote (") that is never closed, so that the following lines count as this field'
                yield Finding(field, message, "remove the quote", severity=Severity.ERROR)
            elif '"' in field.written:
                hint = f"write it without: {field.stripped}"
                edits = (Edit(field, field.stripped),) if '"' not in field.text else ()
                yield Finding(field, f"{field.stripped!r} stands in quotes", hint, edits)
