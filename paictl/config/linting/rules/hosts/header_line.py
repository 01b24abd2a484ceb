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

from collections.abc import Iterator

from paictl.config.models.hosts import host_list
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Edit, Finding, Severity

ID = "CSV202"
NAME = "header-line"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """The line of headings, if the first line is one."""
    header = host_list(document).header
    if header is not None:
        message = "a line of headings, which is read as a host"
        yield Finding(header, message, "remove the line", (Edit(header.whole, ""),))
