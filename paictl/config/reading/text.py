"""Text of hostile origin made fit to be shown: names and values of a file end up on terminals and in CI logs."""

from __future__ import annotations

import unicodedata

MAX_MESSAGE = 600
"""Longest message or hint, in characters; a name in a file may have millions."""

_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories that can move the cursor, reorder the line, end it, or cannot be encoded."""


def printable(text: str) -> str:
    """The text with everything escaped that is not simply shown: control characters, escapes, direction marks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if shows(character) else escaped(character) for character in text)


def shows(character: str) -> bool:
    """Whether a character shows as itself and does nothing else."""
    return unicodedata.category(character) not in _HARMFUL


def escaped(character: str) -> str:
    r"""How a character that does not show is written: ``\t``, ``\x1b``, ``\u202e``."""
    return character.encode("unicode_escape").decode("ascii")


def one_line(text: str, limit: int = MAX_MESSAGE) -> str:
    """The text as one printable line, cut in the middle where it is longer than `limit` characters."""
    if len(text) > limit:
        half = (limit - 5) // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return printable(text)
