"""Two machines of the layout have the same name.

Why: the second replaces the first in Ansible's inventory, so that one machine is never deployed.

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
    +- {hostname: pai-worker-1, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.layout import MachineEntry, layout_of
from paictl.config.reading.source import place_of


@rule("LAY412", "duplicate-machine-name", ERROR)
def check(document: Document) -> Findings:
    """Each machine whose name an earlier one has; upper and lower case are the same name to DNS."""
    seen: dict[str, MachineEntry] = {}
    for machine in layout_of(document).machines:
        at = machine.name
        if at is None:
            continue
        first = seen.setdefault(machine.key, machine)
        if first.name is not None and first is not machine:
            message = f"another machine is called {abridged(at.text)} too, in line {place_of(first.name).line}"
            yield Finding(at, message, "give each machine its own name")
