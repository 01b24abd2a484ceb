"""A machine has no role.

Why: it becomes a node of Kubernetes on which neither services nor jobs run, and nobody notices. In the legacy form
further masters are such machines; there the rule is silent.

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
    -- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    +- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "false"}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.layout import ROLES, is_legacy, layout_of


@rule("LAY414", "no-role", WARNING)
def check(document: Document) -> Findings:
    """Each machine without a role, in layouts of the newest form."""
    if is_legacy(document):
        return
    for machine in layout_of(document).machines:
        if not any(machine.has(role) or machine.misspells(role) for role in ROLES):
            hint = 'add pai-worker: "true", or remove the machine'
            yield Finding(machine.place, f"{machine.words} has no role", hint)
