"""Kubernetes quantities: ``64Gi``, ``64G``, ``1.5Gi``, ``500m``, exactly.

OpenPAI reads only whole numbers of Ki, Mi, Gi and Ti: ``64G`` and ``500M`` became 0, ``1.5Gi`` became 9 MiB, cpu
``500m`` became 500. Source of the format: Kubernetes, `resource.Quantity`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

_BINARY: Final = {f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)}
_SUFFIXES: Final = {"": Fraction(1), "m": Fraction(1, 1000), "K": Fraction(1000)} | _BINARY | _DECIMAL
"""What a suffix multiplies by. Kubernetes writes ``k`` only; people write ``K`` and mean the same."""

_QUANTITY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|([a-zA-Z]*))", re.ASCII)


def parse_quantity(value: int | str) -> Fraction:
    """The number that a quantity means: cores, or bytes.

    Raises `ValueError` saying in one line what is wrong with it.
    """
    if isinstance(value, int):
        if value < 0:
            raise ValueError(f"{value} is negative")
        return Fraction(value)
    match = _QUANTITY.fullmatch(value.strip())
    if match is None:
        raise ValueError(f"{value!r} is not a quantity such as 4, 500m, 64Gi or 64G")
    number, exponent, suffix = match.groups()
    if exponent is not None:
        return Fraction(number.rstrip(".") + exponent)
    if suffix not in _SUFFIXES:
        raise ValueError(f"{value!r} ends in {suffix}, which is none of {', '.join(filter(None, _SUFFIXES))}")
    return Fraction(number.rstrip(".")) * _SUFFIXES[suffix]
