"""A machine's address is in a network that belongs to pods or services.

Why: inside the cluster such an address leads to a pod or service and never to the machine: it becomes unreachable as
soon as the network starts. Where config.yaml says nothing, services have 10.192.0.0/13 and pods 10.200.0.0/13.

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
    machine-list:
    - {hostname: pai-master-1, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    - {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    - {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}

Fails with::

    # config.yaml
     docker_image_tag: v1.8.1
    +openpai_kubespray_extra_var:
    +  kube_pods_subnet: 10.1.0.0/16
"""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.rule import ERROR, Bundle, Finding, Findings, Located, rule
from paictl.config.models.hosts import Address, abridged, address_of
from paictl.config.models.inventory import layout_in, listed_hosts
from paictl.config.models.settings import EXTRA, cluster_networks
from paictl.config.reading.kinds import FileKind


@rule("XRF914", "host-in-cluster-network", ERROR)
def check(bundle: Bundle) -> Findings:
    """The first machine in each network, with how many more there are; hosts of the lists where there is no layout."""
    settings = bundle.only(FileKind.CONFIG)
    networks = cluster_networks(settings) if settings else ()
    places = list(_places(bundle)) if networks else []
    for network in networks:
        inside = [(name, place) for name, address, place in places if address in network.network]
        if inside:
            name, first = inside[0]
            more = f" and {len(inside) - 1} more" if len(inside) > 1 else ""
            message = f"the address of {abridged(name)}{more} lies in {network.words}, a network of the cluster itself"
            hint = f"give {EXTRA}.{network.name} a network that no machine is in"
            yield Finding(network.at or first, message, hint)


def _places(bundle: Bundle) -> Iterator[tuple[str, Address, Located]]:
    """(name, address, place) of each machine that has an address."""
    found = layout_in(bundle)
    if found is not None:
        for machine in found[1].machines:
            address = address_of(machine.address.text) if machine.address else None
            if machine.address is not None and address is not None:
                yield machine.key, address, machine.address
        return
    for listed in listed_hosts(bundle):
        address = address_of(listed.host.address.stripped)
        if address is not None:
            yield listed.host.key, address, listed.host.address
