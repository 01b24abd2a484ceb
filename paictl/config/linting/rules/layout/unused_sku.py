"""No machine is of a SKU that the layout defines.

Why: it does no harm, but most often a machine was forgotten, or the name of its SKU changed in one place only.

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
         computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    +  p100: {mem: 240Gi, cpu: {vcore: 32}}
"""

from __future__ import annotations

from paictl.config.linting.rule import INFO, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.layout import layout_of


@rule("LAY405", "unused-machine-sku", INFO)
def check(document: Document) -> Findings:
    """Each SKU that no machine names; none where a machine names an unknown one, which may well mean it.

    A SKU that others take over with `<<` is their template, and used.
    """
    layout = layout_of(document)
    named = {machine.sku.text for machine in layout.machines if machine.sku}
    if not named or not named <= layout.skus.keys():
        return
    taken = {id(entry) for name in named for entry in layout.skus[name].spec}
    for name, sku in layout.skus.items():
        if name not in named and not any(id(entry) in taken for entry in sku.spec):
            yield Finding(sku.key, f"no machine is of the SKU {abridged(name)}", "remove it, or add its machines")
