"""The list of masters has an even number of machines.

Why: every master runs a member of etcd, which needs a majority: two members tolerate no more failures than one, and
Kubespray refuses an even number. Further masters keep etcd alive but do not make OpenPAI highly available: only the
first one runs its services.

Passes::

    # master.csv
    pai-master-1,10.1.0.1
    pai-master-2,10.1.0.2
    pai-master-3,10.1.0.3

Fails::

    # master.csv
    pai-master-1,10.1.0.1
    pai-master-2,10.1.0.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import host_list
from paictl.config.reading.kinds import FileKind


@rule("CSV214", "even-masters", ERROR)
def check(document: Document) -> Findings:
    """An even number of different masters; the finding stands at the last one."""
    masters = host_list(document)
    hosts, names = masters.hosts, {host.key for host in masters.hosts}
    clear = len(names) == len(hosts) == len(masters.meant) > 0
    if document.kind is FileKind.MASTER_CSV and clear and len(names) % 2 == 0:
        message = f"{len(names)} masters, but etcd needs an odd number and Kubespray refuses others"
        yield Finding(hosts[-1].name, message, f"list {len(names) - 1} or {len(names) + 1} masters")
