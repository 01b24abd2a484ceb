"""Machines from a layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paictl.cluster.interface import Machine, Role
from paictl.config.document import Document
from paictl.config.kinds import Kind
from paictl.config.load import load_memory
from paictl.config.model.layout import layout_of
from paictl.errors import PaictlError


def machines_in(files: Mapping[str, str]) -> list[Machine]:
    """The machines that the layout among some configuration files lists; raises `PaictlError` without a layout."""
    loaded = load_memory({name: text.encode() for name, text in files.items()})
    found = [document for document in loaded.documents if document.kind is Kind.LAYOUT]
    if not found:
        raise PaictlError("there is no layout among the files", hint="a cluster is made from a layout.yaml")
    return list(_machines(found[0]))


def _machines(document: Document) -> Iterator[Machine]:
    layout = layout_of(document)
    for entry in layout.machines:
        sku = layout.sku_of(entry)
        device = sku.device if sku else None
        model = device.scalar("type") if device else None
        yield Machine(
            name=entry.name.text if entry.name else "",
            address=entry.address.text if entry.address else "",
            role=Role.MASTER if entry.has("pai-master") else Role.WORKER,
            sku=entry.sku.text if entry.sku else "",
            cpu=(sku.vcores if sku else None) or 0,
            memory=sku.memory.bytes if sku and sku.memory else 0,
            device_type=model.text if model else "",
            devices=(sku.device_count if sku else None) or 0,
        )
