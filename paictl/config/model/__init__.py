"""Typed, tolerant views of documents: what a file says, for the rules to ask.

A view keeps the nodes, so that rules can point at them, and goes on where something is missing or misspelt, as if the
mistake were repaired, so that one mistake gives one finding. This package must never report anything, nor raise for
anything that a file may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from paictl.config.document import Document

Model = TypeVar("Model")


def per_document(build: Callable[[Document], Model]) -> Callable[[Document], Model]:
    """Build a document's view at the first call and keep it with the document, as `cached_property` does."""
    key = f"{build.__module__}.{build.__qualname__}"

    @wraps(build)
    def kept(document: Document) -> Model:
        store = vars(document)
        if key not in store:
            store[key] = build(document)
        model: Model = store[key]
        return model

    return kept
