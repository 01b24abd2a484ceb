"""The layout as a whole is of the form that OpenPAI read before v1.5.

Why: since v1.5 the quick-start refuses every field that it does not know, and names only the first. The findings of
LAY402 list what has to change; this one stands at the head of them.

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
    +    mem: 480
    @@
    -- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    +- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, zkid: 1, pai-master: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, rule
from paictl.config.models.layout import is_legacy, refused_fields


@rule("LAY401", "legacy-form", WARNING)
def check(document: Document) -> Findings:
    """A layout with more than one kind of legacy field."""
    if is_legacy(document):
        at = next((entry.key for entry in document.top), document.beginning)
        count = len(refused_fields(document))
        message = f"the layout is of the legacy form: {count} kinds of field are unknown to OpenPAI v1.5 and later"
        yield Finding(at, message, "change what each LAY402 names, or stay with v1.4")
