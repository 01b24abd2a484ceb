"""A host list gives two machines the same address.

Why: Ansible deploys one machine twice, under two names, and Kubernetes knows a node that does not exist.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2
    pai-worker-3,10.1.1.1
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import Address, HostRow, address_of, host_list
from paictl.config.reading.source import place_of


@rule("CSV213", "duplicate-address", ERROR)
def check(document: Document) -> Findings:
    """Each line that gives an address of an earlier line to another name."""
    seen: dict[Address, HostRow] = {}
    for host in host_list(document).hosts:
        address = address_of(host.address.stripped)
        if address is None:
            continue
        first = seen.setdefault(address, host)
        if first.key != host.key:
            message = f"address {address} is also that of {first.name.stripped!r} in line {place_of(first.row).line}"
            yield Finding(host.address, message, "correct one of the two addresses")
