"""YAML inside a YAML string: its text as a source whose offsets lead back to the outer file."""

from __future__ import annotations

import re

from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.source import Source

_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r?\n[ \t]*|.)", re.DOTALL)


def embedded_source(scalar: ScalarNode) -> Source:
    """The text of a string scalar as a source inside the scalar's own.

    The way back is found by aligning the value with what was written: indentation that the block style strips,
    folded line ends and escapes are what the two can differ by.
    """
    outer = scalar.source
    segments = _align(scalar.text, outer.text, scalar.start, scalar.end, scalar.style)
    return Source(outer.path, scalar.text, outer, tuple(segments), style=scalar.style)


def _align(inner: str, outer: str, start: int, end: int, style: str | None) -> list[tuple[int, int]]:
    """(inner offset, outer offset) where a new run of equal characters begins."""
    at = start
    if style in ("|", ">"):
        at = outer.find("\n", start, end) + 1 or end
    elif style is not None:
        at = start + 1
    segments: list[tuple[int, int]] = []
    index = 0
    while index < len(inner) and at < end:
        if style in ("|", ">") and (at == 0 or outer[at - 1] == "\n"):
            at = _skip_indent(inner, index, outer, at, end)
        segments.append((index, at))
        index, at = _run(inner, index, outer, at, end, style)
    return segments or [(0, start)]


def _run(inner: str, index: int, outer: str, at: int, end: int, style: str | None) -> tuple[int, int]:
    """Step over one run: up to and including a line end, or one escape, or one fold."""
    while index < len(inner) and at < end:
        written, read = outer[at], inner[index]
        if style == '"' and written == "\\":
            match = _ESCAPE.match(outer, at)
            width = len(match.group()) if match else 1
            continued = bool(match) and "\n" in outer[at : at + width]
            return index + (0 if continued else 1), at + width
        if style == "'" and outer.startswith("''", at):
            return index + 1, at + 2
        if style in ("|", ">") and written == "\r" and read == "\n":  # the scanner reads CR LF as LF
            return index + 1, at + (2 if outer.startswith("\n", at + 1) else 1)
        if written == read:
            index, at = index + 1, at + 1
            if written == "\n":
                return index, at
        elif written.isspace() or read.isspace():  # a fold: white space of another length on the two sides
            while at < end and outer[at].isspace():
                at += 1
            while index < len(inner) and inner[index].isspace():
                index += 1
            return index, at
        else:
            return index + 1, at + 1
    return index, at


def _skip_indent(inner: str, index: int, outer: str, at: int, end: int) -> int:
    """Outer offset of the first character of a block line that belongs to the value."""
    written = at
    while written < end and outer[written] == " ":
        written += 1
    read = index
    while read < len(inner) and inner[read] == " ":
        read += 1
    return max(at, written - (read - index))
