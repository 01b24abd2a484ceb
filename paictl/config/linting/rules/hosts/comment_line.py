"""A host list has a comment.

Why: host lists know no comments: a line that starts with `#` is read as a machine whose name starts with `#`, or ends
in an IndexError if it has no comma.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    # broken since May: pai-worker-2,10.1.1.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule


@rule("CSV204", "comment-line", ERROR)
def check(document: Document) -> Findings:
    """Each line that starts with `#`, those for paictl itself included: the old tools read them no better."""
    for row in document.rows:
        if row.comment:
            yield Finding(row, "a comment, which is read as a host", "remove the line, or keep the note elsewhere")
