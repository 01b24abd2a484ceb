"""A host of master.csv or worker.csv is missing in the layout.

Why: Kubernetes is set up on the hosts of the lists, OpenPAI on the machines of the layout: a host in the one only is
a node that runs nothing. Masters behind the first have no place in a layout and are not looked for.

Passes::

    # layout.yaml
    machine-sku:
      head: {mem: 64Gi, cpu: {vcore: 16}}
      v100:
        mem: 480Gi
        cpu: {vcore: 64}
        computing-device: {type: nvidia.com/gpu, model: V100, count: 8}
    machine-list:
    - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2

Fails with::

    # worker.csv
    -pai-worker-2,10.1.1.2
    +pai-worker-3,10.1.1.2
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import abridged, address_of
from paictl.config.models.inventory import layout_in, listed_hosts, machines_by_name


@rule("XRF903", "host-not-in-layout", ERROR)
def check(bundle: Bundle) -> Findings:
    """The first master and each worker that the layout does not name."""
    found = layout_in(bundle)
    if found is None:
        return
    machines = machines_by_name(found[1])
    by_address = {address_of(machine.address.text): machine for machine in found[1].machines if machine.address}
    for listed in listed_hosts(bundle):
        host = listed.host
        address = address_of(host.address.stripped)
        if not host.key or host.key in machines:
            continue
        other = by_address.get(address) if address else None
        message = f"{abridged(host.name.stripped)} is not in the layout"
        if other is not None and other.name is not None:
            yield Finding(host.name, f"{message}, which calls {address} {abridged(other.name.text)}", "use one name")
        else:
            yield Finding(host.name, message, f"add it to machine-list in {found[0].path}, or remove the line")
