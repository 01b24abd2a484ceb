"""A host list gives a machine an address that no machine of a cluster can have.

Why: a loopback address leads every machine to itself; 0.0.0.0, broadcast and multicast addresses belong to no single
machine.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,127.0.0.1
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import address_fault, address_of, host_list


@rule("CSV210", "unusable-address", ERROR)
def check(document: Document) -> Findings:
    """Each loopback, unspecified, broadcast, multicast, link-local or reserved address."""
    for host in host_list(document).hosts:
        address = address_of(host.address.stripped)
        fault = address_fault(address) if address else None
        if fault:
            message = f"{address} is {fault} (host {host.name.stripped!r})"
            yield Finding(host.address, message, "write the address under which the other machines reach this one")
