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

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import host_list
from paictl.config.reading.kinds import FileKind


@rule("CSV216", "no-host", ERROR)
def check(document: Document) -> Findings:
    """A list in which nothing is meant as a host."""
    if not host_list(document).meant:
        what = "master" if document.kind is FileKind.MASTER_CSV else "worker"
        yield Finding(document.beginning, f"the list names no {what}", f"write a line hostname,address for each {what}")
