"""A field of the layout belongs to the form that OpenPAI read before v1.5.

Why: since v1.5 the quick-start refuses fields that it does not know, and older paictl reads some of them only now and
then. Each kind is reported once, where it stands first.

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
    +- {hostname: pai-master, nodename: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Document, Finding, Findings, Severity, rule
from paictl.config.models.layout import legacy_fields


@rule("LAY402", "legacy-field", WARNING)
def check(document: Document) -> Findings:
    """Each kind of legacy field, at its first place; only information where it is still accepted."""
    for field in legacy_fields(document):
        more = len(field.places) - 1
        times = f" (and in {more} more {'places' if more > 1 else 'place'})" if more else ""
        severity = Severity.INFO if field.accepted else None
        message = f"{field.name} is of the legacy form{times}"
        yield Finding(field.places[0], message, field.now, severity=severity)
