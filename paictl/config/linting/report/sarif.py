"""SARIF 2.1.0 (OASIS), which GitHub code scanning, Azure DevOps and editors show.

Rules carry their manual as help, results the repair where there is one obvious answer. Paths are relative to the
working folder, which `%SRCROOT%` stands for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from paictl import __version__
from paictl.config.linting.manual import Manual
from paictl.config.linting.report.data import encodable, fingerprints, json_lines, relative
from paictl.config.linting.report.text import Line
from paictl.config.linting.rule import Rule
from paictl.config.linting.rules import find_rule
from paictl.config.linting.validate import Report
from paictl.config.reading.problem import Problem, Severity, edits_of
from paictl.config.reading.source import Place, place_of
from paictl.errors import PaictlError

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(report: Report) -> Iterator[Line]:
    """The report as a SARIF log with one run."""
    ids = sorted({problem.rule for problem in report.problems})
    indices = {rule_id: index for index, rule_id in enumerate(ids)}
    marks = fingerprints(report.problems)
    run = {
        "tool": {
            "driver": {
                "name": "paictl",
                "semanticVersion": __version__,
                "rules": [_rule(find_rule(rule_id)) for rule_id in ids],
            }
        },
        "columnKind": "unicodeCodePoints",
        "artifacts": [{"location": _location(file.path)} for file in report.files],
        "invocations": [
            {
                "executionSuccessful": not report.failures,
                "toolExecutionNotifications": [_notification(error) for error in report.failures],
            }
        ],
        "results": [
            _result(problem, indices[problem.rule], mark) for problem, mark in zip(report.problems, marks, strict=True)
        ],
    }
    yield from json_lines({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _rule(rule: Rule[Any]) -> dict[str, Any]:
    manual = rule.manual
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": manual.summary},
        "fullDescription": {"text": manual.why or manual.summary},
        "help": {"text": f"{manual.summary}\n\n{manual.why}", "markdown": _markdown(manual)},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
    }


def _markdown(manual: Manual) -> str:
    parts = [manual.summary, manual.why]
    for title, files in (("Passes", manual.passes), ("Fails", manual.fails)):
        for name, data in files.items():
            body = data.decode("utf-8", "backslashreplace").rstrip("\n")
            parts.append(f"{title} (`{name}`):\n\n```yaml\n{body}\n```")
    return "\n\n".join(part for part in parts if part)


def _result(problem: Problem, index: int, mark: str) -> dict[str, Any]:
    hint = f" (hint: {problem.hint})" if problem.hint else ""
    result: dict[str, Any] = {
        "ruleId": problem.rule,
        "ruleIndex": index,
        "level": _LEVELS[problem.severity],
        "message": {"text": problem.message + hint},
        "locations": [
            {"physicalLocation": {"artifactLocation": _location(problem.place.path), "region": _region(problem.place)}}
        ],
        "partialFingerprints": {"paictlLine/v1": mark},
    }
    edits = edits_of(problem)
    if edits:
        replaced = [
            {"deletedRegion": _region(place_of(edit.at)), "insertedContent": {"text": edit.text}} for edit in edits
        ]
        change = {"artifactLocation": _location(problem.place.path), "replacements": replaced}
        result["fixes"] = [{"description": {"text": problem.hint or "repair"}, "artifactChanges": [change]}]
    return result


def _region(place: Place) -> dict[str, int]:
    return {
        "startLine": place.line,
        "startColumn": place.column,
        "endLine": place.end_line,
        "endColumn": place.end_column,
    }


def _location(path: str) -> dict[str, Any]:
    here = relative(path)
    uri = quote(os.fsencode(here))
    if PurePath(here).is_absolute():
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _notification(error: PaictlError) -> dict[str, Any]:
    hint = f" (hint: {error.hint})" if error.hint else ""
    notification: dict[str, Any] = {"level": "error", "message": {"text": encodable(error.message) + hint}}
    if error.where:
        notification["locations"] = [{"physicalLocation": {"artifactLocation": _location(error.where)}}]
    return notification
