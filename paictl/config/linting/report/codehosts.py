"""What code hosts show beside the code: SARIF, the commands of GitHub Actions, and GitLab's Code Quality.

Rules carry their manual as help, results the repair where there is one obvious answer. Paths are relative to the
root of the repository, which `%SRCROOT%` stands for: the working folder, or the one that the CI system names.

GitHub Actions turns workflow commands into annotations. GitLab's report is a subset of Code Climate's. What all formats
for machines share is here, too: paths they can resolve, JSON that any terminal survives, stable fingerprints.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from paictl import __version__
from paictl.config.linting.manual import Manual
from paictl.config.linting.report.text import Line
from paictl.config.linting.rule import Rule
from paictl.config.linting.rules import find_rule
from paictl.config.linting.validate import Report
from paictl.config.reading.problem import Problem, Severity, edits_of
from paictl.config.reading.source import Place, place_of, printable
from paictl.config.secrets.redaction import redacted_line
from paictl.errors import PaictlError


def json_lines(data: object) -> Iterator[Line]:
    """JSON in ASCII, so that neither a terminal nor a wrong locale can be hurt by what a file holds."""
    for line in json.dumps(data, indent=2).split("\n"):
        yield (("", line),)


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: the bytes of a file name that is no UTF-8 are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def relative(path: str) -> str:
    """A path in the repository relative to its root, others as they are; CI systems show these beside the code."""
    below = os.path.relpath(path, _root())
    return os.path.normpath(path) if PurePath(below).parts[0] == ".." else below


def _root() -> str:
    """The checked-out repository that a CI system names, if the working folder is in it, else the working folder."""
    here = os.path.abspath(".")  # noqa: PTH100 (as it is named: a symbolic link is not followed)
    roots = filter(None, (os.environ.get("GITHUB_WORKSPACE"), os.environ.get("CI_PROJECT_DIR")))
    return next((root for root in roots if here == root or here.startswith(root.rstrip("/") + "/")), here)


def fingerprints(problems: tuple[Problem, ...]) -> Iterator[str]:
    """A fingerprint for each problem, unique and the same as long as its line does: other lines may come and go.

    It is made of the rule, the file and the text of the line, as reports quote it: from the hash of a line with a
    password, the password could be guessed. Equal ones are counted.
    """
    seen: Counter[str] = Counter()
    for problem in problems:
        line = redacted_line(problem.source, problem.place.line).strip() if problem.source else ""
        parts = "\0".join((problem.rule, relative(problem.place.path), line, str(_column_in_text(problem))))
        digest = hashlib.sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        seen[digest] += 1
        yield f"{digest}:{seen[digest]}"


def _column_in_text(problem: Problem) -> int:
    """The column counted from the first character of the line, so that two places in one line differ."""
    line = problem.source.line(problem.place.line) if problem.source else ""
    return problem.place.column - (len(line) - len(line.lstrip()))


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
    shown = relative(path)
    uri = quote(os.fsencode(shown))
    if PurePath(shown).is_absolute():
        return {"uri": f"file://{uri}"}
    return {"uri": uri, "uriBaseId": "%SRCROOT%"}


def _notification(error: PaictlError) -> dict[str, Any]:
    hint = f" (hint: {error.hint})" if error.hint else ""
    notification: dict[str, Any] = {"level": "error", "message": {"text": encodable(error.message) + hint}}
    if error.where:
        notification["locations"] = [{"physicalLocation": {"artifactLocation": _location(error.where)}}]
    return notification


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
