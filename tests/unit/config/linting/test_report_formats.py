"""Every format against its schema, a real consumer, or the rules of its makers."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import junitparser
import pytest

from paictl.config.linting.report import FORMATS, plain
from paictl.config.linting.report.codehosts import fingerprints
from paictl.config.linting.validate import CheckedFile, Report, validate
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, load, load_memory
from paictl.config.reading.problem import Problem, Severity
from paictl.config.reading.source import Place, shows
from paictl.errors import PaictlError
from tests.conftest import ROOT
from tests.unit.config.cases import all_cases

GOOD = (
    "physicalCluster:\n  cellTypes:\n    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}\n"
    "  physicalCells:\n  - {cellType: NODE, cellAddress: worker1}\nvirtualClusters:\n  default:\n    virtualCells:\n"
    "    - {cellType: NODE, cellNumber: 1}\n"
)
BAD = GOOD.replace("childCellNumber: 4", 'childCellNumber: "4"').replace(
    "cellNumber: 1", "cellNumber: 01, celNumber: 2"
)
HOSTILE = "a\x1b[31m%,:\n\udcff中.yaml"
FAILURE = PaictlError("cannot be read: \x1b]0;x\x07", where=f"/nowhere/{HOSTILE}", hint="check")


def problems_in(text: str, name: str = "hivedscheduler.yaml") -> Report:
    return validate(load_memory({name: text.encode()}))


def rendered(name: str, report: Report) -> str:
    return plain(FORMATS[name](report))


@cache
def reports() -> list[Report]:
    """Clean, broken, everything in the cases, hostile names, files that could not be read."""
    files = {f"{number}/{name}": data for number, case in enumerate(all_cases()) for name, data in case.files.items()}
    everything = validate(load_memory(files))
    hostile = problems_in(BAD, HOSTILE)
    mild = Problem(Place("x.yaml", 3, 1, 3, 1), "TXT001", "syntax-error", Severity.INFO, "m", None)
    return [
        problems_in(GOOD),
        problems_in(BAD),
        everything,
        Report(hostile.problems, hostile.files, (HOSTILE,), (FAILURE, PaictlError("bad")), 3),
        Report((mild,), (CheckedFile("x.yaml", FileKind.UNKNOWN),)),
        Report((), ()),
    ]


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_raw_gets_into_a_report(name: str) -> None:
    for report in reports():
        text = rendered(name, report)
        text.encode("utf-8")
        assert {character for character in text if not shows(character)} <= {"\n"}


# --- concise ----------------------------------------------------------------------------------------------------------


def test_concise_is_one_line_a_problem() -> None:
    report = problems_in(BAD)
    lines = rendered("concise", report).splitlines()
    assert len(lines) == len(report.problems) == 3
    assert lines[0].startswith("hivedscheduler.yaml:3:49: SHP101 error physicalCluster.cellTypes.NODE.childCellNumber")
    assert all(re.match(r"[^:]+:\d+:\d+: [A-Z]{3}\d{3} (error|warning|info) .", line) for line in lines)
    assert lines[0].endswith(f"(hint: {report.problems[0].hint})")
    assert rendered("concise", problems_in(GOOD)) == ""


# --- json -------------------------------------------------------------------------------------------------------------


def test_json_has_its_documented_shape() -> None:
    data = json.loads(rendered("json", problems_in(BAD)))
    assert list(data) == ["schemaVersion", "version", "problems", "files", "skipped", "failures", "summary"]
    assert data["schemaVersion"] == data["version"] == 1
    assert data["summary"] == {"error": 2, "warning": 1, "info": 0, "suppressed": 0, "omitted": 0}
    assert data["files"] == [{"path": "hivedscheduler.yaml", "kind": "hived"}]
    assert data["problems"][0] == {
        "file": "hivedscheduler.yaml",
        "line": 3,
        "column": 49,
        "end_line": 3,
        "end_column": 52,
        "rule": "SHP101",
        "name": "wrong-type",
        "severity": "error",
        "message": "physicalCluster.cellTypes.NODE.childCellNumber must be an integer, not the string '4'",
        "hint": "remove the quotes: 4",
        "fix": [{"line": 3, "column": 49, "end_line": 3, "end_column": 52, "text": "4"}],
    }


def test_json_tells_what_could_not_be_read() -> None:
    data = json.loads(rendered("json", Report((), (), ("s.yaml",), (PaictlError("m", where="w", hint="h"),), 2)))
    assert data["failures"] == [{"where": "w", "message": "m", "hint": "h"}]
    assert data["skipped"] == ["s.yaml"]
    assert data["summary"]["suppressed"] == 2


# --- sarif ------------------------------------------------------------------------------------------------------------

SARIF = json.loads((ROOT / "tests" / "data" / "sarif" / "sarif-schema-2.1.0.json").read_text(encoding="utf-8"))


def sarif(report: Report) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(rendered("sarif", report))
    return data


def test_sarif_fits_the_schema_of_oasis() -> None:
    validator = jsonschema.Draft7Validator(SARIF, format_checker=jsonschema.FormatChecker())
    for report in reports():
        data = sarif(report)
        assert [error.message for error in validator.iter_errors(data)] == []
    data["runs"][0]["results"] = [{}]
    assert list(validator.iter_errors(data)), "the schema would take anything"


def test_sarif_results_lead_to_rules_regions_and_fixes() -> None:
    run = sarif(problems_in(BAD))["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["SHP101", "SHP104", "TXT014"]
    assert all(rule["help"]["text"] and "```yaml" in rule["help"]["markdown"] for rule in rules)
    first = run["results"][0]
    assert rules[first["ruleIndex"]]["id"] == first["ruleId"] == "SHP101"
    assert first["level"] == "error"
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "hivedscheduler.yaml", "uriBaseId": "%SRCROOT%"}
    assert location["region"] == {"startLine": 3, "startColumn": 49, "endLine": 3, "endColumn": 52}
    (change,) = first["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "4"}
    assert run["columnKind"] == "unicodeCodePoints"


def test_sarif_uris_are_relative_and_percent_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def uri(path: str) -> Any:
        results = sarif(problems_in(BAD, path))["runs"][0]["results"]
        return results[0]["locations"][0]["physicalLocation"]["artifactLocation"]

    assert uri("./a b/ä.yaml")["uri"] == "a%20b/%C3%A4.yaml"
    assert uri(str(tmp_path / "x.yaml")) == {"uri": "x.yaml", "uriBaseId": "%SRCROOT%"}
    assert uri("/elsewhere/x.yaml") == {"uri": "file:///elsewhere/x.yaml"}
    assert uri(os.fsdecode(b"\xff.yaml"))["uri"] == "%FF.yaml"


def test_sarif_says_when_files_could_not_be_read() -> None:
    (invocation,) = sarif(Report((), (), (), (FAILURE,)))["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["level"] == "error"


def test_fingerprints_are_unique_and_survive_lines_that_come_and_go() -> None:
    before = problems_in(BAD)
    after = problems_in("# a comment\n\n" + BAD)
    assert list(fingerprints(before.problems)) == list(fingerprints(after.problems))
    everything = reports()[2]
    marks = list(fingerprints(everything.problems))
    assert len(set(marks)) == len(marks) > 40


# --- junit ------------------------------------------------------------------------------------------------------------


def test_junit_is_read_by_junitparser() -> None:
    for report in reports():
        xml = junitparser.JUnitXml.fromstring(rendered("junit", report).encode("utf-8"))
        suites = list(xml)
        failing = [problem for problem in report.problems if problem.severity is not Severity.INFO]
        assert sum(suite.failures for suite in suites) == len(failing) == xml.failures
        assert sum(suite.errors for suite in suites) == len(report.failures) == xml.errors
        assert sum(suite.tests for suite in suites) == xml.tests
        for suite in suites:
            cases = list(suite)
            assert len(cases) == suite.tests
            assert sum(any(isinstance(r, junitparser.Failure) for r in case.result) for case in cases) == suite.failures


def test_junit_has_a_suite_a_file_and_a_case_a_problem() -> None:
    xml = junitparser.JUnitXml.fromstring(rendered("junit", problems_in(BAD)).encode())
    (suite,) = list(xml)
    assert suite.name == "hivedscheduler.yaml"
    first = next(iter(suite))
    assert first.name == "SHP101 wrong-type (3:49)"
    assert "hint: remove the quotes: 4" in first.result[0].text
    (clean,) = list(junitparser.JUnitXml.fromstring(rendered("junit", problems_in(GOOD)).encode()))
    assert (clean.tests, clean.failures) == (1, 0)


# --- github -----------------------------------------------------------------------------------------------------------

COMMAND = re.compile(r"::(error|warning|notice)(?: ([^:]*))?::(.*)")


def unescaped(text: str) -> str:
    for code, character in (("%3A", ":"), ("%2C", ","), ("%0D", "\r"), ("%0A", "\n"), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_github_commands_are_read_back_as_the_runner_does() -> None:
    for report in reports():
        lines = rendered("github", report).splitlines()
        assert len(lines) == len(report.problems) + len(report.failures)
        for problem, line in zip(report.problems, lines, strict=False):
            match = COMMAND.fullmatch(line)
            assert match, line
            properties = dict(pair.split("=", 1) for pair in match.group(2).split(","))
            assert int(properties["line"]) == problem.place.line
            assert unescaped(properties["title"]) == f"{problem.rule} {problem.name}"
            assert unescaped(match.group(3)).split("\nhint: ")[0] == problem.message
            assert ("col" in properties) == (problem.place.line == problem.place.end_line)


def test_github_properties_are_escaped() -> None:
    place = Place("a,b:c%d.yaml", 1, 2, 1, 3)
    problem = Problem(place, "TXT001", "syntax-error", Severity.ERROR, "50% :: done", "a, b")
    assert rendered("github", Report((problem,), ())) == (
        "::error file=a%2Cb%3Ac%25d.yaml,line=1,col=2,endLine=1,endColumn=3,title=TXT001 syntax-error"
        "::50%25 :: done%0Ahint: a, b\n"
    )


# --- gitlab -----------------------------------------------------------------------------------------------------------


def test_gitlab_issues_have_what_the_documentation_demands() -> None:
    for report in reports():
        issues = json.loads(rendered("gitlab", report))
        assert len(issues) == len(report.problems) + len(report.failures)
        assert len({issue["fingerprint"] for issue in issues}) == len(issues)
        for issue in issues:
            assert issue["description"]
            assert issue["check_name"]
            assert issue["severity"] in ("info", "minor", "major", "critical", "blocker")
            assert issue["location"]["lines"]["begin"] >= 1
            assert not issue["location"]["path"].startswith("./")


def test_paths_below_the_working_folder_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hivedscheduler.yaml").write_text(BAD)
    loaded: Loaded = load([str(tmp_path)])
    assert {issue["location"]["path"] for issue in json.loads(rendered("gitlab", validate(loaded)))} == {
        "hivedscheduler.yaml"
    }
    assert "file=hivedscheduler.yaml," in rendered("github", validate(loaded))
    assert 'file="hivedscheduler.yaml"' in rendered("junit", validate(loaded))


@pytest.mark.parametrize("variable", ["GITHUB_WORKSPACE", "CI_PROJECT_DIR"])
def test_a_job_that_works_in_a_subfolder_names_files_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "hivedscheduler.yaml").write_text(BAD)
    monkeypatch.chdir(tmp_path / "cluster")
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.setenv(variable, str(tmp_path))
    report = validate(load(["."]))
    for form in ("github", "gitlab", "sarif", "junit"):
        assert "cluster/hivedscheduler.yaml" in rendered(form, report), form


def test_a_file_outside_the_repository_that_a_ci_system_names_keeps_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hivedscheduler.yaml").write_text(BAD)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path / "elsewhere"))
    assert "file=../hivedscheduler.yaml," in rendered("github", validate(load(["../hivedscheduler.yaml"])))
