"""Views of a document that rules can work with: one module a kind of file.

A view is typed, tolerant (what the schema already reported is simply absent) and keeps the nodes to point at. It is
computed once per document and must never report anything, raise for anything a file may hold, or change a document.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Held = TypeVar("Held")
View = TypeVar("View")


def remembered(build: Callable[[Held], View]) -> Callable[[Held], View]:
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
        found: View = memory[key]
        return found

    return view
