"""The workers have devices of several types, but HiveD is switched off.

Why: without HiveD OpenPAI asks Kubernetes for one kind of device, the same for all jobs; its quick-start refuses such
a cluster.

Passes::

    # config.yaml
    user: pai-admin
    password: kelp-Tundra-41
    docker_image_tag: v1.8.1
    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
      mi50:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: amd.com/gpu, model: MI50, count: 8}
    machine-list:
    - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: mi50, pai-worker: "true"}

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +enable_hived_scheduler: false
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.inventory import layout_in
from paictl.config.reading.kinds import FileKind


@rule("XRF912", "mixed-devices", ERROR)
def check(bundle: Bundle) -> Findings:
    """A second type of device among the SKUs of workers; the finding stands at that type."""
    settings, found = bundle.only(FileKind.CONFIG), layout_in(bundle)
    switch = settings.top.scalar("enable_hived_scheduler") if settings else None
    if switch is None or switch.value is not False or found is None:
        return
    layout = found[1]
    used = {machine.sku.text for machine in layout.with_role("pai-worker") if machine.sku}
    types = [sku.device.text("type") for name, sku in layout.skus.items() if name in used]
    devices = [device for device in types if device is not None]
    for device in devices[1:]:
        if device.text != devices[0].text:
            message = f"devices of type {device.text} beside {devices[0].text} need HiveD, which is switched off"
            yield Finding(device, message, "remove enable_hived_scheduler: false, or keep to one type of device")
            return
