"""Segments of styled text, and how a terminal is told of the styles that every terminal has."""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

Segment: TypeAlias = tuple[str, str]
"""(style in the words of rich, text)"""
Line: TypeAlias = list[Segment]

_CODES: Final = {
    "bold": "1", "dim": "2", "italic": "3", "underline": "4", "black": "30", "red": "31", "green": "32",
    "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36", "white": "37",
}  # fmt: skip
"""Select Graphic Rendition (ECMA-48, 8.3.117) by the words of styles."""
_UNSEEN: Final = dict.fromkeys(map(ord, "\a\b\v\f\r"))
"""What a terminal would obey and not show."""


def visible(text: str) -> str:
    """A text without what moves the cursor of a terminal, tabs as blanks."""
    return text if text.isprintable() else text.translate(_UNSEEN).expandtabs()


def painted(segment: Segment) -> str | None:
    """A segment for a terminal; None for a style that not all of them have, such as one of 256 colours."""
    style, text = segment
    codes = _codes(style)
    if codes is None:
        return None
    return f"\x1b[{codes}m{visible(text)}\x1b[0m" if codes and text else visible(text)


@cache
def _codes(style: str) -> str | None:
    found = [_CODES.get(word) for word in style.split()]
    return None if None in found else ";".join(filter(None, found))
