"""The reports of `make example-reports`: of a student who did everything, about the labs as they are now."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.lab.manifest import all_labs
from paictl.lab.report_file import check_file


@pytest.mark.slow
@pytest.mark.parametrize(("name", "lang"), [("report.html", "en"), ("report.zh.html", "zh")])
def test_an_example_is_whole_consistent_and_of_the_present_labs(example_reports: Path, name: str, lang: str) -> None:
    report, wrong = check_file(example_reports / name)
    assert not wrong
    assert report["language"] == lang
    assert [experiment["lab"] for experiment in report["experiments"]] == [lab.id for lab in all_labs()]
    for experiment, lab in zip(report["experiments"], all_labs(), strict=True):
        told = {check["id"]: (check["says"], check["standing"]) for check in experiment["checks"]}
        wanted = {check.id: (check.says.of(lang), "passed") for check in lab.checks}
        assert told == wanted, lab.id
        asked = [answer["question"] for answer in experiment["answers"]]
        assert asked == [question.text.of(lang).strip() for question in lab.questions]
        assert all(answer["answer"] for answer in experiment["answers"])
        assert not experiment["solved"]
        assert not experiment["played"]
