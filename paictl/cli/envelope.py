"""What a command gives to a program: one document on stdout, with a version, also when it fails.

A command with data of its own writes them with `console.write_data`. For all others the document is made of what they
say: outcomes as data, lines that would have been results, messages. What failed is in ``error`` (or ``errors`` where
several things were tried); people still read it on stderr.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import PurePath
from typing import Any

SCHEMA_VERSION = 1
"""Counts what breaks readers of the JSON; new fields do not."""


@dataclass(slots=True)
class Envelope:
    """What one command line has said so far."""

    capturing: bool = False
    """Whether results and messages are kept for the document, because the command has no data of its own."""
    written: bool = False
    """Whether a document, or text, is on stdout already."""
    items: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)

    def document(self) -> dict[str, Any] | None:
        """What is still to be written at the end; None if all is said."""
        if self.written or not (self.capturing or self.errors):
            return None
        made: dict[str, Any] = {}
        if self.capturing:
            made = {"items": self.items, "output": self.lines, "messages": self.messages}
        if len(self.errors) == 1:
            made["error"] = self.errors[0]
        elif self.errors:
            made["errors"] = self.errors
        return made


def with_version(data: object) -> dict[str, Any]:
    """Data as a document: a list becomes its ``items``."""
    content = data if isinstance(data, dict) else {"items": data}
    return {"schemaVersion": SCHEMA_VERSION, **content}


_NAMES = ("key", "name", "id", "service", "number", "file", "lab", "check")
"""Fields that name a thing, the likeliest first."""


def names_in(data: object) -> list[str]:
    """The names of the things in some data, for ``-o name``; raises `LookupError` if they have none."""
    items = data if isinstance(data, list) else data.get("items", [data]) if isinstance(data, dict) else [data]
    names = []
    for item in items:
        name = next((item[field] for field in _NAMES if field in item), None) if isinstance(item, dict) else item
        if name is None or isinstance(name, dict | list):
            raise LookupError
        names.append(str(name))
    return names


def lines_in(data: object, dump: Callable[[object], str]) -> list[str]:
    """One JSON document a line, for ``-o ndjson``."""
    return [dump(item) for item in data] if isinstance(data, list) else [dump(data)]


def plain(value: object) -> object:
    """A value as JSON has it: instants in RFC 3339, what is an enum or a path by its text."""
    match value:
        case datetime():
            return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds")
        case Enum():
            return value.value
        case PurePath():
            return str(value)
        case set() | frozenset():
            return sorted(value)
        case _:
            raise TypeError(f"{type(value).__name__} has no form in JSON")
