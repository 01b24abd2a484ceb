"""Workflow commands that GitHub Actions turns into annotations beside the code."""

from __future__ import annotations

from collections.abc import Iterator

from paictl.config.linting.report.data import relative
from paictl.config.linting.report.text import Line
from paictl.config.linting.validate import Report
from paictl.config.reading.problem import Problem, Severity
from paictl.config.reading.source import printable

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}


def github(report: Report) -> Iterator[Line]:
    """One command a problem, and one for each file that could not be read."""
    for problem in report.problems:
        yield (("", _command(problem)),)
    for error in report.failures:
        file = f" file={_property(relative(error.where))}" if error.where else ""
        yield (("", f"::error{file}::{_data(printable(error.message))}"),)


def _command(problem: Problem) -> str:
    place = problem.place
    properties = {"file": relative(place.path), "line": str(place.line)}
    if place.line == place.end_line:  # the runner takes columns only within one line
        properties |= {"col": str(place.column)}
    properties |= {"endLine": str(place.end_line)}
    if place.line == place.end_line:
        properties |= {"endColumn": str(place.end_column)}
    properties |= {"title": f"{problem.rule} {problem.name}"}
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    hint = f"\nhint: {problem.hint}" if problem.hint else ""
    return f"::{_COMMANDS[problem.severity]} {written}::{_data(problem.message + hint)}"


def _data(text: str) -> str:
    """A message as a workflow command writes it (actions/toolkit, command.ts)."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
