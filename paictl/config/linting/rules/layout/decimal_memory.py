"""The memory of a SKU has a unit of thousands where one of 1024 is usual.

Why: `64G` is 64 000 000 000 bytes and `64Gi` 68 719 476 736, 7 % more. Machines are sold and measured in Gi; and
OpenPAI's rest-server reads only Ki, Mi, Gi and Ti: it takes `64G` for zero.

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
    +    mem: 480G
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.layout import layout_of
from paictl.units import Quantity


@rule("LAY408", "decimal-memory", WARNING)
def check(document: Document) -> Findings:
    """Each `mem` with K, M, G, T, P or E."""
    for name, sku in layout_of(document).skus.items():
        at, memory = sku.memory_at, sku.memory
        if at is None or memory is None or not memory.decimal:
            continue
        binary = Quantity(memory.count, f"{memory.suffix.upper()}i")
        amounts = f"{memory.bytes:,} bytes, {binary.count}{binary.suffix} would be {binary.bytes:,}"
        message = f"mem of SKU {abridged(name)} is {at.text} = {amounts}"
        yield Finding(at, message, f"write {binary.count}{binary.suffix} if that is meant")
