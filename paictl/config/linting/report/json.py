"""JSON in a shape of our own, for scripts.

The shape is stable: keys are only added within one `schemaVersion`; `version` is its older name, and stays.

    {"schemaVersion": 1, "version": 1,
     "problems": [{"file", "line", "column", "end_line", "end_column",    places count from 1, characters, end exclusive
                   "rule", "name", "severity", "message", "hint",         hint may be null
                   "fix": [{"line", "column", "end_line", "end_column", "text"}]}],          empty: no obvious repair
     "files": [{"path", "kind"}],                                         what was checked
     "skipped": [path],                                                   files of a folder that are none of ours
     "failures": [{"where", "message", "hint"}],                          what could not be read
     "summary": {"error", "warning", "info",                              counts, with those that are left out
                 "suppressed", "omitted"}}                                by comments; for want of --all-findings
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paictl.config.linting.report.codehosts import encodable, json_lines
from paictl.config.linting.report.text import Line
from paictl.config.linting.validate import Report
from paictl.config.reading.problem import Problem, Severity, edits_of
from paictl.config.reading.source import Place, place_of

VERSION = 1


def json(report: Report) -> Iterator[Line]:
    """The report as one JSON object."""
    counts = {severity.value: report.count(severity) for severity in Severity}
    yield from json_lines(
        {
            "schemaVersion": VERSION,
            "version": VERSION,
            "problems": [_problem(problem) for problem in report.problems],
            "files": [{"path": encodable(file.path), "kind": file.kind.value} for file in report.files],
            "skipped": [encodable(path) for path in report.skipped],
            "failures": [
                {"where": encodable(error.where or ""), "message": encodable(error.message), "hint": error.hint}
                for error in report.failures
            ],
            "summary": counts | {"suppressed": report.suppressed, "omitted": sum(report.omitted.values())},
        }
    )


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "file": encodable(problem.place.path),
        **_span(problem.place),
        "rule": problem.rule,
        "name": problem.name,
        "severity": problem.severity.value,
        "message": problem.message,
        "hint": problem.hint,
        "fix": [_span(place_of(edit.at)) | {"text": edit.text} for edit in edits_of(problem)],
    }


def _span(place: Place) -> dict[str, int]:
    return {
        "line": place.line,
        "column": place.column,
        "end_line": place.end_line,
        "end_column": place.end_column,
    }
