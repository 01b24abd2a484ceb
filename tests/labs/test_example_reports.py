"""Reports of `make example-reports`: of a student who did everything, about the labs as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.lab.manifest import find_lab
from paictl.lab.report.consistency import copies
from paictl.lab.report.files import check_file
from tests.conftest import EXAMPLE_LABS


@pytest.mark.parametrize(("name", "lang"), [("report.html", "en"), ("report.zh.html", "zh")])
def test_an_example_is_whole_consistent_and_of_the_present_labs(example_reports: Path, name: str, lang: str) -> None:
    report, wrong = check_file(example_reports / name)
    assert not wrong
    assert report["language"] == lang
    labs = [find_lab(word) for word in EXAMPLE_LABS]
    assert [experiment["lab"] for experiment in report["experiments"]] == [lab.id for lab in labs]
    for experiment, lab in zip(report["experiments"], labs, strict=True):
        told = {check["id"]: (check["says"], check["standing"]) for check in experiment["checks"]}
        wanted = {check.id: (check.says.of(lang), "passed") for check in lab.checks}
        assert told == wanted, lab.id
        asked = [answer["question"] for answer in experiment["answers"]]
        assert asked == [question.text.of(lang).strip() for question in lab.questions]
        assert all(answer["answer"] for answer in experiment["answers"])
        assert not experiment["solved"]
        assert not experiment["played"]
        assert experiment["finished"] >= experiment["started"] > "2026"
        assert all(typed["at"] for typed in experiment["typed"])


def test_two_runs_of_the_same_labs_are_no_copies(example_reports: Path) -> None:
    reports = [(name, check_file(example_reports / name)[0]) for name in ("report.html", "report.zh.html")]
    assert not list(copies(reports))
