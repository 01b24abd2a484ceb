"""JUnit XML, which nearly every CI system shows: a suite a file, a case a problem.

Information is worth knowing and fails nobody: it is a case that passes, with its text as output.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator

from paictl.config.linting.report.codehosts import relative
from paictl.config.linting.report.text import Line
from paictl.config.linting.validate import Report
from paictl.config.reading.problem import Problem, Severity
from paictl.config.reading.source import printable
from paictl.errors import PaictlError


def junit(report: Report) -> Iterator[Line]:
    """The report as one `testsuites` element; a file without problems is a suite with one case that passes."""
    by_path: dict[str, list[Problem]] = {file.path: [] for file in report.files}
    for problem in report.problems:
        by_path.setdefault(problem.place.path, []).append(problem)
    suites = [_suite(path, problems) for path, problems in by_path.items()]
    suites += [_unreadable(error) for error in report.failures]
    root = ET.Element("testsuites", {"name": "paictl config validate"})
    for attribute in ("tests", "failures", "errors"):
        root.set(attribute, str(sum(int(suite.get(attribute, "0")) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    yield (("", '<?xml version="1.0" encoding="UTF-8"?>'),)
    for line in ET.tostring(root, encoding="unicode").split("\n"):
        yield (("", line),)


def _suite(path: str, problems: list[Problem]) -> ET.Element:
    name = printable(path)
    failures = sum(problem.severity is not Severity.INFO for problem in problems)
    suite = _new_suite(name, max(len(problems), 1), failures, errors=0)
    for problem in problems:
        place = problem.place
        title = f"{problem.rule} {problem.name} ({place.line}:{place.column})"
        case = _new_case(suite, title, name)
        case.set("file", printable(relative(place.path)))
        case.set("line", str(place.line))
        hint = f"\nhint: {problem.hint}" if problem.hint else ""
        body = f"{name}:{place.line}:{place.column}: {problem.message}{hint}"
        if problem.severity is Severity.INFO:
            ET.SubElement(case, "system-out").text = body
        else:
            failure = ET.SubElement(case, "failure", {"message": problem.message, "type": problem.severity.value})
            failure.text = body
    if not problems:
        _new_case(suite, "valid", name)
    return suite


def _unreadable(error: PaictlError) -> ET.Element:
    name = printable(error.where or "paictl")
    suite = _new_suite(name, 1, failures=0, errors=1)
    case = _new_case(suite, "readable", name)
    ET.SubElement(case, "error", {"message": printable(error.message), "type": "unreadable"}).text = error.hint
    return suite


def _new_suite(name: str, tests: int, failures: int, errors: int) -> ET.Element:
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors), "skipped": "0", "time": "0"}
    return ET.Element("testsuite", {"name": name} | counts)


def _new_case(suite: ET.Element, name: str, classname: str) -> ET.Element:
    return ET.SubElement(suite, "testcase", {"name": name, "classname": classname, "time": "0"})
