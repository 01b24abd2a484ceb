"""GitLab's Code Quality report, a subset of Code Climate's: problems beside the merge request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from paictl.config.linting.report.data import encodable, fingerprints, json_lines, relative
from paictl.config.linting.report.text import Line
from paictl.config.linting.validate import Report
from paictl.config.reading.problem import Severity

_SEVERITIES = {Severity.ERROR: "major", Severity.WARNING: "minor", Severity.INFO: "info"}


def gitlab(report: Report) -> Iterator[Line]:
    """A JSON list with one issue a problem and one a file that could not be read."""
    issues: list[dict[str, Any]] = []
    for problem, mark in zip(report.problems, fingerprints(report.problems), strict=True):
        place = problem.place
        hint = f" (hint: {problem.hint})" if problem.hint else ""
        issues.append(
            {
                "description": problem.message + hint,
                "check_name": f"{problem.rule} {problem.name}",
                "fingerprint": mark,
                "severity": _SEVERITIES[problem.severity],
                "location": {
                    "path": encodable(relative(place.path)),
                    "lines": {"begin": place.line, "end": place.end_line},
                },
            }
        )
    for error in report.failures:
        path = encodable(relative(error.where or "paictl"))
        issues.append(
            {
                "description": encodable(error.message),
                "check_name": "unreadable",
                "fingerprint": f"unreadable:{path}",
                "severity": "blocker",
                "location": {"path": path, "lines": {"begin": 1}},
            }
        )
    yield from json_lines(issues)
