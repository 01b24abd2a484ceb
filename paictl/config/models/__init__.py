"""Typed, tolerant views of documents: what a file of each kind says, for the rules to ask.

A view keeps the nodes, so that rules can point at them, and goes on where something is missing or misspelt, as if the
mistake were repaired, so that one mistake gives one finding. It is computed once per document. This package must never
report anything, nor raise for anything that a file may hold.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Held = TypeVar("Held")
View = TypeVar("View")


def per_document(build: Callable[[Held], View]) -> Callable[[Held], View]:
    """Compute a view of a document or bundle once, and keep it as long as that object lives.

    The view is kept in the object's own `__dict__`, as `functools.cached_property` does: a cache keyed by the object
    would have to hash all its rows and nodes at every look-up, and would keep every document ever read.
    """
    key = f"{build.__module__}.{build.__qualname__}"

    @wraps(build)
    def view(held: Held) -> View:
        memory = vars(held)
        if key not in memory:
            memory[key] = build(held)
        result: View = memory[key]
        return result

    return view
