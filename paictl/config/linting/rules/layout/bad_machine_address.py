"""A machine's hostip is no IPv4 address.

Why: OpenPAI checks that there are four numbers and lets 999.1.1.1 pass; the deployment then waits for SSH at an
address that does not exist.

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
    +- {hostname: pai-worker-2, hostip: 999.1.1.1, machine-type: v100, pai-worker: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged, address_of, malformed_address_hint
from paictl.config.models.layout import layout_of


@rule("LAY410", "bad-machine-address", ERROR)
def check(document: Document) -> Findings:
    """Each hostip that cannot be read as an IPv4 address."""
    for machine in layout_of(document).machines:
        at = machine.address
        address = address_of(at.text.strip()) if at else None
        if at is None or (address is not None and address.version == 4):
            continue
        if address is not None:
            yield Finding(at, f"{at.text} is an IPv6 address ({machine.words})", "write the machine's IPv4 address")
        else:
            message = f"{abridged(at.text)} is no IP address ({machine.words})"
            yield Finding(at, message, malformed_address_hint(at.text))
