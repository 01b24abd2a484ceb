"""Reading plain data with the path of every field at hand, so that an error can name it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from paictl.errors import PaictlError
from paictl.i18n import Text, text
from paictl.i18n import listed as shortened
from paictl.suggestions import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable


class JobError(PaictlError):
    """A job that cannot be taken as it stands; `path` (also `where`) is the field at fault, dots between keys."""

    def __init__(self, path: str, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, where=path, hint=hint)
        self.path = path
        self.request: int | None = None
        """Which of the jobs that were submitted together it is about, from 0; None: not known."""


_STEP: Final = re.compile(r"\['([^']*)'\]|\[(\d+)\]|([^.\[\]]+)")


def steps_of(path: str) -> tuple[str | int, ...]:
    """The keys and indices of a path as `JobError` has it."""
    return tuple(quoted or plain or int(index) for quoted, index, plain in _STEP.findall(path))


def suggestion(word: str, known: Iterable[str], label: str) -> str:
    """A hint for a name that is not known: the nearest one, and all of them; `label` says what they are."""
    names = list(known)
    near = nearest(word, names, 0.6)
    shown = text(
        "{label}: {names}",
        label=label if isinstance(label, Text) else text(label),
        names=shortened(names) or text("none"),
    )
    return text("did you mean {near!r}? {shown}", near=near, shown=shown) if near else shown


class Fields:
    """A mapping and its path. Every reader raises `JobError` naming the field that has the wrong shape."""

    __slots__ = ("path", "values")

    def __init__(self, value: object, path: str, known: frozenset[str] | None = None) -> None:
        """Wrap `value`, which must be a mapping; with `known`, any other key is an error."""
        if not isinstance(value, Mapping):
            raise JobError(path or "(job)", text("expected a mapping, found {kind}", kind=kind(value)))
        self.values: Mapping[object, object] = value
        self.path = path
        unknown = [] if known is None else [key for key in value if key not in known]
        if unknown:
            hint = suggestion(str(unknown[0]), sorted(known or ()), "fields here")
            raise JobError(self.at(unknown[0]), "no such field", hint=hint)

    def at(self, key: object) -> str:
        """Path of the field `key`."""
        return f"{self.path}.{key}" if self.path else str(key)

    def get(self, key: str) -> object:
        """The plain value, None where it is missing or null."""
        return self.values.get(key)

    def error(self, key: str, message: str, *, hint: str | None = None) -> JobError:
        """An error about the field `key`, to be raised."""
        return JobError(self.at(key), message, hint=hint)

    def mapping(self, key: str, known: frozenset[str] | None = None) -> Fields:
        """A nested mapping, empty where it is missing or null."""
        value = self.get(key)
        return Fields({} if value is None else value, self.at(key), known)

    def required(self, key: str, known: frozenset[str] | None = None) -> Fields:
        """A nested mapping that must be there."""
        return Fields(self.get(key), self.at(key), known)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty; without a `default` it must be there."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, str) or not value:
            raise self.error(key, text("expected a text, found {kind}", kind=kind(value)))
        return value

    def optional_text(self, key: str) -> str | None:
        """A text that is not empty, None where it is missing or null."""
        return None if self.get(key) is None else self.text(key)

    def flag(self, key: str, *, default: bool) -> bool:
        """True or false."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(key, text("expected true or false, found {kind}", kind=kind(value)))
        return value

    def whole(self, key: str, least: int, default: int | None = None) -> int:
        """A whole number of at least `least`; without a `default` it must be there."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(key, text("expected a whole number, found {kind}", kind=kind(value)))
        if value < least:
            raise self.error(key, text("must be at least {least}, is {found}", least=least, found=value))
        return value

    def items(self, key: str) -> Sequence[object]:
        """A list, empty where it is missing or null."""
        value = self.get(key)
        if value is None:
            return ()
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise self.error(key, text("expected a list, found {kind}", kind=kind(value)))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts, empty where it is missing or null."""
        items = self.items(key)
        for i, item in enumerate(items):
            if not isinstance(item, str):
                raise JobError(f"{self.at(key)}[{i}]", text("expected a text, found {kind}", kind=kind(item)))
        return tuple(str(item) for item in items)


def kind(value: object) -> str:
    """What a value is, for messages; never the value itself unless it is short and harmless."""
    match value:
        case None:
            return text("nothing")
        case bool() | int() | float() | "":
            return repr(value)
        case str():
            return text("a text")
        case Mapping():
            return text("a mapping")
        case Sequence():
            return text("a list")
    return type(value).__name__
