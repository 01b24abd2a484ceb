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

Fails with::

    # layout.yaml
    -- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    +- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-master: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Document, Finding, Findings, rule
from paictl.config.models.layout import layout_of


@rule("LAY415", "one-master", ERROR)
def check(document: Document) -> Findings:
    """No pai-master (at the list), or each one behind the first."""
    masters = [(machine, machine.has("pai-master")) for machine in layout_of(document).machines]
    found = [(machine, at) for machine, at in masters if at is not None]
    if masters and not found and not any(machine.misspells("pai-master") for machine, _ in masters):
        at = document.top.key("machine-list") or document.beginning
        yield Finding(at, "no machine is the master", 'give one machine pai-master: "true"')
    for machine, flag in found[1:]:
        message = f"{machine.words} is a second master beside {found[0][0].words}"
        yield Finding(flag, message, "only one master is supported; make it a worker, or remove it")
