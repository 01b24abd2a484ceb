"""The configuration files with which a new cluster begins: from host lists, from a layout, or from a preset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

from paictl.cluster.machines import machines_in
from paictl.cluster.presets import DEFAULT, LAYOUT, SERVICES, preset_files
from paictl.cluster.values import MachineSpec, NodeRole
from paictl.config.linting.validate import Choice, validate
from paictl.config.making.generate import SERVICES_FILE, MachineList, Named, inventory_of, plan, read_inputs
from paictl.config.making.generate_text import render
from paictl.config.making.skus import MachineSku, parse_sku
from paictl.config.reading.load import is_folder, load_memory
from paictl.config.reading.problem import Severity
from paictl.config.reading.source import read_bytes
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.operate import RefusedFilesError
from paictl.units import Quantity

ONE_GPU: Final = "GPU=gpu:1,cpu:8,memory:32Gi"
"""What a worker has of which nothing is said, as in the textbook's lab."""


@frozen
class HostLists:
    """Host lists and cluster settings, as paths, and what the workers have."""

    masters: str
    workers: str
    config: str
    skus: tuple[str, ...] = ()


@frozen
class InitialConfiguration:
    """Files by name, secrets in clear, and what there is to say about them."""

    files: Mapping[str, str]
    notes: tuple[str, ...] = ()


def beginning(
    *, lists: HostLists | None = None, layout: Path | None = None, preset: str | None = None
) -> InitialConfiguration:
    """The files of a new cluster, from one source; without any, those of the default preset.

    Raises `PaictlError` for several sources, `RefusedFilesError` for files with errors.
    """
    if sum(source is not None for source in (lists, layout, preset)) > 1:
        raise PaictlError("the cluster is described twice", hint="give host lists, or --layout, or --preset")
    if lists is not None:
        return _from_lists(lists)
    if layout is not None:
        return _from_layout(layout)
    return InitialConfiguration(preset_files(preset or DEFAULT))


def _from_lists(lists: HostLists) -> InitialConfiguration:
    inputs = read_inputs(lists.masters, lists.workers, lists.config)
    if not inputs.usable:
        message = "the files have errors, so no cluster was brought up"
        raise RefusedFilesError(message, inputs.report, hint="correct them and try again")
    has = ONE_GPU.partition("=")[2]
    notes: Sequence[str] = () if lists.skus else (f"no --sku says what the workers have, so each has {has}",)
    proposal = plan(inventory_of(inputs), [parse_sku(text) for text in lists.skus or [ONE_GPU]])
    if not proposal.pools:
        raise PaictlError(
            "the embedded cluster schedules with HiveD, but enable_hived_scheduler is false",
            where=lists.config,
            hint="set it to true; no cluster was started",
        )
    return InitialConfiguration(render(proposal), tuple(notes))


def _from_layout(layout: Path) -> InitialConfiguration:
    """The layout (a file, or the folder that holds it), and the service settings that stand beside it."""
    path = layout / LAYOUT if is_folder(str(layout)) else layout
    files = {LAYOUT: read_bytes(str(path)).decode("utf-8", errors="replace")}
    services = path.with_name(SERVICES)
    if services.is_file():
        files[SERVICES] = read_bytes(str(services)).decode("utf-8", errors="replace")
    loaded = load_memory({str(path.with_name(name)): text for name, text in files.items()})
    report = validate(loaded, Choice(severity=Severity.ERROR))
    if report.problems:
        message = "the files have errors, so no cluster was brought up"
        raise RefusedFilesError(message, report, hint="correct them and try again")
    if SERVICES in files:
        return InitialConfiguration(files)
    note = f"no {SERVICES} beside the layout, so each kind of worker gets its own VC"
    return InitialConfiguration({**files, SERVICES: services_for(files)}, (note,))


def services_for(files: Mapping[str, str]) -> str:
    """Service settings for a layout that comes alone, as `config generate` makes them: each SKU in a VC of its own.

    Raises `PaictlError` if the workers have no SKU from which cells could be made.
    """
    machines = machines_in(files)
    workers: dict[str, list[MachineSpec]] = {}
    for machine in machines:
        if machine.role is NodeRole.WORKER:
            workers.setdefault(machine.sku, []).append(machine)
    skus = [_sku(name, worker) for name, worker in workers.items()]
    masters = [machine for machine in machines if machine.role is NodeRole.MASTER]
    inventory = MachineList(_named(masters), _named(spec for worker in workers.values() for spec in worker))
    return render(plan(inventory, skus))[SERVICES_FILE]


def _sku(name: str, machines: list[MachineSpec]) -> MachineSku:
    first = machines[0]
    memory = Quantity(Decimal(first.memory // 2**20), "Mi")
    hosts = tuple(machine.name.lower() for machine in machines)
    return MachineSku(name, first.devices, first.cpu, memory, first.device_type, name, hosts)


def _named(machines: Iterable[MachineSpec]) -> tuple[Named, ...]:
    return tuple(Named(machine.name.lower(), machine.address) for machine in machines)
