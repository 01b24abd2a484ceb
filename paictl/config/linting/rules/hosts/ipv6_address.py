"""A host list gives a machine an IPv6 address.

Why: the machine layout made from the list accepts IPv4 only, and OpenPAI's services put addresses into URLs without
brackets.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,fd00::2
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hosts import address_fault, address_of, host_list


@rule("CSV211", "ipv6-address", WARNING)
def check(document: Document) -> Findings:
    """Each usable IPv6 address (CSV210 speaks of those that are not usable)."""
    for host in host_list(document).hosts:
        address = address_of(host.address.stripped)
        if address is not None and address.version == 6 and not address_fault(address):
            message = f"{address} is an IPv6 address, which OpenPAI does not support (host {host.name.stripped!r})"
            yield Finding(host.address, message, "write the IPv4 address of the machine")
