"""Parameters of policies: fields of a dataclass, written `name:key=value,key=value`.

The type of a field says how its value is read: `int`, `float`, `bool` (true, false), `str`, `Literal[...]` for one of
several words, `Span` for a span in seconds or with a unit (`90`, `2m`, `inf`), `tuple[int, ...]` for `3250/7200`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, Final, Literal, NewType, TypeVar, get_args, get_origin, get_type_hints

from paictl import i18n
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, listed
from paictl.units import DurationError, parse_duration

Span = NewType("Span", int)
"""A span as a parameter, in milliseconds; `FOREVER` for `inf`."""

FOREVER = Span(2**62)

FINITE: Final = 1e15
"""An upper bound for every number of a run; a larger value is a typing error or not a number."""

T = TypeVar("T")


class ParameterError(PaictlError, ValueError):
    """An unknown policy or invalid parameter; `where` names the policy."""


def parameter(default: T, help: str, least: float = 0, most: float = FINITE) -> T:  # noqa: A002 as everybody calls it
    """A field with its default and one line that says what it does.

    `least` and `most` bound numbers and spans (in seconds), both included; spans may be `inf` unless `most` says less.
    """
    declared: T = field(default=default, metadata={"help": help, "bounds": Bounds(least, most)})
    return declared


@frozen
class Bounds:
    """The range of a number, both ends included; of spans in seconds."""

    least: float = 0
    most: float = FINITE

    def hold(self, kind: object, value: Any) -> bool:
        """Whether a value of type `kind` is in the range."""
        if kind is Span:
            return value >= self.least * 1000 and (
                value <= self.most * 1000 or (value == FOREVER and self.most == FINITE)
            )
        return kind not in (int, float) or self.least <= value <= self.most

    @property
    def words(self) -> str:
        """The range in words, empty if every number is in it."""
        low, high = (f"{bound:g}" for bound in (self.least, self.most))
        if self.most == math.inf:
            return i18n.text(", at least {low}, or inf", low=low)
        if self.most != FINITE:
            return i18n.text(", {low} to {high}", low=low, high=high)
        return i18n.text(", at least {low}", low=low) if self.least else ""


@frozen
class Described:
    """A parameter as `paictl sim policies NAME` shows it."""

    name: str
    default: str
    allowed: str
    help: str


def split(text: str) -> tuple[str, dict[str, str]]:
    """The name and the parameters (key to text) of `name:key=value,…`; raises `ParameterError`."""
    name, _, rest = text.partition(":")
    values: dict[str, str] = {}
    for part in rest.split(",") if rest else []:
        key, equals, value = part.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ParameterError(
                i18n.text("{part!r} is not a parameter", part=part),
                where=f"policy {text!r}",
                hint=i18n.text("write {name}:key=value,key=value", name=name),
            )
        if key in values:
            raise ParameterError(i18n.text("{key!r} is given twice", key=key), where=f"policy {text!r}")
        values[key] = value.strip()
    return name.strip(), values


def read(kind: type[T], texts: Mapping[str, str], policy: str) -> T:
    """The parameters of a policy from their texts by key; raises `ParameterError` with the known names."""
    fields_by_name = {_shown(declared): declared for declared in fields(kind)}  # type: ignore[arg-type] # dataclasses only
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for key, text in texts.items():
        if key not in fields_by_name:
            raise ParameterError(
                i18n.text("it has no parameter {key!r}", key=key),
                where=i18n.text("policy {policy}", policy=policy),
                hint=did_you_mean(key, fields_by_name)
                or i18n.text("one of: {names}", names=listed(fields_by_name, 20)),
            )
        where = i18n.text("policy {policy}, parameter {key}", policy=policy, key=key)
        values[fields_by_name[key].name] = _value(
            hints[fields_by_name[key].name], _bounds(fields_by_name[key]), text, where
        )
    try:
        return kind(**values)
    except ParameterError as error:  # values that contradict each other
        raise ParameterError(
            error.message, where=i18n.text("policy {policy}", policy=policy), hint=error.hint
        ) from None


def as_data(parameters: object) -> dict[str, object]:
    """All parameters by name, for reports: spans in seconds, without bound `inf`."""
    hints = get_type_hints(type(parameters))
    return {
        _shown(declared): _plain(hints[declared.name], getattr(parameters, declared.name))
        for declared in fields(parameters)  # type: ignore[arg-type] # dataclasses only
    }


def described(kind: type[object]) -> list[Described]:
    """All parameters of a policy, as `paictl sim policies NAME` lists them."""
    hints = get_type_hints(kind)
    return [
        Described(
            _shown(declared),
            "" if declared.default is MISSING else str(_text(_plain(hints[declared.name], declared.default))),
            _allowed(hints[declared.name], _bounds(declared)),
            str(declared.metadata.get("help", "")),
        )
        for declared in fields(kind)  # type: ignore[arg-type] # dataclasses only
    ]


def _shown(declared: Field[Any]) -> str:
    return declared.name.replace("_", "-")


def _bounds(declared: Field[Any]) -> Bounds:
    bounds: Bounds = declared.metadata.get("bounds", Bounds())
    return bounds


def _allowed(kind: object, bounds: Bounds) -> str:
    if get_origin(kind) is Literal:
        return " | ".join(str(word) for word in get_args(kind))
    if get_origin(kind) is tuple:
        return i18n.text("numbers with / between them")
    word = i18n.text(_WORDS.get(kind, "text"))
    return i18n.joined("", (word, bounds.words)) if kind in (int, float, Span) else word


def _plain(kind: object, value: Any) -> object:
    if kind is Span:
        return "inf" if value >= FOREVER else value / 1000
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, tuple):
        return [_plain(get_args(kind)[0], part) for part in value]
    return value


def _text(value: object) -> object:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "/".join(str(_text(part)) for part in value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _value(kind: object, bounds: Bounds, text: str, where: str) -> object:
    if get_origin(kind) is Literal:
        words = {str(word): word for word in get_args(kind)}
        if text not in words:
            raise ParameterError(
                i18n.text("{text!r} is not a known value", text=text),
                where=where,
                hint=did_you_mean(text, words) or i18n.text("one of: {names}", names=listed(words, 20)),
            )
        return words[text]
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        return tuple(_value(inner, bounds, part, where) for part in text.split("/") if part)
    reader = _READERS.get(kind)
    if reader is None:
        return text
    try:
        value = reader(text)
        if not bounds.hold(kind, value):
            raise ValueError(text)
    except (ValueError, OverflowError) as error:
        raise ParameterError(
            i18n.text("{text!r} is not allowed", text=text),
            where=where,
            hint=i18n.text("allowed: {allowed}", allowed=_allowed(kind, bounds)),
        ) from error
    return value


def _bool(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _float(text: str) -> float:
    number = float(text)
    if math.isnan(number):
        raise ValueError(text)
    return number


def _span(text: str) -> Span:
    if text in ("inf", "forever"):
        return FOREVER
    try:
        millis = round(parse_duration(text) * 1000)
    except DurationError as error:
        raise ValueError(text) from error
    if millis < 0:
        raise ValueError(text)
    return Span(millis)


_WORDS: Mapping[object, str] = {
    Span: "seconds, or with a unit",
    bool: "true | false",
    int: "whole number",
    float: "number",
}
_READERS: Mapping[object, Callable[[str], object]] = {int: int, float: _float, bool: _bool, Span: _span}
