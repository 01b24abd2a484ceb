"""A machine of the layout is missing in master.csv or worker.csv.

Why: Kubernetes is set up on the hosts of the lists only; OpenPAI then waits for a node that never joins.

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
"""

from __future__ import annotations

from paictl.config.linting.rule import WARNING, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import address_of
from paictl.config.models.inventory import hosts_in, layout_in
from paictl.config.models.layout import MachineEntry
from paictl.config.reading.kinds import FileKind

_LISTS = {"pai-master": FileKind.MASTER_CSV, "pai-worker": FileKind.WORKER_CSV}


@rule("XRF904", "machine-not-in-lists", WARNING)
def check(bundle: Bundle) -> Findings:
    """Each machine that the list of its role does not hold, by name or (XRF903) by address."""
    found = layout_in(bundle)
    for role, kind in _LISTS.items() if found else ():
        hosts, document = hosts_in(bundle, kind), bundle.only(kind)
        if found is None or hosts is None or document is None:
            continue
        names = _everywhere(bundle)
        addresses = {address_of(host.address.stripped) for host in hosts.hosts}
        unread = [row.fields[0].stripped.lower() for row in hosts.meant if len(row.fields) == 1]
        for machine in found[1].with_role(role):
            if any(machine.key in text for text in unread):
                continue  # its line lacks the comma (CSV201)
            known = machine.address is not None and address_of(machine.address.text) in addresses
            if machine.name is not None and machine.key not in names and not known:
                message = f"{machine.words} is not in {document.path}"
                yield Finding(machine.name, message, f"add the line {_line(machine)}")


def _everywhere(bundle: Bundle) -> set[str]:
    """Names in both lists: a machine in the wrong one is another mistake (XRF906)."""
    lists = (hosts_in(bundle, kind) for kind in _LISTS.values())
    return {host.key for hosts in lists if hosts for host in hosts.hosts}


def _line(machine: MachineEntry) -> str:
    address = machine.address.text if machine.address else "ADDRESS"
    return f"{machine.key},{address}"
