"""A machine has an address that no machine of a cluster can have.

Why: a loopback address leads every machine to itself; 0.0.0.0, broadcast and multicast addresses belong to no single
machine.

Passes::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}

Fails with::

    # layout.yaml
    -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    +- {hostname: pai-worker-2, hostip: 127.0.0.1, machine-type: v100, pai-worker: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import address_fault, address_of
from paictl.config.models.layout import layout_of


@rule("LAY411", "unusable-machine-address", ERROR)
def check(document: Document) -> Findings:
    """Each loopback, unspecified, broadcast, multicast, link-local or reserved IPv4 address."""
    for machine in layout_of(document).machines:
        at = machine.address
        address = address_of(at.text.strip()) if at else None
        fault = address_fault(address) if address and address.version == 4 else None
        if at is not None and fault:
            hint = "write the address under which the other machines reach this one"
            yield Finding(at, f"{address} is {fault} ({machine.words})", hint)
