"""Published jobs, service settings and service descriptions: what each gives, by severity."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from paictl.config.kinds import Kind
from paictl.config.load import load
from paictl.config.problem import Severity
from paictl.config.validate import Report, validate


def report_on(*paths: Path) -> Report:
    return validate(load([str(path) for path in paths]))


def counts(report: Report) -> dict[str, int]:
    return dict(Counter(problem.rule for problem in report.problems))


@pytest.mark.parametrize("folder", ["jobs", "lab6"])
def test_published_jobs_are_valid(shared: Path, folder: str) -> None:
    files = sorted((shared / "corpus" / folder).glob("*.yaml"))
    report = report_on(*files)
    assert {file.kind for file in report.files} == {Kind.JOB}
    assert [problem for problem in report.problems if problem.severity is not Severity.INFO] == []
    assert len(report.files) == len(files) >= 8


def test_default_sections_are_recognised_and_valid(shared: Path) -> None:
    report = report_on(*sorted((shared / "corpus" / "services").glob("defaults-*.yaml")))
    assert {file.kind for file in report.files} == {Kind.SERVICE_DEFAULTS}
    assert report.problems == ()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("example", {"SVC706": 2}),
        ("legacy-configuration-duplicate-hostname", {"SVC706": 2}),
        ("legacy-configuration-none-overwrite", {"SVC706": 2}),
        ("legacy-configuration-overwrite", {"SVC706": 4}),
        ("legacy-configuration-template-generate", {"SVC706": 2, "SVC709": 5, "SHP101": 2}),
    ],
)
def test_service_settings_have_placeholders_and_legacy_keys(shared: Path, name: str, expected: dict[str, int]) -> None:
    report = report_on(shared / "corpus" / "services" / f"{name}.yaml")
    assert [file.kind for file in report.files] == [Kind.SERVICES]
    found = counts(report)
    assert {rule: found[rule] for rule in found if not rule.startswith("HVD")} == expected


def test_the_graph_of_services_has_three_dangling_lines_and_four_services_without_refresh(shared: Path) -> None:
    report = report_on(shared / "corpus" / "graph")
    assert len(report.files) == 29
    assert counts(report) == {"XRF961": 3, "GRF801": 4}
    services = {Path(problem.place.path).name.split(".")[0] for problem in report.problems if problem.rule == "XRF961"}
    assert services == {"alert-manager", "job-exporter", "rest-server"}
