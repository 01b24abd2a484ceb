"""A host list names a machine as no machine of a Kubernetes cluster can be named.

Why: Kubernetes takes the name as a node's name, which is letters, digits and '-' in lower case (RFC 1123), at most 63
characters between dots. Kubespray stops, or the node joins under another name than the one that HiveD waits for.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    PAI_Worker_2,10.1.1.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Edit, Finding, Findings, rule
from paictl.config.models.hosts import NAME_FORM, abridged, host_list, name_fault


@rule("CSV208", "bad-host-name", ERROR)
def check(document: Document) -> Findings:
    """Each bad name; one that is only written in upper case can be repaired."""
    for host in host_list(document).hosts:
        name = host.name.stripped
        fault = name_fault(name)
        if fault is None or '"' in name:
            continue
        lower = name.lower()
        message = f"host name {abridged(name)} {fault}" if name else "the host name is empty"
        if lower != name and name_fault(lower) is None:
            yield Finding(host.name, message, f"write {lower}", (Edit(host.name, lower),))
        else:
            yield Finding(host.name, message, NAME_FORM)
