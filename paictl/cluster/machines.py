"""Machines from a layout, and the scheduler's configuration that fits them if nobody has written one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from paictl.cluster.interface import MachineSpec, NodeRole
from paictl.config.making.generate import SERVICES_FILE, MachineList, Named, plan
from paictl.config.making.generate_text import render
from paictl.config.making.skus import MachineSku
from paictl.config.models.layout import layout_of
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.errors import PaictlError
from paictl.units import Quantity


def machines_in(files: Mapping[str, str]) -> list[MachineSpec]:
    """The machines that the layout among some configuration files lists; raises `PaictlError` without a layout."""
    loaded = load_memory({name: text.encode() for name, text in files.items()})
    found = [document for document in loaded.documents if document.kind is FileKind.LAYOUT]
    if not found:
        raise PaictlError("there is no layout among the files", hint="a cluster is made from a layout.yaml")
    return list(_machines(found[0]))


def services_for(files: Mapping[str, str]) -> str:
    """Service settings for a layout that comes alone, as `config generate` makes them: each SKU in a VC of its own.

    Raises `PaictlError` if the workers have no SKU from which cells could be made.
    """
    machines = machines_in(files)
    workers: dict[str, list[MachineSpec]] = {}
    for machine in machines:
        if machine.role is NodeRole.WORKER:
            workers.setdefault(machine.sku, []).append(machine)
    skus = [_sku(name, found) for name, found in workers.items()]
    masters = [machine for machine in machines if machine.role is NodeRole.MASTER]
    inventory = MachineList(_named(masters), _named(one for found in workers.values() for one in found))
    return render(plan(inventory, skus))[SERVICES_FILE]


def _sku(name: str, machines: list[MachineSpec]) -> MachineSku:
    first = machines[0]
    memory = Quantity(Decimal(first.memory // 2**20), "Mi")
    hosts = tuple(machine.name.lower() for machine in machines)
    return MachineSku(name, first.devices, first.cpu, memory, first.device_type, name, hosts)


def _named(machines: Iterable[MachineSpec]) -> tuple[Named, ...]:
    return tuple(Named(machine.name.lower(), machine.address) for machine in machines)


def _machines(document: Document) -> Iterator[MachineSpec]:
    layout = layout_of(document)
    for entry in layout.machines:
        sku = layout.sku_of(entry)
        device = sku.device if sku else None
        model = device.scalar("type") if device else None
        yield MachineSpec(
            name=entry.name.text if entry.name else "",
            address=entry.address.text if entry.address else "",
            role=NodeRole.MASTER if entry.has("pai-master") else NodeRole.WORKER,
            sku=entry.sku.text if entry.sku else "",
            cpu=(sku.vcores if sku else None) or 0,
            memory=sku.memory.bytes if sku and sku.memory else 0,
            device_type=model.text if model else "",
            devices=(sku.device_count if sku else None) or 0,
        )
