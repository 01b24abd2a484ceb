"""Machines from a layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paictl.cluster.interface import MachineSpec, NodeRole
from paictl.config.models.hived import HivedConfig, hived
from paictl.config.models.layout import layout_of
from paictl.config.reading.document import Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.errors import PaictlError


def machines_in(files: Mapping[str, str]) -> list[MachineSpec]:
    """The machines that the layout among some configuration files lists; raises `PaictlError` without a layout."""
    loaded = load_memory(files)
    documents = [document for document in loaded.documents if document.kind is FileKind.LAYOUT]
    if not documents:
        raise PaictlError("the files contain no layout", hint="a cluster needs a layout.yaml")
    cells = next((hived(document) for document in loaded.documents if document.kind is FileKind.HIVED), None)
    return list(_machines(documents[0], _divided(cells) if cells is not None else {}))


def _divided(cells: HivedConfig) -> dict[str, int]:
    """MIG instances of each GPU by lower-case name of the node, where leaf cells are these."""
    if not any(cells.mig_instances(leaf) for leaf in cells.types.leaves):
        return {}
    pairs = ((node.name.lower(), cells.mig_instances(node.chain.leaf_type)) for node in cells.nodes)
    return {name: instances for name, instances in pairs if instances}


def _machines(document: Document, divided: Mapping[str, int]) -> Iterator[MachineSpec]:
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
            devices=((sku.device_count if sku else None) or 0) * divided.get(entry.key, 1),
        )
