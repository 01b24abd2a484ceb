"""A machine is of a SKU that the layout does not define.

Why: what the machine has is taken from its SKU in machine-sku; without one the deployment stops, or its resources
cannot be divided among jobs.

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
    +- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v1000, pai-worker: "true"}
"""

from __future__ import annotations

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.layout import layout_of
from paictl.config.models.placeholders import is_placeholder
from paictl.words import nearest


@rule("LAY404", "unknown-machine-sku", ERROR)
def check(document: Document) -> Findings:
    """Each machine-type that is no key of machine-sku."""
    layout = layout_of(document)
    for machine in layout.machines:
        at = machine.sku
        if at is None or not layout.skus or layout.sku_of(machine) is not None or is_placeholder(at.text):
            continue
        near = nearest(at.text, layout.skus)
        message = f"{machine.words} is of the SKU {abridged(at.text)}, which machine-sku does not define"
        edits = renamed(at, near) if near else ()
        unused = [
            name
            for name in layout.skus
            if all(other.sku is None or other.sku.text != name for other in layout.machines)
        ]
        if near:
            hint = f"did you mean {near!r}?"
        elif len(unused) == 1:
            hint = f"define it in machine-sku, or did you mean {unused[0]!r}, which no machine is of?"
        else:
            hint = "define it in machine-sku"
        yield Finding(at, message, hint, edits)
