"""The name of a SKU cannot be used wherever it is needed.

Why: cell types of HiveD, node labels and jobs' skuType are named after the SKU. HiveD separates types by dots, so
that a SKU with a dot in its name is never found; spaces and other characters end in names that labels and tools
refuse.

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
      v100 32G:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100 32G, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100 32G, pai-worker: "true"}
"""

from __future__ import annotations

import re

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.models.hosts import MAX_LABEL, abridged
from paictl.config.models.layout import layout_of

_FORM = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?")


@rule("LAY406", "bad-sku-name", WARNING)
def check(document: Document) -> Findings:
    """Each name with other characters than letters, digits, `-` and `_`; an error where there is a dot."""
    for name, sku in layout_of(document).skus.items():
        if len(name) <= MAX_LABEL and _FORM.fullmatch(name):
            continue
        hint = f"use letters, digits, '-' and '_', at most {MAX_LABEL}"
        if "." in name:
            message = f"SKU {abridged(name)} has a dot in its name, at which HiveD separates cell types"
            yield Finding(sku.key, message, hint, severity=Severity.ERROR)
        else:
            yield Finding(sku.key, f"SKU {abridged(name)} has a name that labels and cell types cannot have", hint)
