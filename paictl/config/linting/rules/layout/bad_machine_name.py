"""A machine is named as no machine of a Kubernetes cluster can be named.

Why: the name becomes the name of the node, which is letters, digits and '-' in lower case (RFC 1123), at most 63
characters between dots. OpenPAI accepts 70; Kubernetes does not.

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
    +- {hostname: PAI-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
"""

from __future__ import annotations

from ipaddress import IPv4Address

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Document, Finding, Findings, Severity, rule
from paictl.config.models.hosts import NAME_FORM, abridged, address_of, name_fault
from paictl.config.models.layout import layout_of


@rule("LAY409", "bad-machine-name", ERROR)
def check(document: Document) -> Findings:
    """Each bad name; one that is only written in upper case can be repaired."""
    for machine in layout_of(document).machines:
        at = machine.name
        fault = name_fault(at.text) if at else None
        if at is None or fault is None:
            continue
        lower = at.text.lower()
        message = f"hostname {abridged(at.text)} {fault}"
        if lower != at.text and name_fault(lower) is None:
            yield Finding(at, message, f"write {lower}", renamed(at, lower))
        elif isinstance(
            address_of(at.text), IPv4Address
        ):  # Kubernetes takes it, but nobody can tell name and address apart
            yield Finding(at, message, NAME_FORM, severity=Severity.WARNING)
        else:
            yield Finding(at, message, NAME_FORM)
