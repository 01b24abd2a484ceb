"""``file:line:column: ID severity message (hint: ...)``, one problem a line, as editors and grep read it."""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.report.text import Line
from paictl.config.linting.validate import Report
from paictl.config.reading.text import printable


def concise(report: Report) -> Iterator[Line]:
    """One line a problem; nothing at all where nothing was found."""
    for problem in report.problems:
        hint = f" (hint: {problem.hint})" if problem.hint else ""
        said = f"{problem.rule} {problem.severity.value} {problem.message}{hint}"
        yield (("", f"{printable(str(problem.place))}: {said}"),)
