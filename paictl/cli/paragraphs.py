"""Sentences broken into lines for a terminal, at words in English and between characters in Chinese."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterator
from typing import Final

MOST: Final = 100
"""Columns that a line of prose has at most, however wide the terminal is."""

_NEVER_FIRST: Final = frozenset("，。；：、？！）》」』”’】…,.;:?!)]}%")
_NEVER_LAST: Final = frozenset("（《「『“‘【([{")


def columns() -> int | None:
    """How wide lines of prose may be; None where no terminal breaks them."""
    return min(shutil.get_terminal_size().columns, MOST) if sys.stdout.isatty() else None


def wrapped(text: str, width: int | None, *, indent: str = "", hang: str | None = None) -> list[str]:
    """The lines of a text; `indent` stands before the first, `hang` (else `indent`) before the others."""
    if width is None:
        return [indent + text]
    rest = indent if hang is None else hang
    lines: list[str] = []
    line, used = indent, wide(indent)
    empty = True
    for piece in _pieces(text):
        size = wide(piece.rstrip())
        if not empty and used + size > width:
            lines.append(line.rstrip())
            line, used = rest, wide(rest)
        line, used, empty = line + piece, used + wide(piece), False
    return [*lines, line.rstrip()]


def _pieces(text: str) -> Iterator[str]:
    """Parts of a text between which a line may be broken, each with the spaces behind it."""
    piece = ""
    for token in re.findall(r"\S+\s*", text):
        for character in token:
            if piece and _may_break(piece[-1], character):
                yield piece
                piece = ""
            piece += character
    if piece:
        yield piece


def _may_break(before: str, after: str) -> bool:
    """Whether a line may end between two characters."""
    if before.isspace():
        return not after.isspace()
    if before in _NEVER_LAST or after in _NEVER_FIRST or after.isspace():
        return False
    return _is_wide(before) or _is_wide(after)


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in "WF"


def wide(text: str) -> int:
    """Columns of a text on a terminal."""
    return len(text) if text.isascii() else sum(1 + _is_wide(character) for character in text)
