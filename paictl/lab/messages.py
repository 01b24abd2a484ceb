"""What labs say, as key and arguments; the words are chosen when a message is shown, never translated afterwards.

The tables are `catalogue/en.py` and `catalogue/zh.py`, one a language, with the same keys and arguments (a test
compares them).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import Any, Final

from paictl.frozen import frozen

LANGUAGES: Final = ("en", "zh")
DEFAULT: Final = "en"

Value = Any
"""An argument: a text or number (shown as it is), another `Message`, or a tuple of either (joined by the template)."""


@frozen
class Message:
    """A text of the catalogue by `key`, with its arguments."""

    key: str
    values: Mapping[str, Value] = field(default_factory=dict)

    def text(self, language: str) -> str:
        """The words in a language."""
        template = catalogue(language)[self.key]
        items = self.values.get("items")
        if isinstance(items, tuple):
            return template.join(_shown(item, language) for item in items)
        return template.format(**{name: _shown(value, language) for name, value in self.values.items()})

    def data(self) -> dict[str, Any]:
        """The message as plain data, which `message_from` reads back."""
        return {"key": self.key, "values": {name: _plain(value) for name, value in self.values.items()}}


def message(key: str, **values: Value) -> Message:
    """A message by key and arguments."""
    return Message(key, values)


def literal(value: object) -> Message:
    """A name, number, state or command that is the same in every language."""
    return Message("literal", {"value": str(value)})


def joined(key: str, items: Iterable[Value]) -> Message:
    """Several values as one text; the template of the key is what stands between them."""
    return Message(key, {"items": tuple(items)})


def say(key: str, language: str, **values: Value) -> str:
    """The words of a key in a language."""
    return Message(key, values).text(language)


def message_from(data: Mapping[str, Any]) -> Message:
    """A message from plain data; raises `KeyError` or `TypeError` for anything else."""
    return Message(data["key"], {name: _read(value) for name, value in data["values"].items()})


@cache
def catalogue(language: str) -> Mapping[str, str]:
    """Key → template of a language; English for one that there is none of."""
    name = language if language in LANGUAGES else DEFAULT
    texts: Mapping[str, str] = import_module(f"paictl.lab.catalogue.{name}").TEXTS
    return texts


def _shown(value: Value, language: str) -> Any:
    return value.text(language) if isinstance(value, Message) else value


def _plain(value: Value) -> Any:
    if isinstance(value, Message):
        return value.data()
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _read(value: Any) -> Value:
    if isinstance(value, dict):
        return message_from(value)
    return tuple(_read(one) for one in value) if isinstance(value, list) else value
