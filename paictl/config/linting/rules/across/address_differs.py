"""A host has one address in its list and another one in the layout.

Why: one of the two tools that read them deploys to another machine, or to none.

Passes::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails with::

    # worker.csv
    -pai-worker-2,10.1.1.2
    +pai-worker-2,10.1.1.22
"""

from __future__ import annotations

from collections import Counter

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import abridged, address_of
from paictl.config.models.inventory import layout_in, listed_hosts, machines_by_name


@rule("XRF905", "address-differs", ERROR)
def check(bundle: Bundle) -> Findings:
    """Each listed host whose machine in the layout has another address.

    Not where one of the files says it of two machines, or two things of one: LAY413, CSV212 and CSV213 say so.
    """
    found = layout_in(bundle)
    machines = machines_by_name(found[1]) if found else {}
    listed_ones = list(listed_hosts(bundle))
    names = Counter(listed.host.key for listed in listed_ones)
    here = Counter(address_of(listed.host.address.stripped) for listed in listed_ones)
    there = Counter(address_of(machine.address.text) for machine in machines.values() if machine.address)
    for listed in listed_ones:
        host = listed.host
        machine = machines.get(host.key)
        address = address_of(host.address.stripped)
        other = address_of(machine.address.text) if machine and machine.address else None
        if names[host.key] > 1 or here[address] > 1 or there[other] > 1:
            continue
        if found and address and other and address != other:
            message = f"{abridged(host.name.stripped)} has the address {address} here and {other} in {found[0].path}"
            yield Finding(host.address, message, "correct the wrong one")
