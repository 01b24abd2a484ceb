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

from paictl.config.linting.repairs import renamed
from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, rule
from paictl.config.models.hosts import abridged, address_of
from paictl.config.models.inventory import hived_in, layout_in, listed_hosts, machines_by_name, outvoted
from paictl.config.reading.source import place_of


@rule("XRF903", "host-not-in-layout", ERROR)
def check(bundle: Bundle) -> Findings:
    """The first master and each worker that the layout does not name.

    Where the cells have the name of the list, too, the layout is what has to change.
    """
    found = layout_in(bundle)
    if found is None:
        return
    machines = machines_by_name(found[1])
    by_address = {address_of(machine.address.text): machine for machine in found[1].machines if machine.address}
    renamed_there, cells = outvoted(bundle), hived_in(bundle)
    nodes = {name.lower() for name in cells.node_names} if cells else set()
    for listed in listed_hosts(bundle):
        host = listed.host
        address = address_of(host.address.stripped)
        if not host.key or host.key in machines:
            continue
        odd = renamed_there.get(host.key)
        if odd is not None and odd.name is not None:
            at = place_of(host.name)
            message = f"{odd.words} is called {host.key!r} in {at.path}, line {at.line}, and among the cells"
            yield Finding(odd.name, message, f"write {host.key}, as both do", renamed(odd.name, host.key))
            continue
        other = by_address.get(address) if address else None
        message = f"{abridged(host.name.stripped)} is not in the layout"
        if other is not None and other.name is not None:
            hint = (
                f"write {other.key}, as the layout and the cells do"
                if other.key in nodes - {host.key}
                else "use one name"
            )
            yield Finding(host.name, f"{message}, which calls {address} {abridged(other.name.text)}", hint)
        else:
            yield Finding(host.name, message, f"add it to machine-list in {found[0].path}, or remove the line")
