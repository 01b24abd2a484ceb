"""The reports that are shipped as examples: of a student who did everything, about the labs as they are now."""

from __future__ import annotations

import pytest

from paictl.lab.manifest import all_labs
from paictl.lab.report_file import check_file
from tests.conftest import ROOT


@pytest.mark.parametrize(("name", "lang"), [("report.html", "en"), ("report.zh.html", "zh")])
def test_an_example_is_whole_consistent_and_of_the_present_labs(name: str, lang: str) -> None:
    report, wrong = check_file(ROOT / "examples" / "lab-report" / name)
    assert not wrong
    assert report["language"] == lang
    assert [experiment["lab"] for experiment in report["experiments"]] == [lab.id for lab in all_labs()]
    for experiment, lab in zip(report["experiments"], all_labs(), strict=True):
        told = {check["id"]: (check["says"], check["standing"]) for check in experiment["checks"]}
        wanted = {check.id: (check.says.of(lang), "passed") for check in lab.checks}
        assert told == wanted, f"{lab.id} has changed: make example-reports"
        asked = [answer["question"] for answer in experiment["answers"]]
        assert asked == [question.text.of(lang).strip() for question in lab.questions], "make example-reports"
        assert all(answer["answer"] for answer in experiment["answers"])
        assert not experiment["solved"]
        assert not experiment["played"]
