"""Host lists (`hostname,ip` a line) → rows of fields that remember where they stand."""

from __future__ import annotations

from dataclasses import dataclass

from paictl.config.source import Source


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    def hosts(self) -> tuple[Field, Field] | None:
        """(host name, address) where the row has exactly two fields, else None."""
        return (self.fields[0], self.fields[1]) if len(self.fields) == 2 and not self.comment else None


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


def _fields(source: Source, start: int, line: str) -> list[Field]:
    fields: list[Field] = []
    at, quoted = 0, False
    for index, character in enumerate(line + ","):
        if character == '"':
            quoted = not quoted
        if character == "," and (not quoted or index == len(line)):
            raw = line[at:index]
            text = raw.strip()[1:-1].replace('""', '"') if _is_quoted(raw) else raw
            fields.append(Field(source, start + at, start + index, text))
            at = index + 1
    return fields


def _is_quoted(raw: str) -> bool:
    text = raw.strip()
    return len(text) >= 2 and text[0] == text[-1] == '"'
