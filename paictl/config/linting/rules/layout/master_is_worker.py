"""A machine is master and worker.

Why: jobs would take memory and disk from the API server and from OpenPAI's own services; the deployment stops at such
a machine.

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
    -- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    +- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true", pai-worker: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.layout import layout_of


@rule("LAY417", "master-is-worker", ERROR)
def check(document: Document) -> Findings:
    """Each machine with both roles; the finding stands at the second one."""
    for machine in layout_of(document).with_role("pai-master"):
        worker = machine.has("pai-worker")
        if worker is not None:
            yield Finding(worker, f"{machine.words} is master and worker", "leave pai-worker out")
