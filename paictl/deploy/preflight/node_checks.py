"""Machines of the lists against the nodes of a running cluster, and against the devices that files promise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.models.hived import HivedConfig
from paictl.config.models.hived_cells import Cell, devices
from paictl.config.models.inventory import hived_in, layout_in
from paictl.config.reading.document import Bundle
from paictl.config.reading.load import load
from paictl.deploy.inventory import Machine
from paictl.deploy.preflight.verdict import Facts, PreflightVerdict, fail, fine, warn
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text

Nodes = Mapping[str, list[str]]
"""The nodes of a cluster by name, with their internal addresses."""


def nodes_in(facts: Iterable[Facts]) -> Nodes | None:
    """The nodes of the cluster as a master has listed them; None where no master's API server answered."""
    answers: Iterable[Nodes | None] = (fact.get("nodes") for fact in facts)
    return next((answer for answer in answers if answer is not None), None)


def addresses_of(items: Iterable[Facts]) -> Nodes:
    """Node objects as `Nodes`."""
    return {
        item["metadata"]["name"]: [
            address["address"] for address in item["status"].get("addresses", []) if address["type"] == "InternalIP"
        ]
        for item in items
    }


def check_node(machine: Machine, facts: Facts, nodes: Nodes | None) -> PreflightVerdict:
    """Whether the machine behind an address is the node that the lists say it is.

    Files are written by the names of the lists: on another node they would replace its network and its unit files.
    """
    listed = f"{machine.name} ({machine.place})" if machine.place else machine.name
    kubelet = facts.get("node")
    if kubelet and kubelet != machine.name:
        finding = text("{address} is the node {node}", address=machine.address, node=kubelet)
        return fail(finding, listed, _correct(machine, kubelet))
    others = [name for name, addresses in (nodes or {}).items() if name != machine.name]
    owners = [name for name in others if machine.address in (nodes or {})[name]]
    if owners:
        finding = text("{address} is the address of the node {node}", address=machine.address, node=owners[0])
        return fail(finding, listed, _correct(machine, owners[0]))
    hostname = facts["network"]["hostname"]
    if hostname.lower() != machine.name and hostname.split(".")[0].lower() != machine.name.split(".")[0]:
        finding = text("the host's own name is {hostname}", hostname=hostname)
        return warn(finding, listed, f"hostnamectl set-hostname {machine.name}")
    return fine(machine.name)


def _correct(machine: Machine, node: str) -> str:
    return text(
        "correct {place}, where two names may be swapped; to rename a node, first: paictl node remove {node}",
        place=machine.place or machine.name,
        node=node,
    )


def unlisted(machines: Iterable[Machine], nodes: Nodes | None) -> tuple[str, ...]:
    """The nodes of the cluster that no list names, as rows for one: ``name,address``."""
    listed = {machine.name for machine in machines}
    return tuple(
        ",".join([name, *addresses[:1]]) for name, addresses in sorted((nodes or {}).items()) if name not in listed
    )


@frozen
class PromisedDevices:
    """Of one machine: devices by the layout, leaf cells by HiveD's configuration; None where the file names it not.

    `leaves` counts those with a device; `cpus` is what all its leaf cells are promised together. `instances` are the
    MIG instances of each GPU, of which a leaf cell is one (0: whole GPUs), and `profile` is theirs, if known.
    """

    devices: int | None = None
    leaves: int | None = None
    cpus: int | None = None
    instances: int = 0
    profile: str = ""


def promises_in(folder: str) -> dict[str, PromisedDevices]:
    """What a folder with layout.yaml and services-configuration.yaml says, by lower-case name of the machine.

    Raises `PaictlError` if nothing in it can be read.
    """
    loaded = load([folder], skip_unknown=True)
    for failure in loaded.failures:
        raise failure
    bundle = Bundle(
        folder, tuple(document for bundle in loaded.bundles for document in bundle.documents if not document.fatal)
    )
    by_layout: dict[str, PromisedDevices] = {}
    layout, cells = layout_in(bundle), hived_in(bundle)
    if layout is None and cells is None:
        raise PaictlError(
            text("contains neither a layout nor cells"), where=folder, hint="create them with paictl config generate"
        )
    promised: dict[str, PromisedDevices] = {}
    if cells is not None:
        for node in cells.nodes:
            name, own = node.name.lower(), _cells_of(cells, node)
            promised[name] = _together(promised[name], own) if name in promised else own
    if layout is not None:
        for machine in layout[1].machines:
            sku = layout[1].sku_of(machine)
            count = sku.device_count if sku else None
            by_layout[machine.key] = replace(promised.get(machine.key, PromisedDevices()), devices=count)
    return {**promised, **by_layout}


def _cells_of(cells: HivedConfig, node: Cell) -> PromisedDevices:
    """What the leaf cells of a node promise; those of a SKU without devices are shares of its cores."""
    leaf, count = node.chain.types[LEAF_LEVEL], len(list(devices(node)))
    cpus = cells.skus.mapping(leaf).integer("cpu")
    leaves = None if leaf in cells.types.without_devices else count
    profile = cells.skus.mapping(leaf).text("migProfile")
    return PromisedDevices(
        None,
        leaves,
        None if cpus is None else cpus * count,
        cells.mig_instances(leaf),
        "" if profile is None else profile.text,
    )


def _together(first: PromisedDevices, second: PromisedDevices) -> PromisedDevices:
    """What the cells of one node in two chains promise: shares of its cores may lie beside its devices."""
    counts = [promise.leaves for promise in (first, second) if promise.leaves is not None]
    divided = first if first.leaves is not None else second
    cpus = None if first.cpus is None or second.cpus is None else first.cpus + second.cpus
    return PromisedDevices(None, sum(counts) if counts else None, cpus, divided.instances, divided.profile)


def promise_of(promises: Mapping[str, PromisedDevices], name: str) -> PromisedDevices:
    """What is said of a machine; nothing of one that is in no file."""
    return promises.get(name.lower(), PromisedDevices())
