"""How many devices the files of a cluster say that each machine has: the layout, and the cells of HiveD."""

from __future__ import annotations

from collections.abc import Mapping

from paictl.config.models.hived_cells import devices
from paictl.config.models.inventory import hived_in, layout_in
from paictl.config.reading.document import Bundle
from paictl.config.reading.load import load
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text


@frozen
class PromisedDevices:
    """Of one machine: devices by the layout, leaf cells by HiveD's configuration; None where the file names it not."""

    devices: int | None = None
    leaves: int | None = None


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
        raise PaictlError(text("holds no layout and no cells"), where=folder, hint="paictl config generate makes them")
    leaves = {node.name.lower(): len(list(devices(node))) for node in cells.nodes} if cells else {}
    if layout is not None:
        for machine in layout[1].machines:
            sku = layout[1].sku_of(machine)
            count = sku.device_count if sku else None
            found[machine.key] = PromisedDevices(count, leaves.get(machine.key))
    return {**{name: PromisedDevices(None, count) for name, count in leaves.items()}, **found}


def promise_of(promises: Mapping[str, PromisedDevices], name: str) -> PromisedDevices:
    """What is said of a machine; nothing of one that is in no file."""
    return promises.get(name.lower(), PromisedDevices())
