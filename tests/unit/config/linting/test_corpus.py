"""Real files, beside the repository: each gives what `tests/cases/corpus.yaml` says, as their README expects."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.config.linting.validate import Choice, Report, validate
from paictl.config.reading.load import load
from paictl.config.reading.problem import Severity
from tests.conftest import ROOT

TABLE: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "tests" / "cases" / "corpus.yaml").read_text("utf-8"))


def report_on(path: Path) -> Report:
    return validate(load([str(path)]))


def row_of(report: Report) -> dict[str, Any]:
    (kind,) = {file.kind.value for file in report.files}
    counts = {
        severity.value: dict(Counter(problem.rule for problem in report.problems if problem.severity is severity))
        for severity in Severity
    }
    return {"kind": kind, **{severity: found for severity, found in counts.items() if found}}


@pytest.mark.parametrize("name", TABLE)
def test_a_real_file_gives_what_the_table_says(shared: Path, name: str) -> None:
    assert row_of(report_on(shared / "corpus" / name)) == TABLE[name]


def test_no_file_is_left_out(shared: Path) -> None:
    corpus = shared / "corpus"
    files = [path for path in corpus.rglob("*") if path.suffix in (".yaml", ".yml", ".csv")]
    assert {str(path.relative_to(corpus)) for path in files} == {name for name in TABLE if not name.endswith("/")}


# --- what ../shared/corpus/README.md expects, folder by folder --------------------------------------------------------


def rows(prefix: str) -> list[dict[str, Any]]:
    return [row for name, row in TABLE.items() if name.startswith(prefix) and not name.endswith("/")]


@pytest.mark.parametrize(("folder", "number"), [("jobs/", 57), ("jobs/hived-feature", 24), ("lab6/", 8)])
def test_jobs_are_valid(folder: str, number: int) -> None:
    assert len(rows(folder)) == number
    for row in rows(folder):
        assert row["kind"] == "job"
        assert "error" not in row
        assert row.get("warning", {}).keys() <= {"JOB630"}, "sshbarrier: what OpenPAI's own jobs name works otherwise"


def test_configurations_that_hived_loads_have_no_error() -> None:
    assert len(rows("hived/")) == 13
    assert not any("error" in row for row in rows("hived/"))


def test_the_newest_layout_is_valid_and_older_ones_are_named_as_such() -> None:
    assert TABLE["layout/pai-kubespray.yaml"] == {"kind": "layout"}
    legacy = rows("layout/legacy-")
    assert len(legacy) == 5
    assert all(row["warning"]["LAY401"] == 1 and row["warning"]["LAY402"] >= 1 for row in legacy)
    broken = [name for name, row in TABLE.items() if "LAY412" in row.get("error", {})]
    assert broken == ["layout/legacy-configuration-duplicate-hostname.yaml"]


def test_placeholders_are_reported() -> None:
    for name in ("layout/pai-config.yaml", "layout/v1.2.0-config.yml"):
        assert TABLE[name]["error"].keys() == {"CFG301"}


def test_service_settings_are_valid_or_recognised_as_legacy() -> None:
    assert all(row == {"kind": "service-defaults"} for row in rows("services/defaults-"))
    for row in rows("services/example") + rows("services/legacy-"):
        assert row["warning"]["SVC706"] >= 2
        assert "error" not in row or "SVC709" in row["warning"]


def test_descriptions_of_services_have_dangling_prerequisites_and_no_refresh_script() -> None:
    assert TABLE["graph/"] == {"kind": "service", "warning": {"GRF801": 4, "XRF961": 3}}


def test_the_script_that_dshuttle_csi_names_and_openpai_does_not_have_is_missing(shared: Path, tmp_path: Path) -> None:
    published = ("dshuttle-csi-daemon.yaml.template", "start.sh.template", "stop.sh.template")
    for name in published:
        (tmp_path / name).touch()
    text = (shared / "corpus" / "graph" / "dshuttle-csi.service.yaml").read_text("utf-8")
    (tmp_path / "service.yaml").write_text(text, "utf-8")
    report = validate(load([str(tmp_path / "service.yaml")]), Choice(select=("XRF963",)))
    assert [problem.message for problem in report.problems] == [
        "delete-script 'delete.sh' is not in the service's folder"
    ]


def test_the_duplicate_names_are_pointed_at(shared: Path) -> None:
    report = report_on(shared / "corpus" / "layout" / "legacy-configuration-duplicate-hostname.yaml")
    places = [(p.place.line, p.place.column) for p in report.problems if p.rule == "LAY412"]
    assert places == [(89, 17), (109, 17)]
