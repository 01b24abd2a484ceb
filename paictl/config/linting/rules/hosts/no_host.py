"""A host list names no machine.

Why: a cluster needs a master and at least one worker; OpenPAI's generator stops with an IndexError, or deploys a
cluster that runs no job.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    hostname,ip
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.hosts import host_list
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import Kind
from paictl.config.reading.problem import Finding, Severity

ID = "CSV216"
NAME = "no-host"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """A list in which nothing is meant as a host."""
    if not host_list(document).meant:
        what = "master" if document.kind is Kind.MASTER_CSV else "worker"
        yield Finding(document.beginning, f"the list names no {what}", f"write a line hostname,address for each {what}")
