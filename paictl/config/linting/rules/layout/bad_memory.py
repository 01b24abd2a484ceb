"""The memory of a SKU is no amount of memory.

Why: the amount is divided among the devices of the machine. What is no quantity of Kubernetes stops the generation of
the HiveD configuration, and an amount without unit counts bytes.

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
    -    mem: 480Gi
    +    mem: lots
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.layout import layout_of
from paictl.config.models.placeholders import is_placeholder
from paictl.units import likely_quantity

_LEAST = 1024**3


@rule("LAY407", "bad-memory", ERROR)
def check(document: Document) -> Findings:
    """Each `mem` that is no quantity, or below 1 GiB; bare numbers are the legacy form (LAY402)."""
    for name, sku in layout_of(document).skus.items():
        at, memory = sku.memory_at, sku.memory
        if at is None or not isinstance(at.value, str) or is_placeholder(at.text):
            continue
        if memory is None:
            fixed = likely_quantity(at.text)
            hint = f"write {fixed}" if fixed else "write a number and a unit, such as 220Gi"
            yield Finding(at, f"mem of SKU {abridged(name)} is {abridged(at.text)}, which is no amount of memory", hint)
        elif memory.bytes < _LEAST:
            unit = "" if memory.suffix else f"; did you mean {at.text}Gi?"
            message = f"mem of SKU {abridged(name)} is {at.text}, which is {memory.bytes:,} bytes"
            yield Finding(at, message, f"write the memory of such a machine{unit}")
