"""What labs say, errors as well, as key and arguments; the words are chosen when a message is shown.

The tables are `catalogue/en.py` and `catalogue/zh.py`, one a language, with the same keys and arguments (a test
compares them).
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from paictl.errors import PaictlError
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
        if self.key == _BY_LANGUAGE:
            return str(_shown(self.values.get(language, self.values[DEFAULT]), language))
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


def by_language(texts: Mapping[str, Value]) -> Message:
    """What is said in other words in each language: language → value, English at least."""
    return Message(_BY_LANGUAGE, dict(texts))


_BY_LANGUAGE: Final = "by-language"


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
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _read(value: Any) -> Value:
    if isinstance(value, dict):
        return message_from(value)
    return tuple(_read(item) for item in value) if isinstance(value, list) else value


class LabError(PaictlError):
    """A failure that a student can act on.

    `key` names two texts of the catalogue: ``error.KEY`` says what is wrong, ``error.KEY.hint`` what to do next; both
    take the arguments in `values`.
    """

    def __init__(self, key: str, *, where: str | None = None, hint_key: str | None = None, **values: Any) -> None:
        self.problem = Message(f"error.{key}", values)
        self.way_on = Message(f"error.{hint_key or key}.hint", values)
        super().__init__(self.problem.text(DEFAULT), hint=self.way_on.text(DEFAULT), where=where)

    def in_language(self, language: str) -> PaictlError:
        """The same error for a reader of a language."""
        return PaictlError(self.problem.text(language), hint=self.way_on.text(language), where=self.where)


_WAYS_ON: Final = {errno.ENOENT: "no-folder", errno.ENOTDIR: "no-folder", errno.EISDIR: "is-folder"}


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say what the disk refuses, and that the student can go on when it does not any more."""
    try:
        yield
    except OSError as error:
        way_on = _WAYS_ON.get(error.errno or 0, "unwritable")
        raise LabError("unwritable", hint_key=way_on, where=str(path), reason=error.strerror or str(error)) from None
