"""Service settings for a layout that comes alone: the scheduler's configuration that fits if nobody has written one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal

from paictl.cluster.machines import machines_in
from paictl.cluster.values import MachineSpec, NodeRole
from paictl.config.making.generate import SERVICES_FILE, MachineList, Named, plan
from paictl.config.making.generate_text import render
from paictl.config.making.skus import MachineSku
from paictl.units import Quantity


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
