"""The machines that a host list names: names, addresses, how many."""

from __future__ import annotations

from paictl.config.linting.rule import ERROR, INFO, WARNING, Document, Edit, Finding, Findings, rule
from paictl.config.models.hosts import (
    NAME_FORM,
    Address,
    HostRow,
    abridged,
    address_fault,
    address_of,
    host_list,
    malformed_address_hint,
    name_fault,
)
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("CSV208", "bad-host-name", ERROR)
def bad_host_name(document: Document) -> Findings:
    """A host list contains a name that a Kubernetes node cannot have.

    Why: Kubernetes takes the name as a node's name, which is letters, digits and '-' in lower case (RFC 1123), at most
    63 characters between dots. Kubespray stops, or the node joins under another name than the one that HiveD waits for.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        PAI_Worker_2,10.1.1.2
    """
    # Each bad name; one that is only written in upper case can be repaired.
    for host in host_list(document).hosts:
        name = host.name.stripped
        fault = name_fault(name)
        if fault is None or '"' in name:
            continue
        lower = name.lower()
        message = (
            text("host name {name} {fault}", name=abridged(name), fault=fault) if name else "the host name is empty"
        )
        if lower != name and name_fault(lower) is None:
            yield Finding(host.name, message, text("write {lower}", lower=lower), (Edit(host.name, lower),))
        else:
            yield Finding(host.name, message, NAME_FORM)


@rule("CSV209", "bad-address", ERROR)
def bad_address(document: Document) -> Findings:
    """A host list contains an address that is not an IP address.

    Why: the address is written into Ansible's inventory unchecked, and the deployment fails after minutes of waiting
    for SSH.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        pai-worker-2,10.1.1.256
    """
    # Each second field that cannot be read as an IPv4 or IPv6 address.
    for host in host_list(document).hosts:
        address = host.address.stripped
        if address_of(address) is None and '"' not in address:
            shown = (
                text("{address!r} is not a valid IP address", address=address)
                if address
                else text("the address is empty")
            )
            yield Finding(
                host.address,
                text("{shown} (host {host!r})", shown=shown, host=host.name.stripped),
                malformed_address_hint(address),
            )


@rule("CSV210", "unusable-address", ERROR)
def unusable_address(document: Document) -> Findings:
    """A host list contains an address that a machine of a cluster cannot have.

    Why: a loopback address leads every machine to itself; 0.0.0.0, broadcast and multicast addresses do not belong
    to a single machine.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        pai-worker-2,127.0.0.1
    """
    # Each loopback, unspecified, broadcast, multicast, link-local or reserved address.
    for host in host_list(document).hosts:
        address = address_of(host.address.stripped)
        fault = address_fault(address) if address else None
        if fault:
            message = text(
                "{address} is {fault} (host {host!r})", address=address, fault=fault, host=host.name.stripped
            )
            yield Finding(host.address, message, "write the address under which the other machines reach this one")


@rule("CSV211", "ipv6-address", WARNING)
def ipv6_address(document: Document) -> Findings:
    """A host list gives a machine an IPv6 address.

    Why: the machine layout made from the list accepts IPv4 only, and OpenPAI's services put addresses into URLs without
    brackets.

    Fails::

        # worker.csv
        pai-worker-1,10.1.1.1
        pai-worker-2,fd00::2
    """
    # Each usable IPv6 address (CSV210 speaks of those that are not usable).
    for host in host_list(document).hosts:
        address = address_of(host.address.stripped)
        if address is not None and address.version == 6 and not address_fault(address):
            message = text(
                "{address} is an IPv6 address, which OpenPAI does not support (host {host!r})",
                address=address,
                host=host.name.stripped,
            )
            yield Finding(host.address, message, "write the IPv4 address of the machine")


@rule("CSV212", "duplicate-host", ERROR)
def duplicate_host(document: Document) -> Findings:
    """A host list names a machine twice.

    Why: the second line silently replaces the first in Ansible's inventory, so one machine is never deployed.

    Fails with::

        # worker.csv
         pai-worker-2,10.1.1.2
        +pai-worker-1,10.1.1.3
    """
    # Each line that repeats an earlier name; upper and lower case are the same name to DNS.
    seen: dict[str, HostRow] = {}
    for host in host_list(document).hosts:
        first = seen.setdefault(host.key, host)
        if first is host or not host.key:
            continue
        line = place_of(first.row).line
        if first.address.stripped == host.address.stripped:
            edits = (Edit(host.row.whole, ""),)
            yield Finding(
                host.name,
                text("host {host!r} is listed here again", host=host.name.stripped),
                text("remove it: line {line} is the same", line=line),
                edits,
            )
        else:
            message = text("host {host!r} has another address in line {line}", host=host.name.stripped, line=line)
            yield Finding(host.name, message, "name each machine once")


@rule("CSV213", "duplicate-address", ERROR)
def duplicate_address(document: Document) -> Findings:
    """A host list gives two machines the same address.

    Why: Ansible deploys one machine twice, under two names, and Kubernetes has a node that does not exist.

    Fails with::

        # worker.csv
         pai-worker-2,10.1.1.2
        +pai-worker-3,10.1.1.1
    """
    # Each line that gives an address of an earlier line to another name.
    seen: dict[Address, HostRow] = {}
    for host in host_list(document).hosts:
        address = address_of(host.address.stripped)
        if address is None:
            continue
        first = seen.setdefault(address, host)
        if first.key != host.key:
            message = text(
                "address {address} is also that of {first!r} in line {line}",
                address=address,
                first=first.name.stripped,
                line=place_of(first.row).line,
            )
            yield Finding(host.address, message, "correct one of the two addresses")


@rule("CSV214", "even-masters", ERROR)
def even_masters(document: Document) -> Findings:
    """The list of masters has an even number of machines.

    Why: every master runs a member of etcd, which needs a majority: two members tolerate no more failures than one, and
    Kubespray refuses an even number. Further masters keep etcd alive but do not make OpenPAI highly available: only the
    first one runs its services.

    Passes::

        # master.csv
        pai-master-1,10.1.0.1
        pai-master-2,10.1.0.2
        pai-master-3,10.1.0.3

    Fails with::

        # master.csv
        -pai-master-3,10.1.0.3
    """
    # An even number of different masters; the finding stands at the last one.
    masters = host_list(document)
    hosts, names = masters.hosts, {host.key for host in masters.hosts}
    clear = len(names) == len(hosts) == len(masters.meant) > 0
    if document.kind is FileKind.MASTER_CSV and clear and len(names) % 2 == 0:
        message = text("{count} masters, but etcd needs an odd number and Kubespray refuses others", count=len(names))
        yield Finding(
            hosts[-1].name,
            message,
            text("list {fewer} or {more} masters", fewer=len(names) - 1, more=len(names) + 1),
        )


@rule("CSV215", "single-master", INFO)
def single_master(document: Document) -> Findings:
    """The list of masters has only one machine.

    Why: when it fails, the cluster stops: etcd and the API server run on it. With three masters, etcd survives the
    loss of one; OpenPAI's own services run on the first master in either case.

    Passes::

        # master.csv
        pai-master-1,10.1.0.1
        pai-master-2,10.1.0.2
        pai-master-3,10.1.0.3

    Fails::

        # master.csv
        pai-master-1,10.1.0.1
    """
    # A list of masters with a single line.
    masters = host_list(document)
    hosts = masters.hosts
    if document.kind is FileKind.MASTER_CSV and len(hosts) == len(masters.meant) == 1:
        message = text("{host!r} is the only master, so etcd does not survive its loss", host=hosts[0].name.stripped)
        yield Finding(hosts[0].name, message, "list three masters if the cluster must survive the loss of one")


@rule("CSV216", "no-host", ERROR)
def no_host(document: Document) -> Findings:
    """A host list is empty.

    Why: a cluster needs a master and at least one worker; OpenPAI's generator stops with an IndexError, or deploys a
    cluster that runs no job.

    Fails::

        # worker.csv
        hostname,ip
    """
    # A list in which nothing is meant as a host.
    if not host_list(document).meant:
        masters = document.kind is FileKind.MASTER_CSV
        yield Finding(
            document.beginning,
            "the list names no master" if masters else "the list names no worker",
            "write a line hostname,address for each master"
            if masters
            else "write a line hostname,address for each worker",
        )
