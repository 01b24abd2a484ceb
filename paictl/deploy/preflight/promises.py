"""How many devices the files of a cluster say that each machine has: the layout, and the cells of HiveD."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from paictl.cells.spec import LEAF_LEVEL
from paictl.config.models.hived import HivedConfig
from paictl.config.models.hived_cells import Cell, devices
from paictl.config.models.inventory import hived_in, layout_in
from paictl.config.reading.document import Bundle
from paictl.config.reading.load import load
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text


@frozen
class PromisedDevices:
    """Of one machine: devices by the layout, leaf cells by HiveD's configuration; None where the file names it not.

    `leaves` counts those with a device; `cpus` is what all its leaf cells are promised together.
    """

    devices: int | None = None
    leaves: int | None = None
    cpus: int | None = None


def promises_in(folder: str) -> dict[str, PromisedDevices]:
    """What a folder with layout.yaml and services-configuration.yaml says, by lower-case name of the machine.

    Raises `PaictlError` if nothing in it can be read.
    """
    loaded = load([folder], skip_unknown=True)
    for failure in loaded.failures:
        raise failure
    bundle = Bundle(
        folder, tuple(document for one in loaded.bundles for document in one.documents if not document.fatal)
    )
    found: dict[str, PromisedDevices] = {}
    layout, cells = layout_in(bundle), hived_in(bundle)
    if layout is None and cells is None:
        raise PaictlError(
            text("contains neither a layout nor cells"), where=folder, hint="create them with paictl config generate"
        )
    promised = {node.name.lower(): _cells_of(cells, node) for node in cells.nodes} if cells else {}
    if layout is not None:
        for machine in layout[1].machines:
            sku = layout[1].sku_of(machine)
            count = sku.device_count if sku else None
            found[machine.key] = replace(promised.get(machine.key, PromisedDevices()), devices=count)
    return {**promised, **found}


def _cells_of(cells: HivedConfig, node: Cell) -> PromisedDevices:
    """What the leaf cells of a node promise; those of a SKU without devices are shares of its cores."""
    leaf, count = node.chain.types[LEAF_LEVEL], len(list(devices(node)))
    cpus = cells.skus.mapping(leaf).integer("cpu")
    return PromisedDevices(
        None, None if leaf in cells.types.without_devices else count, None if cpus is None else cpus * count
    )


def promise_of(promises: Mapping[str, PromisedDevices], name: str) -> PromisedDevices:
    """What is said of a machine; nothing of one that is in no file."""
    return promises.get(name.lower(), PromisedDevices())
