"""Lines of styled text, and fitting them into a width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from rich.cells import cell_len, set_cell_size

from paictl.cli.segments import Line
from paictl.config.reading.text import printable

HEADING: Final = "bold"
INDENT: Final = "  "
NAME: Final = 24
"""Columns for a name at most."""


def flow(items: Iterable[Line], width: int, indent: str = "", gap: str = "  ") -> Iterator[Line]:
    """Items side by side, on as many lines as they need."""
    line: Line = []
    used = 0
    for item in items:
        size = sum(cell_len(text) for _, text in item)
        if line and used + len(gap) + size > width:
            yield line
            line = []
        before = gap if line else indent
        used = (used if line else 0) + len(before) + size
        line = [*line, *([("", before)] if before else []), *item]
    if line:
        yield line


def cut(text: str, width: int) -> str:
    """The text, printable and at most `width` columns wide."""
    text = printable(text)
    return text if cell_len(text) <= width else set_cell_size(text, max(0, width - 2)).rstrip() + ".."


def padded(text: str, width: int) -> str:
    """The text, printable and exactly `width` columns wide."""
    return set_cell_size(cut(text, width), width)


def clipped(line: Line, width: int) -> Line:
    """The line without what stands beyond the width."""
    out: Line = []
    for style, text in line:
        if cell_len(text) > width:
            text = cut(text, width) if text.strip() else text[:width]
        width -= cell_len(text)
        if text:
            out.append((style, text))
        if width <= 0:
            break
    return out
