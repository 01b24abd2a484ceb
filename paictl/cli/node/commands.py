"""`paictl node`: the machines of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from paictl.cli import console
from paictl.cli import names as names_of
from paictl.cli.clusters import OutputOption, StateOption, clock_text, open_cluster, plain
from paictl.cli.command import App
from paictl.cli.confirmation import confirm
from paictl.cli.console import Output, localized, write, write_data, write_table
from paictl.cli.maintenance import window_line
from paictl.cli.node import files, hosts
from paictl.cli.options import BreakLock
from paictl.cluster.eventtext import reasons
from paictl.cluster.interface import MachineSpec, NodeChange, NodeCondition, NodeView
from paictl.errors import PaictlError
from paictl.i18n import counted, joined, listed, text
from paictl.operate.nodes import add_worker, change_devices, change_nodes, find_node
from paictl.units import rfc3339, span_text

EXAMPLES = """
    paictl node list
    paictl node cordon worker1
    paictl node show worker1
"""

app = App(help="List and change the nodes of a cluster.", epilog=EXAMPLES)
app.command("run", epilog=hosts.RUN_EPILOG)(hosts.run)
app.command("copy", epilog=hosts.COPY_EPILOG)(hosts.copy)
app.command("ssh", epilog="paictl node ssh worker1 -m master.csv -w worker.csv -c config.yaml")(hosts.ssh)

Name = Annotated[str, typer.Argument(autocompletion=names_of.nodes, help="Name of a node.")]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        metavar="DEVICE",
        help="Only this device, counted from 0, or GPU:instance of a MIG instance; repeatable.",
    ),
]
Names = Annotated[list[str], typer.Argument(autocompletion=names_of.nodes, help="Names of nodes.")]


@app.command("list", epilog="paictl node list")
def list_nodes(output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """List the nodes: role, condition, devices used."""
    cluster = open_cluster(state)
    nodes = cluster.nodes()
    if output is not Output.TABLE:
        write_data([_data(node) for node in nodes], output)
        return
    now = cluster.now
    rows = [
        (
            node.machine.name,
            node.machine.role.value,
            node.condition.value,
            f"{node.used}/{node.machine.devices}",
            node.machine.address,
            span_text(now - node.since),
        )
        for node in nodes
    ]
    write_table(("NAME", "ROLE", "CONDITION", "DEVICES", "ADDRESS", "SINCE"), rows)


@app.command(epilog="paictl node show worker1")
def show(name: Name, output: OutputOption = Output.TABLE, state: StateOption = None) -> None:
    """Show one node and what runs there."""
    cluster = open_cluster(state)
    node = find_node(cluster, name)
    if output is not Output.TABLE:
        write_data(_data(node), output)
        return
    machine = node.machine
    write(
        localized(
            "node {name}, {role}, {condition} since {time}",
            name=machine.name,
            role=machine.role.value,
            condition=node.condition.value,
            time=clock_text(node.since),
        )
    )
    write(localized("address:  {address}", address=machine.address))
    write(localized("machine:  {hardware}", hardware=_hardware(machine)))
    kind = f" ({machine.device_type})" if machine.devices else ""
    write(localized("devices:  {used} of {all} in use", used=node.used, all=machine.devices) + kind)
    if node.bad_devices:
        devices = listed(console.localized("device {device}", device=device) for device in _names_of(node))
        write(localized("broken:   {devices}", devices=devices))
    for pod in node.pods_at_risk:
        write(localized("at risk:  {pod} runs on a broken device", pod=pod))
    if node.reason:
        write(localized("note:     it is {reason}", reason=reasons(node.reason)))
    for window in cluster.windows():
        if machine.name in window.nodes:
            write(localized("maintenance: {window}", window=window_line(window)))
    for pod in node.pods:
        write(localized("runs:     {pod}", pod=pod))


def _hardware(machine: MachineSpec) -> str:
    if not machine.cpu:
        return console.localized("not described")
    sku = machine.sku or text("no SKU")
    hardware = text("{sku}, {cores} cores, {memory} GiB", sku=sku, cores=machine.cpu, memory=machine.memory // 2**30)
    return console.localized(hardware)


def _data(node: NodeView) -> dict[str, object]:
    return {
        **plain(node.machine),
        "condition": node.condition.value,
        "since": rfc3339(node.since),
        "used": node.used,
        "pods": list(node.pods),
        "bad_devices": list(node.bad_devices),
        "bad_device_names": _names_of(node),
        "pods_at_risk": list(node.pods_at_risk),
        "reason": node.reason,
    }


def _names_of(node: NodeView) -> list[str]:
    return [node.device_name(device) for device in node.bad_devices]


@app.command(epilog="paictl node cordon worker1")
def cordon(names: Names, state: StateOption = None) -> None:
    """Keep new pods off nodes; running pods stay."""
    _change(names, "cordon", state)


@app.command(epilog="paictl node uncordon worker1")
def uncordon(names: Names, state: StateOption = None) -> None:
    """Let pods onto nodes again."""
    _change(names, "uncordon", state)


@app.command(
    epilog="""
    paictl node fail worker1
    paictl node fail worker1 --device 3 --device 5
    paictl node fail worker1 --device 0:2
"""
)
def fail(names: Names, devices: Devices = None, state: StateOption = None) -> None:
    """Simulate a hardware failure of nodes or single devices.

    Pods on a failed node are lost unless it recovers within five minutes. A failed device gets no new pods; pods on it
    keep running and are listed.
    """
    if devices:
        _change_devices(names, NodeChange.FAIL, devices, state)
    else:
        _change(names, "fail", state)


@app.command(
    epilog="""
    paictl node heal worker1
    paictl node heal worker1 --device 3
"""
)
def heal(names: Names, devices: Devices = None, state: StateOption = None) -> None:
    """Bring failed nodes or single devices back."""
    if devices:
        _change_devices(names, NodeChange.HEAL, devices, state)
    else:
        _change(names, "heal", state)


def _change_devices(names: list[str], change: NodeChange, devices: list[str], state: Path | None) -> None:
    failed = change is NodeChange.FAIL
    for changed in change_devices(open_cluster(state), names, change, devices):
        name, before, after = changed.after.machine.name, changed.before.bad_devices, changed.after.bad_devices
        wanted, which = changed.devices, listed(map(changed.after.device_name, changed.devices))
        singular, plural = _DEVICES[failed, before == after]
        console.outcome(
            counted(singular, plural, len(wanted), which=which, name=name),
            name=name,
            change=change.value,
            devices=list(wanted),
            bad_devices=list(after),
        )
        if failed and before != after:
            for pod in changed.after.pods_at_risk:
                console.info(localized("{pod} runs there and keeps running", pod=pod))


def _change(names: list[str], change: str, state: Path | None) -> None:
    for node in change_nodes(open_cluster(state), names, NodeChange(change)):
        same = node.before.condition is node.after.condition
        name, condition = node.after.machine.name, node.after.condition.value
        console.outcome(
            joined("", (text(_NODES[change], name=name), _still(node.after, change, same=same))),
            name=name,
            change=change,
            before=node.before.condition.value,
            condition=condition,
        )


def _still(node: NodeView, change: str, *, same: bool) -> str:
    """What a change did not change about a node, and what to do about it."""
    name, condition = node.machine.name, node.condition
    if change in ("uncordon", "heal") and condition is not NodeCondition.READY:
        other = "heal" if condition is NodeCondition.FAILED else "uncordon"
        return text(
            "; it is still {condition}: paictl node {other} {name}", condition=condition.value, other=other, name=name
        )
    if change == "heal" and node.bad_devices:
        devices = " ".join(f"--device {name}" for name in map(node.device_name, node.bad_devices))
        return text("; its bad devices stay bad: paictl node heal {name} {devices}", name=name, devices=devices)
    return text(" (it already was)") if same and condition is not NodeCondition.FAILED else ""


_NODES: Final = {
    "cordon": "node {name} cordoned",
    "uncordon": "node {name} uncordoned",
    "fail": "node {name} marked as failed",
    "heal": "node {name} healed",
}
_DEVICES: Final = {
    (True, False): (
        "device {which} of node {name} marked as failed",
        "devices {which} of node {name} marked as failed",
    ),
    (True, True): (
        "device {which} of node {name} already marked as failed",
        "devices {which} of node {name} already marked as failed",
    ),
    (False, False): ("device {which} of node {name} healed", "devices {which} of node {name} healed"),
    (False, True): ("device {which} of node {name} already healed", "devices {which} of node {name} already healed"),
}
"""By whether devices were made to fail, and whether they had been before: for one device, for several."""


@app.command(
    epilog="""
    paictl node add v100-5
    paictl node add worker3 --address 10.0.1.3 --like worker1
    paictl node add gpu9 --address 10.0.1.9 --sku V100=gpu:8,cpu:96,memory:900Gi
    paictl node add gpu-3 -m master.csv -w worker.csv -c config.yaml

Address and hardware that you do not give are those that the cluster's configuration (layout.yaml) has for it.
"""
)
def add(
    name: Name,
    address: Annotated[
        str | None, typer.Option("--address", help="IP address (default: from worker.csv or the layout).")
    ] = None,
    like: Annotated[
        str | None, typer.Option("--like", metavar="NODE", help="An existing node with the same hardware.")
    ] = None,
    sku: Annotated[str | None, typer.Option("--sku", help="Its hardware (see config generate).")] = None,
    masters: files.Masters = None,
    workers: files.Workers = None,
    config: files.Config = None,
    accept_new: files.AcceptNew = False,
    state: StateOption = None,
) -> None:
    """Add a worker; on a real cluster (-m -w -c) the machine joins and the configuration is updated."""
    inventory_files = files.files_of(masters, workers, config)
    if inventory_files is not None:
        if sku is not None:
            raise PaictlError("--sku is for a cluster on this machine", hint="--like NODE")
        from paictl.cli.node import members  # late: needs the extras k8s and deploy

        members.add(name, address, like, inventory_files, accept_new=accept_new)
        return
    added = add_worker(open_cluster(state), name, address, like=like, sku=sku)
    message = text("node {name} added", name=name)
    if added.reason:
        message = text("node {name} added; it is {reason}", name=name, reason=reasons(added.reason))
    console.outcome(message, name=name)


@app.command(
    epilog="""
    paictl node remove worker3
    paictl node remove gpu-3 gpu-4 -m master.csv -w worker.csv -c config.yaml --timeout 600

A machine leaves a real cluster only if all promises to virtual clusters can be kept without it.
"""
)
def remove(
    names: Names,
    masters: files.Masters = None,
    workers: files.Workers = None,
    config: files.Config = None,
    timeout: files.Seconds = 300,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    break_lock: BreakLock = False,
    state: StateOption = None,
) -> None:
    """Remove nodes; pods start elsewhere. A real machine (-m -w -c) is drained, and cleaned of the cluster."""
    inventory_files = files.files_of(masters, workers, config)
    if inventory_files is not None:
        from paictl.cli.node import members  # late: needs the extras k8s and deploy

        members.remove(names, inventory_files, timeout, yes=yes, break_lock=break_lock)
        return
    cluster = open_cluster(state)
    nodes = [find_node(cluster, name) for name in names]
    for node in nodes:
        name = node.machine.name
        confirm(
            text("node {name} will be removed, {count} pods run there", name=name, count=len(node.pods)), name, yes=yes
        )
        cluster.remove_node(name)
        console.outcome(text("node {name} removed", name=name), name=name)
