"""A host is in the list of one role, and the layout gives it another.

Why: a worker of the list that the layout does not make a worker joins Kubernetes and runs no job; a master of the
layout that the list has as a worker has no control plane.

Passes::

    # master.csv
    pai-master-1,10.1.0.1
    pai-master-2,10.1.0.2
    pai-master-3,10.1.0.3
    # worker.csv
    pai-worker-1,10.1.1.1
    pai-worker-2,10.1.1.2
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

Fails with::

    # layout.yaml
    -- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    +- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-storage: "true"}
"""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import abridged
from paictl.config.models.inventory import layout_in, listed_hosts, machines_by_name
from paictl.config.models.layout import ROLES, is_legacy


@rule("XRF906", "role-differs", ERROR)
def check(bundle: Bundle) -> Findings:
    """The first master, and each worker, whose machine in the layout lacks that role."""
    found = layout_in(bundle)
    if found is None or is_legacy(found[0]):
        return
    machines = machines_by_name(found[1])
    for listed in listed_hosts(bundle):
        machine = machines.get(listed.host.key)
        if machine is None or machine.has(listed.role):
            continue
        roles = [role for role in ROLES if machine.has(role)]
        if roles:  # a machine without any role is LAY414
            where = f"{found[0].path} makes it {' and '.join(roles)}, not {listed.role}"
            message = f"{abridged(listed.host.name.stripped)} is in this list, but {where}"
            yield Finding(
                listed.host.name, message, f'give it {listed.role}: "true" there, or move it to the other list'
            )
