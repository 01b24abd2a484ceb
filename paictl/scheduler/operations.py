"""The shape of the operations that `replay` takes: which fields each has and what they hold.

Operations come from files and other programs, so a wrong one is answered with an error that names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from paictl.scheduler.decision import Phase
from paictl.scheduler.request import shown

Test = tuple[Callable[[Any], bool], str]
"""A test of a value, and what an error message says was expected."""

_TEXT: Final[Test] = (lambda value: isinstance(value, str) and value != "", "a text")
_FLAG: Final[Test] = (lambda value: isinstance(value, bool), "true or false")
_NAMES: Final[Test] = (
    lambda value: isinstance(value, list | tuple) and all(isinstance(name, str) for name in value),
    "a list of names",
)
_MAPPING: Final[Test] = (lambda value: isinstance(value, dict), "an object")
_PHASE: Final[Test] = (lambda value: value in list(Phase), f"one of {', '.join(Phase)}")
_ORDER: Final[Test] = (lambda value: value in ["nodes_first", "pods_first"], "nodes_first or pods_first")

_POD: Final[Mapping[str, Test]] = {"pod": _MAPPING, "pod.uid": _TEXT}
_UID: Final[Mapping[str, Test]] = {"uid": _TEXT}
_NEEDED: Final[Mapping[str, Mapping[str, Test]]] = {
    "nodes": {"names": _NAMES, "healthy": _FLAG},
    "node": {"name": _TEXT},
    "schedule": _POD,
    "filter": _POD,
    "add_allocated": _UID,
    "bound": _UID,
    "delete_allocated": _UID,
    "delete_unallocated": _UID,
    "restart": {},
    "status": {},
    "mark": {},
}
"""Fields that an operation must have; a dotted one is a field of a field."""

_OPTIONAL: Final[Mapping[str, Test]] = {
    "healthy": _FLAG,
    "deleted": _FLAG,
    "suggested": _NAMES,
    "phase": _PHASE,
    "pod.name": _TEXT,
    "pod.namespace": _TEXT,
    "pod.annotation": (lambda value: isinstance(value, str), "a text"),
    "config": _TEXT,
    "lost": _NAMES,
    "order": _ORDER,
    "view": _TEXT,
}
"""Fields that an operation may have, or have as null."""


def fault(operation: Mapping[str, Any]) -> tuple[str, str] | None:
    """(field, what is wrong with it) of an operation that cannot be carried out, None if it can."""
    name = operation.get("op")
    if not isinstance(name, str) or name not in _NEEDED:
        return "op", f"unknown operation {shown(name)}, expected one of {', '.join(_NEEDED)}"
    for field, (fits, expected) in _NEEDED[name].items():
        if not fits(_value(operation, field)):
            return field, f"expected {expected}, found {shown(_value(operation, field))}"
    for field, (fits, expected) in _OPTIONAL.items():
        value = _value(operation, field)
        if value is not None and not fits(value):
            return field, f"expected {expected}, found {shown(value)}"
    if name == "node" and operation.get("healthy") is None and not operation.get("deleted"):
        return "healthy", "is missing, expected true or false (or deleted: true)"
    return None


def _value(operation: Mapping[str, Any], field: str) -> Any:
    value: Any = operation
    for part in field.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
