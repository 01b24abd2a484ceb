"""Segments of styled text, and the escape sequences for the styles that every terminal has."""

from __future__ import annotations

from functools import cache
from typing import Final, TypeAlias

from paictl.config.reading.source import printable

Segment: TypeAlias = tuple[str, str]
"""(style in the words of rich, text)"""
Line: TypeAlias = list[Segment]

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "underline": "4",
    "black": "30",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
    "white": "37",
}
"""Select Graphic Rendition (ECMA-48, 8.3.117) by the words of styles."""


def visible(text: str) -> str:
    """A text with everything escaped that a terminal would obey instead of showing it; line ends and tabs stay.

    Tenants write descriptions, messages and labels that administrators read: nothing of theirs may move the cursor,
    hide a line or set the title of a window.
    """
    if text.isprintable():
        return text
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def painted(segment: Segment) -> str | None:
    """A segment for a terminal; None for a style that not all of them have, such as one of 256 colours."""
    style, text = segment
    codes = _codes(style)
    if codes is None:
        return None
    return f"\x1b[{codes}m{text}\x1b[0m" if codes and text else text


@cache
def _codes(style: str) -> str | None:
    codes = [_CODES.get(word) for word in style.split()]
    return None if None in codes else ";".join(filter(None, codes))
