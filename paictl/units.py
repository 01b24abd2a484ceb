"""Units of everything that is counted: Kubernetes quantities, spans of time and instants.

Quantities are written `220Gi`, `64G`, `512`, and for cores `500m`. A suffix with an `i` is a power of 1024, one without
a power of 1000: `64Gi` is 7 % more than `64G`. OpenPAI reads only whole numbers of Ki, Mi, Gi and Ti: `64G` and `500M`
became 0, `1.5Gi` became 9 MiB, cpu `500m` became 500. Source of the format: Kubernetes, `resource.Quantity`.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Final, NewType

from paictl import i18n
from paictl.errors import PaictlError
from paictl.frozen import frozen

Millis = NewType("Millis", int)
"""A point in time or a span, in whole milliseconds: exact, so that sums never drift."""

_ONE: Final = timedelta(milliseconds=1)

FOREVER: Final = math.inf
"""The span, in seconds, of what ends only when it is stopped."""

SECONDS: Final = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
"""Seconds of a unit of time, the largest first."""

_NUMBER = r"\d+(?:\.\d+)?"
_DURATION = r"\s*".join(rf"(?:({_NUMBER})\s*{unit})?" for unit in SECONDS)
_INFINITE: Final = frozenset({"inf", "infinity"})

_FACTORS = {
    "": 1,
    **{f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)},
    **{letter: 1000**power for power, letter in enumerate("kMGTPE", 1)},
    "K": 1000,
}
# patterns as texts, compiled by `re` when they are first asked: most commands read no quantity
_EXACT = r"(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|([a-zA-Z]*))"
_FORM = r"\+?(\d{1,30}(?:\.\d{1,30})?)([KMGTPE]i|[kKMGTPE])?"
_LOOSE = r"\s*(\d+(?:\.\d+)?)\s*([kmgtpe])(i?b?|ibytes?|bytes?)\s*"


def instant(epoch: datetime, span: Millis) -> datetime:
    """The instant that lies a span behind an aware one."""
    return epoch + span * _ONE


def millis_between(start: datetime, end: datetime) -> Millis:
    """The span from one aware instant to another, rounded down; `instant` undoes it."""
    return Millis((end - start) // _ONE)


def from_unix(seconds: float) -> datetime:
    """The aware instant of a Unix time."""
    return datetime.fromtimestamp(seconds, UTC)


def unix_millis(at: datetime) -> Millis:
    """The Unix time of an aware instant, rounded down."""
    return millis_between(datetime.fromtimestamp(0, UTC), at)


def rfc3339(at: datetime) -> str:
    """An aware instant as data hold it: UTC, with milliseconds where there are any."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds" if at.microsecond else "seconds")
    return text.replace("+00:00", "Z")


@frozen
class Quantity:
    """An amount of memory: `count` times the unit that `suffix` names."""

    count: Decimal
    suffix: str

    @property
    def bytes(self) -> int:
        """The amount in bytes, rounded down."""
        return int(self.count * _FACTORS[self.suffix])

    @property
    def mebibytes(self) -> int:
        """The amount in MiB, rounded down."""
        return self.bytes // 1024**2

    @property
    def decimal(self) -> bool:
        """Whether the suffix is one of thousands (`G`), which is easily taken for the one of 1024 (`Gi`)."""
        return len(self.suffix) == 1


def parse_quantity(text: str) -> Quantity | None:
    """The quantity that a text says, or None where it is none."""
    match = re.fullmatch(_FORM, text.strip())
    return Quantity(Decimal(match.group(1)), match.group(2) or "") if match else None


def exact_quantity(value: int | str) -> Fraction:
    """The number that a quantity of anything means (cores, bytes), thousandths and exponents included.

    Raises `ValueError` saying in one line what is wrong with it.
    """
    if isinstance(value, int):
        if value < 0:
            raise ValueError(i18n.text("{value} is negative", value=value))
        return Fraction(value)
    match = re.fullmatch(_EXACT, value.strip(), re.ASCII)
    if match is None:
        raise ValueError(i18n.text("{value!r} is not a quantity such as 4, 500m, 64Gi or 64G", value=value))
    number, exponent, suffix = match.groups()
    if exponent is not None:
        return Fraction(number.rstrip(".") + exponent)
    if suffix == "m":
        return Fraction(number.rstrip(".")) * Fraction(1, 1000)
    if suffix not in _FACTORS:
        known = ", ".join(["m", *filter(None, _FACTORS)])
        raise ValueError(
            i18n.text(
                "{value!r} ends in {suffix}, which is not one of {known}", value=value, suffix=suffix, known=known
            )
        )
    return Fraction(number.rstrip(".")) * Fraction(_FACTORS[suffix])


def likely_quantity(text: str) -> str | None:
    """How Kubernetes wants a size that people wrote their own way (`64 GB`, `64gi`), or None."""
    match = re.fullmatch(_LOOSE, text, re.IGNORECASE)
    return f"{match.group(1)}{match.group(2).upper()}i" if match else None


def shown_bytes(amount: int) -> str:
    """A size for a message, in the largest binary unit that is not below 1."""
    for power, letter in reversed(list(enumerate("KMGTPE", 1))):
        if amount >= 1024**power:
            return f"{amount / 1024**power:.4g}{letter}i"
    return str(amount)


class DurationError(PaictlError, ValueError):
    """A text that is no duration."""

    def __init__(self, text: str) -> None:
        said = i18n.text("{said!r} is not a duration", said=text)
        super().__init__(said, hint="write for instance 90, 90s, 5m, 1h30m, 2d or infinity")


def parse_duration(text: str) -> float:
    """Seconds of ``90``, ``90s``, ``5m``, ``1h30m``, ``2d`` or ``infinity``; larger units first, each once.

    Raises `DurationError` for anything else.
    """
    stripped = text.strip()
    if stripped in _INFINITE:
        return FOREVER
    if re.fullmatch(_NUMBER, stripped, re.ASCII):
        return float(stripped)
    match = re.fullmatch(_DURATION, stripped, re.ASCII)
    if not stripped or match is None:
        raise DurationError(text)
    return sum(float(number) * unit for number, unit in zip(match.groups(), SECONDS.values(), strict=True) if number)


def span_text(span: timedelta | int | None) -> str:
    """A span (an integer counts milliseconds) as people say it: 45s, 12m, 3h05m, 2d04h; `-` for none."""
    if span is None:
        return "-"
    seconds = int(span.total_seconds()) if isinstance(span, timedelta) else span // 1000
    for unit, size, below, name in (("d", 86400, 3600, "h"), ("h", 3600, 60, "m"), ("m", 60, 1, "s")):
        if seconds >= size:
            rest = seconds % size // below
            return f"{seconds // size}{unit}{rest:02}{name}" if rest else f"{seconds // size}{unit}"
    return f"{seconds}s"
