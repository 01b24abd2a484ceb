"""Host lists against the layout.

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
"""

from __future__ import annotations

from collections import Counter

from paictl.config.linting.rule import ERROR, WARNING, Bundle, Finding, Findings, renamed, rule
from paictl.config.models.hosts import abridged, address_of
from paictl.config.models.inventory import hived_in, hosts_in, layout_in, listed_hosts, machines_by_name, outvoted
from paictl.config.models.layout import ROLES, MachineEntry, is_legacy
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.source import place_of
from paictl.i18n import joined, text


@rule("XRF901", "master-in-worker-list", ERROR)
def master_in_worker_list(bundle: Bundle) -> Findings:
    """A machine is in both the list of masters and the list of workers.

    Why: jobs would take memory and disk from etcd and the API server; OpenPAI refuses a master that is a worker, but
    only after the machines are set up.

    Passes::

        # master.csv
        pai-master-1,10.1.0.1
        pai-master-2,10.1.0.2
        pai-master-3,10.1.0.3
        # worker.csv
        pai-worker-1,10.1.1.1
        pai-worker-2,10.1.1.2

    Fails with::

        # worker.csv
        -pai-worker-2,10.1.1.2
        +pai-master-2,10.1.0.2
    """
    # Each worker whose name is that of a master.
    masters, workers = hosts_in(bundle, FileKind.MASTER_CSV), hosts_in(bundle, FileKind.WORKER_CSV)
    if masters is None or workers is None:
        return
    names = {host.key for host in masters.hosts}
    for host in workers.hosts:
        if host.key and host.key in names:
            message = text("{host} is also in the list of masters", host=abridged(host.name.stripped))
            yield Finding(host.name, message, "remove it from one of the two lists")


@rule("XRF902", "address-in-both-lists", ERROR)
def address_in_both_lists(bundle: Bundle) -> Findings:
    """A worker has the address of a master.

    Why: one machine is then deployed twice, under two names and in two roles.

    Passes::

        # master.csv
        pai-master-1,10.1.0.1
        pai-master-2,10.1.0.2
        pai-master-3,10.1.0.3
        # worker.csv
        pai-worker-1,10.1.1.1
        pai-worker-2,10.1.1.2

    Fails with::

        # worker.csv
        -pai-worker-2,10.1.1.2
        +pai-worker-2,10.1.0.2
    """
    # Each worker with another name, but the same address as a master.
    masters, workers = hosts_in(bundle, FileKind.MASTER_CSV), hosts_in(bundle, FileKind.WORKER_CSV)
    if masters is None or workers is None:
        return
    owners = {address_of(host.address.stripped): host for host in reversed(masters.hosts)}
    for host in workers.hosts:
        address = address_of(host.address.stripped)
        owner = owners.get(address) if address else None
        if owner is not None and owner.key != host.key:
            message = text(
                "{address} is also the address of the master {owner}",
                address=address,
                owner=abridged(owner.name.stripped),
            )
            yield Finding(host.address, message, "correct one of the two addresses")


@rule("XRF903", "host-not-in-layout", ERROR)
def host_not_in_layout(bundle: Bundle) -> Findings:
    """A host of master.csv or worker.csv is missing from the layout.

    Why: Kubernetes is set up on the hosts of the lists, OpenPAI on the machines of the layout: a host that is only
    in the list is a node that runs nothing. Masters after the first are not part of a layout and are not checked.

    Fails with::

        # worker.csv
        -pai-worker-2,10.1.1.2
        +pai-worker-3,10.1.1.2
    """
    # The first master and each worker that the layout does not name. Where the cells have the name of the list, too,
    # the layout is what has to change.
    layout_pair = layout_in(bundle)
    if layout_pair is None:
        return
    machines = machines_by_name(layout_pair[1])
    by_address = {address_of(machine.address.text): machine for machine in layout_pair[1].machines if machine.address}
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
            message = text(
                "{address} is called {host!r} in {file}, line {line}, and among the cells",
                address=odd.words,
                host=host.key,
                file=at.path,
                line=at.line,
            )
            yield Finding(
                odd.name, message, text("write {name}, as both do", name=host.key), renamed(odd.name, host.key)
            )
            continue
        other = by_address.get(address) if address else None
        message = text("{host} is not in the layout", host=abridged(host.name.stripped))
        if other is not None and other.name is not None:
            hint = (
                text("write {other}, as the layout and the cells do", other=other.key)
                if other.key in nodes - {host.key}
                else "use one name"
            )
            yield Finding(
                host.name,
                text(
                    "{message}, which calls {address} {other}",
                    message=message,
                    address=address,
                    other=abridged(other.name.text),
                ),
                hint,
            )
        else:
            yield Finding(
                host.name,
                message,
                text("add it to machine-list in {file}, or remove the line", file=layout_pair[0].path),
            )


_LISTS = {"pai-master": FileKind.MASTER_CSV, "pai-worker": FileKind.WORKER_CSV}


@rule("XRF904", "machine-not-in-lists", WARNING)
def machine_not_in_lists(bundle: Bundle) -> Findings:
    """A machine of the layout is missing from master.csv and worker.csv.

    Why: Kubernetes is set up on the hosts of the lists only; OpenPAI then waits for a node that never joins.

    Fails with::

        # worker.csv
        -pai-worker-2,10.1.1.2
    """
    # Each machine that the list of its role does not hold, by name or (XRF903) by address.
    layout_pair = layout_in(bundle)
    for role, kind in _LISTS.items() if layout_pair else ():
        hosts, document = hosts_in(bundle, kind), bundle.only(kind)
        if layout_pair is None or hosts is None or document is None:
            continue
        names = _everywhere(bundle)
        addresses = {address_of(host.address.stripped) for host in hosts.hosts}
        unread = [row.fields[0].stripped.lower() for row in hosts.meant if len(row.fields) == 1]
        for machine in layout_pair[1].with_role(role):
            if any(machine.key in text for text in unread):
                continue  # its line lacks the comma (CSV201)
            known = machine.address is not None and address_of(machine.address.text) in addresses
            if machine.name is not None and machine.key not in names and not known:
                message = text("{machine} is not in {file}", machine=machine.words, file=document.path)
                yield Finding(machine.name, message, text("add the line {line}", line=_line(machine)))


def _everywhere(bundle: Bundle) -> set[str]:
    """Names in both lists: a machine in the wrong one is another mistake (XRF906)."""
    lists = (hosts_in(bundle, kind) for kind in _LISTS.values())
    return {host.key for hosts in lists if hosts for host in hosts.hosts}


def _line(machine: MachineEntry) -> str:
    address = machine.address.text if machine.address else "ADDRESS"
    return f"{machine.key},{address}"


@rule("XRF905", "address-differs", ERROR)
def address_differs(bundle: Bundle) -> Findings:
    """A host has one address in its list and another one in the layout.

    Why: one of the two tools that read them deploys to another machine, or to none.

    Fails with::

        # worker.csv
        -pai-worker-2,10.1.1.2
        +pai-worker-2,10.1.1.22
    """
    # Each listed host whose machine in the layout has another address. Not where one of the files says it of two
    # machines, or two things of one: LAY413, CSV212 and CSV213 say so.
    layout_pair = layout_in(bundle)
    machines = machines_by_name(layout_pair[1]) if layout_pair else {}
    listed_ones = list(listed_hosts(bundle))
    names = Counter(listed.host.key for listed in listed_ones)
    numbers = Counter(address_of(listed.host.address.stripped) for listed in listed_ones)
    there = Counter(address_of(machine.address.text) for machine in machines.values() if machine.address)
    for listed in listed_ones:
        host = listed.host
        machine = machines.get(host.key)
        address = address_of(host.address.stripped)
        other = address_of(machine.address.text) if machine and machine.address else None
        if names[host.key] > 1 or numbers[address] > 1 or there[other] > 1:
            continue
        if layout_pair and address and other and address != other:
            message = text(
                "{host} has the address {address} here and {other} in {file}",
                host=abridged(host.name.stripped),
                address=address,
                other=other,
                file=layout_pair[0].path,
            )
            yield Finding(host.address, message, "correct the wrong one")


@rule("XRF906", "role-differs", ERROR)
def role_differs(bundle: Bundle) -> Findings:
    """A host is listed with one role, and the layout gives it another.

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
    # The first master, and each worker, whose machine in the layout lacks that role.
    layout_pair = layout_in(bundle)
    if layout_pair is None or is_legacy(layout_pair[0]):
        return
    machines = machines_by_name(layout_pair[1])
    for listed in listed_hosts(bundle):
        machine = machines.get(listed.host.key)
        if machine is None or machine.has(listed.role):
            continue
        roles = [role for role in ROLES if machine.has(role)]
        if roles:  # a machine without any role is LAY414
            where = text(
                "{file} makes it {roles}, not {role}",
                file=layout_pair[0].path,
                roles=joined(" and ", roles),
                role=listed.role,
            )
            message = text("{host} is in this list, but {where}", host=abridged(listed.host.name.stripped), where=where)
            yield Finding(
                listed.host.name,
                message,
                text('give it {role}: "true" there, or move it to the other list', role=listed.role),
            )
