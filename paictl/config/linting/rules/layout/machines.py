"""The machines of the layout: names, addresses, roles."""

from __future__ import annotations

from ipaddress import IPv4Address

from paictl.config.linting.rule import ERROR, WARNING, Document, Finding, Findings, Severity, renamed, rule
from paictl.config.models.hosts import (
    NAME_FORM,
    Address,
    abridged,
    address_fault,
    address_of,
    malformed_address_hint,
    name_fault,
)
from paictl.config.models.layout import ROLES, MachineEntry, is_legacy, layout_of
from paictl.config.models.placeholders import is_placeholder, scalars_below
from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import place_of
from paictl.i18n import text


@rule("LAY403", "unfilled-field", ERROR)
def unfilled_machine(document: Document) -> Findings:
    """A field of the layout still has the template's placeholder.

    Why: templates name machines ``hostname (echo `hostname`)`` at the address `IP`; the deployment takes that
    literally. The same placeholder in the same field is reported once.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-2, hostip: IP, machine-type: v100, pai-worker: "true"}
    """
    # Each placeholder, at its first place, with how often it comes again.
    by_placeholder: dict[tuple[str, str], list[tuple[str, ScalarNode]]] = {}
    for path, scalar in scalars_below(document.top):
        if is_placeholder(scalar.text):
            by_placeholder.setdefault((path.rpartition(".")[2], scalar.text), []).append((path, scalar))
    for (field, placeholder), places in by_placeholder.items():
        path, first = places[0]
        more = text(" (and in {count} more)", count=len(places) - 1) if len(places) > 1 else ""
        shown = (
            text("a placeholder")
            if field == "password"
            else text("the placeholder {value}", value=abridged(placeholder))
        )
        yield Finding(
            first,
            text("{path} is still {shown}{more}", path=path, shown=shown, more=more),
            text("write the real {field}", field=field),
        )


@rule("LAY409", "bad-machine-name", ERROR)
def bad_machine_name(document: Document) -> Findings:
    """A machine has a name that a Kubernetes node cannot have.

    Why: the name becomes the name of the node, which is letters, digits and '-' in lower case (RFC 1123), at most 63
    characters between dots. OpenPAI accepts 70; Kubernetes does not.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: PAI-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    """
    # Each bad name; one that is only written in upper case can be repaired.
    for machine in layout_of(document).machines:
        at = machine.name
        fault = name_fault(at.text) if at else None
        if at is None or fault is None:
            continue
        lower = at.text.lower()
        message = text("hostname {at} {fault}", at=abridged(at.text), fault=fault)
        if lower != at.text and name_fault(lower) is None:
            yield Finding(at, message, text("write {lower}", lower=lower), renamed(at, lower))
        elif isinstance(
            address_of(at.text), IPv4Address
        ):  # Kubernetes takes it, but nobody can tell name and address apart
            yield Finding(at, message, NAME_FORM, severity=Severity.WARNING)
        else:
            yield Finding(at, message, NAME_FORM)


@rule("LAY410", "bad-machine-address", ERROR)
def bad_machine_address(document: Document) -> Findings:
    """A machine's hostip is not an IPv4 address.

    Why: OpenPAI checks that there are four numbers and lets 999.1.1.1 pass; the deployment then waits for SSH at an
    address that does not exist.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-2, hostip: 999.1.1.1, machine-type: v100, pai-worker: "true"}
    """
    # Each hostip that cannot be read as an IPv4 address.
    for machine in layout_of(document).machines:
        at = machine.address
        address = address_of(at.text.strip()) if at else None
        if at is None or (address is not None and address.version == 4):
            continue
        if address is not None:
            yield Finding(
                at,
                text("{at} is an IPv6 address ({machine})", at=at.text, machine=machine.words),
                "write the machine's IPv4 address",
            )
        else:
            message = text("{at} is not a valid IP address ({machine})", at=abridged(at.text), machine=machine.words)
            yield Finding(at, message, malformed_address_hint(at.text))


@rule("LAY411", "unusable-machine-address", ERROR)
def unusable_machine_address(document: Document) -> Findings:
    """A machine has an address that a machine of a cluster cannot have.

    Why: a loopback address leads every machine to itself; 0.0.0.0, broadcast and multicast addresses do not belong
    to a single machine.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-2, hostip: 127.0.0.1, machine-type: v100, pai-worker: "true"}
    """
    # Each loopback, unspecified, broadcast, multicast, link-local or reserved IPv4 address.
    for machine in layout_of(document).machines:
        at = machine.address
        address = address_of(at.text.strip()) if at else None
        fault = address_fault(address) if address and address.version == 4 else None
        if at is not None and fault:
            hint = "write the address under which the other machines reach this one"
            yield Finding(
                at, text("{address} is {fault} ({machine})", address=address, fault=fault, machine=machine.words), hint
            )


@rule("LAY412", "duplicate-machine-name", ERROR)
def duplicate_machine_name(document: Document) -> Findings:
    """Two machines of the layout have the same name.

    Why: the second replaces the first in Ansible's inventory, so one machine is never deployed.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-1, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
    """
    # Each machine whose name an earlier one has; upper and lower case are the same name to DNS.
    seen: dict[str, MachineEntry] = {}
    for machine in layout_of(document).machines:
        at = machine.name
        if at is None:
            continue
        first = seen.setdefault(machine.key, machine)
        if first.name is not None and first is not machine:
            message = text(
                "another machine is called {at} too, in line {line}",
                at=abridged(at.text),
                line=place_of(first.name).line,
            )
            yield Finding(at, message, "give each machine its own name")


@rule("LAY413", "duplicate-machine-address", ERROR)
def duplicate_machine_address(document: Document) -> Findings:
    """Two machines of the layout have the same address.

    Why: one machine is deployed twice, under two names, and Kubernetes has a node that does not exist.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-2, hostip: 10.1.1.2, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-2, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
    """
    # Each machine whose address an earlier one of another name has.
    seen: dict[Address, tuple[MachineEntry, ScalarNode]] = {}
    for machine in layout_of(document).machines:
        at = machine.address
        address = address_of(at.text.strip()) if at else None
        if at is None or address is None:
            continue
        first, place = seen.setdefault(address, (machine, at))
        if first is not machine and (first.key != machine.key or not machine.key):
            message = text(
                "{address} is also the address of {first} in line {line}",
                address=address,
                first=first.words,
                line=place_of(place).line,
            )
            yield Finding(at, message, "correct one of the two addresses")


@rule("LAY414", "no-role", WARNING)
def no_role(document: Document) -> Findings:
    """A machine has no role.

    Why: it becomes a Kubernetes node on which neither services nor jobs run, and no one notices. In the legacy form,
    further masters are such machines; there the rule reports nothing.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "false"}
    """
    # Each machine without a role, in layouts of the newest form.
    if is_legacy(document):
        return
    for machine in layout_of(document).machines:
        if not any(machine.has(role) or machine.misspells(role) for role in ROLES):
            hint = 'add pai-worker: "true", or remove the machine'
            yield Finding(machine.place, text("{machine} has no role", machine=machine.words), hint)


@rule("LAY415", "one-master", ERROR)
def one_master(document: Document) -> Findings:
    """There is not exactly one master.

    Why: OpenPAI's own services run on one machine, the one with pai-master: "true"; with none or several the deployment
    stops.

    Fails with::

        # layout.yaml
        -- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-worker: "true"}
        +- {hostname: pai-worker-1, hostip: 10.1.1.1, machine-type: v100, pai-master: "true"}
    """
    # No pai-master (at the list), or each one behind the first.
    masters = [(machine, machine.has("pai-master")) for machine in layout_of(document).machines]
    flagged = [(machine, at) for machine, at in masters if at is not None]
    if masters and not flagged and not any(machine.misspells("pai-master") for machine, _ in masters):
        at = document.top.key("machine-list") or document.beginning
        yield Finding(at, "no machine is the master", 'give one machine pai-master: "true"')
    for machine, flag in flagged[1:]:
        message = text("{machine} is a second master beside {found}", machine=machine.words, found=flagged[0][0].words)
        yield Finding(flag, message, "only one master is supported; make it a worker, or remove it")


@rule("LAY416", "no-worker", ERROR)
def no_worker(document: Document) -> Findings:
    """No machine is a worker.

    Why: jobs run on machines with pai-worker: "true"; without any the deployment stops.

    Fails::

        # layout.yaml
        machine-sku:
          head: {mem: 64Gi, cpu: {vcore: 16}}
        machine-list:
        - {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
    """
    # No pai-worker; the finding stands at the list.
    layout = layout_of(document)
    if layout.machines and not any(layout.with_role("pai-worker")):
        if any(machine.misspells("pai-worker") for machine in layout.machines):
            return
        at = document.top.key("machine-list") or document.beginning
        yield Finding(at, "no machine is a worker, so no job can run", 'give machines pai-worker: "true"')


@rule("LAY417", "master-is-worker", ERROR)
def master_is_worker(document: Document) -> Findings:
    """A machine is both master and worker.

    Why: jobs would take memory and disk from the API server and from OpenPAI's own services; the deployment stops at
    such a machine.

    Fails with::

        # layout.yaml
        -- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true"}
        +- {hostname: pai-master, hostip: 10.1.0.1, machine-type: head, pai-master: "true", pai-worker: "true"}
    """
    # Each machine with both roles; the finding stands at the second one.
    for machine in layout_of(document).with_role("pai-master"):
        worker = machine.has("pai-worker")
        if worker is not None:
            yield Finding(
                worker, text("{machine} is both master and worker", machine=machine.words), "leave pai-worker out"
            )
