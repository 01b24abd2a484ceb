"""A host list gives something as an address that is no IP address.

Why: the address goes unchecked into Ansible's inventory, and the deployment fails after minutes of waiting for SSH.

Passes::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails::

    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.256
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import address_of, host_list, malformed_address_hint


@rule("CSV209", "bad-address", ERROR)
def check(document: Document) -> Findings:
    """Each second field that cannot be read as an IPv4 or IPv6 address."""
    for host in host_list(document).hosts:
        text = host.address.stripped
        if address_of(text) is None and '"' not in text:
            shown = f"{text!r} is no IP address" if text else "the address is empty"
            yield Finding(host.address, f"{shown} (host {host.name.stripped!r})", malformed_address_hint(text))
