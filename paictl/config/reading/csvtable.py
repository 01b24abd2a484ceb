"""Host lists (`hostname,ip` a line) → rows of fields that remember where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator

from paictl.config.reading.source import Source, Span
from paictl.frozen import frozen

_QUOTED = re.compile(r"(?:^|(?<=,))((?:\s*\"(?:[^\"]|\"\")*\"\s*(?=,|$))|[^,]*)(?=,|$)")
"""The fields of a line with quotes; a quote that is never closed is an ordinary character."""

_LONGEST = 1000
"""Longest line in which quotes are looked for (the search is quadratic); two host names need half of that."""


@frozen
class Field:
    """One field of a row; `text` is as written, quotes removed, spaces kept."""

    source: Source
    start: int
    end: int
    text: str

    @property
    def stripped(self) -> str:
        """The text without surrounding white space."""
        return self.text.strip()

    @property
    def written(self) -> str:
        """The characters between the commas: quotes and spaces included."""
        return self.source.text[self.start : self.end]


@frozen
class Row:
    """One line; a blank line is a row without fields."""

    source: Source
    start: int
    end: int
    fields: tuple[Field, ...]

    @property
    def blank(self) -> bool:
        """Whether the line holds nothing but white space."""
        return not self.fields

    @property
    def comment(self) -> bool:
        """Whether the line starts with ``#``, which the old tools read as a host of that name."""
        return bool(self.fields) and self.fields[0].stripped.startswith("#")

    @property
    def whole(self) -> Span:
        """The line with its line end: what has to go so that no blank line stays behind."""
        text = self.source.text
        end = self.end + (2 if text.startswith("\r\n", self.end) else 1)
        return Span(self.source, self.start, min(end, len(text)))


def parse_csv(source: Source) -> tuple[Row, ...]:
    """Rows of a host list, one a line; the empty text after the last line end is no row.

    A field may be quoted with ``"``; a quoted field never spans lines, because no host name does.
    """
    rows: list[Row] = []
    starts = source.line_starts
    for number, start in enumerate(starts, 1):
        line = source.line(number)
        if start == len(source.text) and number == len(starts):
            break
        fields = tuple(_fields(source, start, line)) if line.strip() else ()
        rows.append(Row(source, start, start + len(line), fields))
    return tuple(rows)


def _fields(source: Source, start: int, line: str) -> Iterator[Field]:
    at = 0
    for raw in _QUOTED.findall(line) if '"' in line and len(line) <= _LONGEST else line.split(","):
        text = raw.strip()[1:-1].replace('""', '"') if _is_quoted(raw) else raw
        yield Field(source, start + at, start + at + len(raw), text)
        at += len(raw) + 1


def _is_quoted(raw: str) -> bool:
    text = raw.strip()
    return len(text) >= 2 and text[0] == text[-1] == '"'
