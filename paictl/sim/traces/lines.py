"""Rows of a table with their line numbers, and the values in them; what is wrong with a row is said."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Final, TypeVar

from paictl import i18n
from paictl.sim.job import BadRow, TraceJobError
from paictl.sim.traces.source import TraceError, TraceFile
from paictl.units import Millis

T = TypeVar("T")

MILLISECOND: Final = 1
SECOND: Final = 1_000
MINUTE: Final = 60_000
"""How many milliseconds a unit of a column has."""

LONGEST: Final = 100 * 365 * 86_400 * SECOND
"""A hundred years in milliseconds: what is longer is a mistake in the unit, or in the file."""


class RowError(ValueError):
    """A row that is no job; the message says why."""


class Line:
    """One row of a table, by the names of its columns."""

    __slots__ = ("_columns", "_values", "number")

    def __init__(self, number: int, columns: Mapping[str, int], values: Sequence[str]) -> None:
        self.number = number
        self._columns = columns
        self._values = values

    def get(self, column: str) -> str:
        """The text of a column without blanks around it; empty where there is no such column."""
        index = self._columns.get(column)
        return "" if index is None else self._values[index].strip()

    def text(self, column: str) -> str:
        """The text of a column; raises `RowError` if it is empty."""
        found = self.get(column)
        if not found:
            raise RowError(i18n.text("{column} is empty", column=column))
        return found

    def whole(self, column: str, least: int) -> int:
        """A whole number of at least `least`, ``4.0`` too; raises `RowError` otherwise."""
        return whole(self.text(column), column, least)

    def span(self, column: str, unit: int, least: int = 0) -> Millis:
        """A span in milliseconds of a column in `unit` milliseconds; raises `RowError` if it is none."""
        return span(self.text(column), column, unit, least)

    def number_or(self, column: str, other: float) -> float:
        """A number, or `other` where the column is missing or empty; raises `RowError` if it is none."""
        found = self.get(column)
        return number(found, column) if found else other

    def date(self, column: str) -> Millis:
        """Milliseconds since 1970 of a date with time; one without zone counts as UTC. Raises `RowError`."""
        return date(self.text(column), column)


def whole(text: str, what: str, least: int) -> int:
    """A whole number of at least `least`; raises `RowError`."""
    try:
        found = int(text)
    except ValueError:
        decimal = _decimal(text, what)
        if decimal != (found := int(decimal)):
            raise RowError(i18n.text("{what} is {text!r}, not a whole number", what=what, text=text)) from None
    if found < least:
        raise RowError(i18n.text("{what} is {found}, less than {least}", what=what, found=found, least=least))
    return found


def span(text: str, what: str, unit: int, least: int = 0) -> Millis:
    """A span in milliseconds, exact to half of one; raises `RowError` for less than `least` and more than `LONGEST`."""
    try:
        found = int(text) * unit
    except ValueError:
        found = int((_decimal(text, what) * unit).to_integral_value())
    if found < least:
        few = i18n.text("{what} is {text}, which is negative", what=what, text=text)
        raise RowError(few if found < 0 else i18n.text("{what} is {text}, too short", what=what, text=text))
    if found > LONGEST:
        raise RowError(
            i18n.text("{what} is {text}, more than a hundred years; is the unit right?", what=what, text=text)
        )
    return Millis(found)


def number(text: str, what: str) -> float:
    """A finite number; raises `RowError`."""
    return float(_decimal(text, what))


def date(text: str, what: str) -> Millis:
    """Milliseconds since 1970 of ``2017-10-09 07:01:55`` and other forms of ISO 8601; raises `RowError`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise RowError(i18n.text("{what} is {text!r}, not a date", what=what, text=text)) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return Millis(round(found.timestamp() * SECOND))


def _decimal(text: str, what: str) -> Decimal:
    try:
        found = Decimal(text)
    except InvalidOperation:
        found = Decimal("nan")
    if not found.is_finite() or abs(found) > LONGEST:
        raise RowError(i18n.text("{what} is {text!r}, not a number", what=what, text=text))
    return found


def header(source: TraceFile, delimiter: str = ",") -> tuple[str, ...]:
    """The names in the first line, empty if there is none."""
    first = source.data[:4096].decode("utf-8-sig", "replace").splitlines()
    return tuple(name.strip() for name in first[0].split(delimiter)) if first else ()


def table(
    source: TraceFile,
    row: Callable[[Line], T],
    *,
    columns: Sequence[str] = (),
    delimiter: str = ",",
    quoted: bool = True,
) -> Iterator[tuple[int, T] | BadRow]:
    """Every row of a table as `row` makes it with its line, or why it is none; blank lines are nothing.

    `columns` are the names where the file has no heading. Raises `TraceError` if a name is there twice.
    """
    marks = '"' if quoted else None
    lines = csv.reader(source.text().splitlines(), delimiter=delimiter, strict=True, quotechar=marks)
    names = list(columns) or [name.strip() for name in next(lines, [])]
    index = {name: number for number, name in enumerate(names)}
    if len(index) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TraceError(
            i18n.text("has two columns {twice!r}", twice=twice),
            where=f"{source.name}:1",
            hint="rename or remove one of them",
        )
    while True:
        try:
            values = next(lines)
            if not values or values == [""]:
                continue
            if len(values) != len(names):
                raise RowError(
                    i18n.text("{values} values in {columns} columns", values=len(values), columns=len(names))
                )
            made = row(Line(lines.line_num, index, values))
        except StopIteration:
            return
        except (RowError, csv.Error) as error:
            yield BadRow(lines.line_num, str(error))
        except TraceJobError as error:
            yield BadRow(lines.line_num, error.message)
        else:
            yield lines.line_num, made
