"""There is not exactly one master.

Why: OpenPAI's own services run on one machine, the one with pai-master: "true"; with none or several the deployment
stops.

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
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-master: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.models.layout import layout_of
from paictl.config.reading.document import Document
from paictl.config.reading.problem import Finding, Severity

ID = "LAY415"
NAME = "one-master"
SEVERITY = Severity.ERROR


def check(document: Document) -> Iterator[Finding]:
    """No pai-master (at the list), or each one behind the first."""
    masters = [(machine, machine.has("pai-master")) for machine in layout_of(document).machines]
    found = [(machine, at) for machine, at in masters if at is not None]
    if masters and not found:
        at = document.top.key("machine-list") or document.beginning
        yield Finding(at, "no machine is the master", 'give one machine pai-master: "true"')
    for machine, flag in found[1:]:
        message = f"{machine.words} is a second master beside {found[0][0].words}"
        yield Finding(flag, message, "only one master is supported; make it a worker, or remove it")
