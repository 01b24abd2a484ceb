"""A line of a host list gives the address first and the name behind it.

Why: OpenPAI takes the first field as the name; a machine named after its address joins Kubernetes under that name,
and HiveD never finds it.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    10.1.1.2,pai-worker-2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, Span, rule
from paictl.config.models.hosts import host_list


@rule("CSV207", "swapped-fields", ERROR)
def check(document: Document) -> Findings:
    """Each line whose fields make sense the other way round."""
    for row in host_list(document).swapped:
        address, name = row.fields[:2]
        fixed = f"{name.stripped},{address.stripped}"
        edits = (Edit(Span(row.source, address.start, name.end), fixed),)
        yield Finding(row, "the address stands before the host name", f"write {fixed}", edits)
