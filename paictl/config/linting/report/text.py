"""For people: the line with a caret under the very place, the message, the hint; or all of it in one line.

error[TXT005 duplicate-key]: key 'cellNumber' appears twice here, first in line 9
  --> hivedscheduler.yaml:9:39
   |
 9 |     - {cellType: NODE, cellNumber: 1, cellNumber: 1}
   |                                       ^^^^^^^^^^
   = hint: keep one of the two
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from itertools import accumulate

from paictl.config.linting.validate import Report
from paictl.config.reading.problem import Problem, Severity, replacements
from paictl.config.reading.source import Source, escaped, printable, shows
from paictl.config.secrets.redaction import redacted_line
from paictl.frozen import frozen
from paictl.i18n import Text, counted, joined, phrase, sayable, text

Segment = tuple[str, str]
Line = tuple[Segment, ...]

SEVERITIES = {
    Severity.ERROR: text("error"),
    Severity.WARNING: text("warning"),
    Severity.INFO: text("info"),
}
STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold cyan"}
_GUTTER = "bold blue"

MAX_COLUMNS = 120
"""Terminal columns of a line that are shown; of a longer one the part around the span."""

_BEFORE = 60
"""Columns of a long line shown before the span."""

_TAB = "    "


def annotated(report: Report) -> Iterator[Line]:
    """Every problem with its line, then what it comes to."""
    for problem in report.problems:
        yield from _problem(problem)
        yield ()
    if report.files or not report.failures:  # what could not be read is said as an error of its own
        yield (_summary_segment(report),)


def _problem(problem: Problem) -> Iterator[Line]:
    place = problem.place
    numbers = len(str(place.end_line))
    style = STYLES[problem.severity]
    kind = text(
        "{severity}[{rule} {name}]", severity=SEVERITIES[problem.severity], rule=problem.rule, name=problem.name
    )
    yield ((style, kind), ("bold", text(": {message}", message=sayable(problem.message))))
    yield ((_GUTTER, " " * numbers + "--> "), ("", printable(str(place))))
    if problem.source is not None:
        yield from _snippet(problem, problem.source, numbers)
    if problem.hint:
        hint = text(": {message}", message=sayable(problem.hint))
        yield ((_GUTTER, " " * numbers + " = "), ("bold", text("hint")), ("", hint))


def _snippet(problem: Problem, source: Source, numbers: int) -> Iterator[Line]:
    """The line of a problem, or the first and last of several, each with its part of the span underlined."""
    place = problem.place
    last = place.end_line
    if last > place.line and place.end_column == 1:  # the span ends with a line end
        last -= 1
    several = last > place.line
    yield ((_GUTTER, " " * numbers + " |"),)
    first = redacted_line(source, place.line)
    end = place.end_column - 1 if last == place.end_line and not several else len(first)
    yield from _marked(Excerpt.of(first, place.column - 1, end), place.line, numbers, STYLES[problem.severity])
    if not several:
        return
    if last > place.line + 1:
        yield ((_GUTTER, "." * numbers + " |"),)
    line = redacted_line(source, last)
    start = len(line) - len(line.lstrip())
    end = place.end_column - 1 if last == place.end_line else len(line)
    yield from _marked(Excerpt.of(line, start, end), last, numbers, STYLES[problem.severity])


def _marked(excerpt: Excerpt, number: int, numbers: int, style: str) -> Iterator[Line]:
    yield (
        ((_GUTTER, f"{number:>{numbers}} | "), ("", excerpt.text))
        if excerpt.text
        else ((_GUTTER, f"{number:>{numbers}} |"),)
    )
    yield ((_GUTTER, " " * numbers + " | "), (style, " " * excerpt.indent + "^" * excerpt.width))


@frozen
class Excerpt:
    """What a terminal shows of a line; `indent` and `width` count its columns before and under the span."""

    text: str
    indent: int
    width: int

    @classmethod
    def of(cls, line: str, start: int, end: int) -> Excerpt:
        """The part of a line around the characters from `start` up to `end`."""
        start = min(start, len(line))
        end = min(max(end, start), len(line))
        begin = _first_shown(line, start)
        drawn = [_drawn(character) for character in line[begin : begin + MAX_COLUMNS]]
        columns = list(accumulate((_columns(piece) for piece in drawn), initial=0))
        fits = sum(column <= MAX_COLUMNS for column in columns) - 1
        lead, tail = "..." if begin else "", "..." if begin + fits < len(line) else ""
        before = len(lead) + columns[min(start - begin, fits)]
        under = len(lead) + columns[min(end - begin, fits)] - before
        return cls(lead + "".join(drawn[:fits]) + tail, before, max(under, 1))


def _first_shown(line: str, start: int) -> int:
    """Where the shown part of a line begins: with the line if all of it fits, else a little before the span."""
    if len(line) <= MAX_COLUMNS and sum(_columns(_drawn(character)) for character in line) <= MAX_COLUMNS:
        return 0
    room, begin = _BEFORE, start
    while begin > 0 and begin > start - _BEFORE and room >= 0:
        begin -= 1
        room -= _columns(_drawn(line[begin]))
    return begin


def _drawn(character: str) -> str:
    """A character as it is shown: tabs as spaces, what would do something to the terminal as an escape."""
    if character == "\t":
        return _TAB
    return character if shows(character) else escaped(character)


def _columns(piece: str) -> int:
    """Terminal columns of a text without tabs and control characters: two for wide characters, none for accents."""
    if piece.isascii():
        return len(piece)
    return sum(_width(character) for character in piece)


def _width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _summary_segment(report: Report) -> Segment:
    worst = min((problem.severity for problem in report.problems), key=lambda severity: severity.rank, default=None)
    return ("bold green" if worst is None else STYLES[worst], summary(report))


def summary(report: Report) -> Text:
    """One line: how much of what in how many files, and what can be done about it at once."""
    if not report.files:
        return _passed_over(report) or text("no file to check")
    files = counted("{count} file", "{count} files", len(report.files))
    counts = ((severity, report.count(severity)) for severity in Severity)
    totals = joined(", ", (counted(*_NUMBERS[severity], count) for severity, count in counts if count))
    parts = [
        text("{found} in {files}", found=totals, files=files)
        if totals
        else text("{files} checked, all clean", files=files)
    ]
    repairable = sum(bool(replacements(problem)) for problem in report.problems)
    if repairable:
        parts.append(text("{count} can be repaired with --fix", count=repairable))
    if omitted := sum(report.omitted.values()):
        parts.append(text("{count} more of the same rules are not shown (--all-findings)", count=omitted))
    if report.suppressed:
        parts.append(text("{count} silenced by comments", count=report.suppressed))
    if report.failures:
        parts.append(text("{count} could not be read", count=len(report.failures)))
    if report.skipped:
        parts.append(_passed_over(report))
    return joined("; ", parts)


def _passed_over(report: Report) -> Text:
    """How many files are none of ours; empty for none."""
    if not report.skipped:
        return phrase("")
    return counted(
        "{count} file is not OpenPAI or HiveD configuration; --strict names it",
        "{count} files are not OpenPAI or HiveD configuration; --strict names them",
        len(report.skipped),
    )


_NUMBERS = {
    Severity.ERROR: ("{count} error", "{count} errors"),
    Severity.WARNING: ("{count} warning", "{count} warnings"),
    Severity.INFO: ("{count} note", "{count} notes"),
}


def concise(report: Report) -> Iterator[Line]:
    """One line a problem; nothing at all where nothing was found."""
    for problem in report.problems:
        hint = text(" (hint: {hint})", hint=sayable(problem.hint)) if problem.hint else ""
        yield (
            ("", f"{printable(str(problem.place))}: {problem.rule} "),
            ("", SEVERITIES[problem.severity]),
            ("", text(" {message}{hint}", message=sayable(problem.message), hint=hint)),
        )
