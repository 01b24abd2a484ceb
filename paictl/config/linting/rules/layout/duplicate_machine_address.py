"""Two machines of the layout have the same address.

Why: one machine is deployed twice, under two names, and Kubernetes knows a node that does not exist.

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
    +- {hostname: pai-worker-2, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import Address, address_of
from paictl.config.models.layout import MachineEntry, layout_of
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import place_of


@rule("LAY413", "duplicate-machine-address", ERROR)
def check(document: Document) -> Findings:
    """Each machine whose address an earlier one of another name has."""
    seen: dict[Address, tuple[MachineEntry, ScalarNode]] = {}
    for machine in layout_of(document).machines:
        at = machine.address
        address = address_of(at.text.strip()) if at else None
        if at is None or address is None:
            continue
        first, place = seen.setdefault(address, (machine, at))
        if first is not machine and (first.key != machine.key or not machine.key):
            message = f"{address} is also the address of {first.words} in line {place_of(place).line}"
            yield Finding(at, message, "correct one of the two addresses")
