"""Words of the command line as values, for the plain types that nearly all options have.

typer reads every value through pydantic, which takes longer to load than a short command takes as a whole. A value of
a type that is not plain (a date, a union) is left to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import typer

from paictl.i18n import Text, text
from paictl.suggestions import nearest

Reader = Callable[[Any], Any]


class BadWordError(typer.BadParameter):
    """A value that an option or argument does not take, and the one that was most likely meant."""

    def __init__(self, message: str, near: str = "") -> None:
        super().__init__(message)
        self.near = near


class Plain:
    """Stands where typer keeps its own reader of a parameter's values, and is called in the same way."""

    def __init__(self, read: Reader) -> None:
        self._read = read

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value as the type of the parameter; raises `BadWordError` or what the parameter's parser raises."""
        several = param.multiple or param.nargs == -1
        try:
            if several:
                return tuple(self._read(item) for item in value or ())
            return None if value is None else self._read(value)
        except BadWordError as error:
            error.ctx, error.param = ctx, param
            raise


def make_plain(param: Any) -> None:
    """Let a parameter of a plain type read its values without pydantic."""
    descriptor = getattr(param, "type_descriptor", None)
    if descriptor is None or not hasattr(param, "get_runtime_param"):
        return  # another typer than the one this was made for: it reads values in its own way
    annotation = descriptor.annotation
    if get_origin(annotation) is list:
        (annotation,) = get_args(annotation)
    read = _reader(annotation, descriptor.parameter_info)
    if read is not None:
        plain = Plain(read)
        setattr(param, "get_runtime_param", lambda: plain)  # noqa: B010 - a method of theirs, replaced for one object


def kind_of(param: Any) -> str:
    """What help calls the values of an option: its choices, FILE, N, or TEXT."""
    descriptor = getattr(param, "type_descriptor", None)
    annotation = getattr(descriptor, "annotation", str)
    if get_origin(annotation) is list:
        (annotation,) = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return "|".join(str(member.value) for member in annotation)
    return {int: "N", float: "X", Path: "PATH"}.get(annotation, "TEXT")


def choices_of(param: Any) -> tuple[str, ...]:
    """The words that an option takes; empty where it takes others as well."""
    annotation = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return tuple(str(member.value) for member in annotation)
    return ()


def _reader(annotation: Any, info: Any) -> Reader | None:
    """What reads a word; None for what is not plain."""
    if info.parser is not None:
        return _parsed(info.parser)
    if annotation is str or annotation is bool:
        return lambda value: value
    if annotation is Path:
        checked = info.exists or info.writable or info.resolve_path or info.allow_dash
        return None if checked or not (info.file_okay and info.dir_okay) else Path
    if annotation is int or annotation is float:
        return _number(annotation, info.min, info.max)
    if isinstance(annotation, type) and issubclass(annotation, Enum) and info.case_sensitive:
        return _choice(annotation)
    return None


def _parsed(parser: Callable[[str], Any]) -> Reader:
    def read(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parser(value)
        except ValueError as error:
            raise BadWordError(str(error)) from None

    return read


def _bounds(least: float | None, most: float | None) -> Text:
    if least is not None and most is not None:
        return text("at least {least} and at most {most}", least=least, most=most)
    if least is None:
        return text("a number") if most is None else text("at most {most}", most=most)
    return text("at least {least}", least=least)


def _number(kind: Any, least: float | None, most: float | None) -> Reader:
    what = "{value} is not a whole number" if kind is int else "{value} is not a number"

    def read(value: Any) -> float:
        try:
            number: float = kind(value)
        except ValueError:
            raise BadWordError(text(what, value=repr(value))) from None
        if math.isnan(number) or (least is not None and number < least) or (most is not None and number > most):
            raise BadWordError(text("{value} is not {bounds}", value=value, bounds=_bounds(least, most)))
        return number

    return read


def _choice(annotation: type[Enum]) -> Reader:
    names = {str(member.value): member for member in annotation}

    def read(value: Any) -> Enum:
        if isinstance(value, annotation):
            return value
        if value not in names:
            listed = ", ".join(repr(name) for name in names)
            message = text("{value} is not one of {names}", value=repr(value), names=listed)
            raise BadWordError(message, nearest(value, names, 0.6) or "")
        return names[value]

    return read
