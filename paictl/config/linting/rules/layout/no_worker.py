"""No machine is a worker.

Why: jobs run on machines with pai-worker: "true"; without any the deployment stops.

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

Fails::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
    machine-list:
    - {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.layout import layout_of


@rule("LAY416", "no-worker", ERROR)
def check(document: Document) -> Findings:
    """No pai-worker; the finding stands at the list."""
    layout = layout_of(document)
    if layout.machines and not any(layout.with_role("pai-worker")):
        if any(machine.misspells("pai-worker") for machine in layout.machines):
            return
        at = document.top.key("machine-list") or document.beginning
        yield Finding(at, "no machine is a worker, so that no job can run", 'give machines pai-worker: "true"')
