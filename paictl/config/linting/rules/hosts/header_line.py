"""A host list starts with a line of headings.

Why: host lists have no headings: OpenPAI takes the line for a machine, and the deployment waits for a host called
`hostname`.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    hostname,ip
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.hosts import host_list


@rule("CSV202", "header-line", ERROR)
def check(document: Document) -> Findings:
    """The line of headings, if the first line is one."""
    header = host_list(document).header
    if header is not None:
        message = "a line of headings, which is read as a host"
        yield Finding(header, message, "remove the line", (Edit(header.whole, ""),))
