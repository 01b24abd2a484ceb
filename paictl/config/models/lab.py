"""The ids that a lab's manifest defines."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TypeAlias

from paictl.config.reading.document import Document

Ids: TypeAlias = AbstractSet[str]


def ids_in(document: Document, part: str) -> Ids:
    """The ids of the steps, checks or near misses (`part`) of a lab."""
    named = (mapping.text("id") for mapping in document.top.sequence(part).mappings())
    return {name.text for name in named if name is not None}
