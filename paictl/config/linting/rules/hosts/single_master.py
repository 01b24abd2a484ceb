"""The list of masters has one machine only.

Why: when it fails, the cluster stands still: etcd and the API server live on it. With three masters etcd survives the
loss of one; OpenPAI's own services run on the first master in either case.

Passes::

    # master.csv
    pai-master-1,10.1.0.1
    pai-master-2,10.1.0.2
    pai-master-3,10.1.0.3

Fails::

    # master.csv
    pai-master-1,10.1.0.1
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.hosts import host_list
from paictl.config.reading.kinds import FileKind


@rule("CSV215", "single-master", INFO)
def check(document: Document) -> Findings:
    """A list of masters with a single line."""
    masters = host_list(document)
    hosts = masters.hosts
    if document.kind is FileKind.MASTER_CSV and len(hosts) == len(masters.meant) == 1:
        message = f"{hosts[0].name.stripped!r} is the only master, so that etcd does not survive its loss"
        yield Finding(hosts[0].name, message, "list three masters if the cluster has to go on without one")
