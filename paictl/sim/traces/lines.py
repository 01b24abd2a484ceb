"""Rows of a table with their line numbers, and the values in them; errors say what is wrong with a row."""

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
"""Milliseconds of a column's unit."""

LONGEST: Final = 100 * 365 * 86_400 * SECOND
"""A hundred years in milliseconds: longer spans are a mistake in the unit, or in the file."""


class RowError(ValueError):
    """A row that is not a job; the message says why."""


class Line:
    """One row of a table, by the names of its columns."""

    __slots__ = ("_columns", "_values", "number")

    def __init__(self, number: int, columns: Mapping[str, int], values: Sequence[str]) -> None:
        self.number = number
        self._columns = columns
        self._values = values

    def get(self, column: str) -> str:
        """The text of a column without surrounding blanks; empty if there is no such column."""
        index = self._columns.get(column)
        return "" if index is None else self._values[index].strip()

    def text(self, column: str) -> str:
        """The text of a column; raises `RowError` if it is empty."""
        value = self.get(column)
        if not value:
            raise RowError(i18n.text("{column} is empty", column=column))
        return value

    def whole(self, column: str, least: int) -> int:
        """A whole number of at least `least`, ``4.0`` too; raises `RowError` otherwise."""
        return whole(self.text(column), column, least)

    def span(self, column: str, unit: int, least: int = 0) -> Millis:
        """A span in milliseconds, from a column in units of `unit` milliseconds; raises `RowError` if it is invalid."""
        return span(self.text(column), column, unit, least)

    def number_or(self, column: str, other: float) -> float:
        """A number, or `other` if the column is missing or empty; raises `RowError` if it is invalid."""
        value = self.get(column)
        return number(value, column) if value else other

    def date(self, column: str) -> Millis:
        """Milliseconds since 1970 of a date with time; one without zone counts as UTC. Raises `RowError`."""
        return date(self.text(column), column)


def whole(text: str, column: str, least: int) -> int:
    """A whole number of at least `least`; raises `RowError`."""
    try:
        value = int(text)
    except ValueError:
        decimal = _decimal(text, column)
        if decimal != (value := int(decimal)):
            raise RowError(i18n.text("{what} is {text!r}, not a whole number", what=column, text=text)) from None
    if value < least:
        raise RowError(i18n.text("{what} is {found}, less than {least}", what=column, found=value, least=least))
    return value


def span(text: str, column: str, unit: int, least: int = 0) -> Millis:
    """A span in milliseconds, exact to half of one; raises `RowError` for less than `least` and more than `LONGEST`."""
    try:
        millis = int(text) * unit
    except ValueError:
        millis = int((_decimal(text, column) * unit).to_integral_value())
    if millis < least:
        message = i18n.text("{what} is {text}, which is negative", what=column, text=text)
        raise RowError(message if millis < 0 else i18n.text("{what} is {text}, too short", what=column, text=text))
    if millis > LONGEST:
        raise RowError(
            i18n.text("{what} is {text}, more than a hundred years; is the unit right?", what=column, text=text)
        )
    return Millis(millis)


def number(text: str, column: str) -> float:
    """A finite number; raises `RowError`."""
    return float(_decimal(text, column))


def date(text: str, column: str) -> Millis:
    """Milliseconds since 1970 of ``2017-10-09 07:01:55`` and other forms of ISO 8601; raises `RowError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RowError(i18n.text("{what} is {text!r}, not a date", what=column, text=text)) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return Millis(round(moment.timestamp() * SECOND))


def _decimal(text: str, column: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite() or abs(value) > LONGEST:
        raise RowError(i18n.text("{what} is {text!r}, not a number", what=column, text=text))
    return value


def table(
    source: TraceFile,
    row: Callable[[Line], T],
    *,
    columns: Sequence[str] = (),
    delimiter: str = ",",
    quoted: bool = True,
) -> Iterator[tuple[int, T] | BadRow]:
    """Every row of a table as `row` reads it, with its line, or why it is invalid; blank lines are skipped.

    `columns` are the names if the file has no heading. Raises `TraceError` if a name appears twice.
    """
    quote = '"' if quoted else None
    lines = csv.reader(source.text().splitlines(), delimiter=delimiter, strict=True, quotechar=quote)
    names = list(columns) or [name.strip() for name in next(lines, [])]
    index = {name: number for number, name in enumerate(names)}
    if len(index) != len(names):
        duplicate = next(name for name in names if names.count(name) > 1)
        raise TraceError(
            i18n.text("has two columns {twice!r}", twice=duplicate),
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
            value = row(Line(lines.line_num, index, values))
        except StopIteration:
            return
        except (RowError, csv.Error) as error:
            yield BadRow(lines.line_num, error.args[0])  # not str(error): that is English for good
        except TraceJobError as error:
            yield BadRow(lines.line_num, error.message)
        else:
            yield lines.line_num, value
