"""A worker has the address of a master.

Why: one machine is then deployed twice, under two names and in two roles.

Passes::

    # master.csv
    pai-master-1,10.1.0.1
    pai-master-2,10.1.0.2
    pai-master-3,10.1.0.3
    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails with::

    # worker.csv
    -pai-worker-2,10.1.1.2
    +pai-worker-2,10.1.0.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import abridged, address_of
from paictl.config.models.inventory import hosts_in
from paictl.config.reading.kinds import FileKind


@rule("XRF902", "address-in-both-lists", ERROR)
def check(bundle: Bundle) -> Findings:
    """Each worker with another name, but the same address as a master."""
    masters, workers = hosts_in(bundle, FileKind.MASTER_CSV), hosts_in(bundle, FileKind.WORKER_CSV)
    if masters is None or workers is None:
        return
    owners = {address_of(host.address.stripped): host for host in reversed(masters.hosts)}
    for host in workers.hosts:
        address = address_of(host.address.stripped)
        owner = owners.get(address) if address else None
        if owner is not None and owner.key != host.key:
            message = f"{address} is also the address of the master {abridged(owner.name.stripped)}"
            yield Finding(host.address, message, "correct one of the two addresses")
