"""Running the rules: order, choice, broken files, and words that are safe to show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.config.linting import rules
from paictl.config.linting.report.text import summary
from paictl.config.linting.rule import Rule
from paictl.config.linting.validate import MOST_OF_A_RULE, Choice, Report, validate
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.load import load_memory
from paictl.config.reading.problem import Finding, Problem, Severity
from paictl.config.reading.source import MAX_MESSAGE, one_line, printable, shows
from paictl.errors import ExitCode, PaictlError

HIVED = """physicalCluster:
  cellTypes:
    NODE: {childCellType: GPU, childCellNumber: 4, isNodeLevel: true}
  physicalCells:
  - {cellType: NODE, cellAddress: worker1}
virtualClusters:
  default:
    virtualCells:
    - {cellType: NODE, cellNumber: 1}
"""


def report_of(text: str, choice: Choice | None = None) -> Report:
    return validate(load_memory({"hivedscheduler.yaml": text.encode()}), choice)


def ids(report: Report) -> list[str]:
    return [problem.rule for problem in report.problems]


def test_a_clean_file_is_clean() -> None:
    report = report_of(HIVED)
    assert ids(report) == []
    assert report.exit_code is ExitCode.OK
    assert [file.path for file in report.files] == ["hivedscheduler.yaml"]


def test_problems_stand_in_the_order_of_the_file() -> None:
    text = HIVED.replace("cellNumber: 1", "cellNumber: 01, x: 1, cellNumber: 2").replace("NODE: {", "NODE: {y: 1, ")
    places = [(problem.place.line, problem.place.column) for problem in report_of(text).problems]
    assert len(places) == 4
    assert places == sorted(places)


def test_choices_select_ignore_and_cut_off_by_severity() -> None:
    text = HIVED.replace("cellNumber: 1", "cellNumber: 01, cellNumber: 2")
    assert ids(report_of(text)) == ["TXT014", "TXT005"]
    assert ids(report_of(text, Choice(select=("txt005",)))) == ["TXT005"]
    assert ids(report_of(text, Choice(select=("TXT",), ignore=("Duplicate-Key",)))) == ["TXT014"]
    assert ids(report_of(text, Choice(severity=Severity.ERROR))) == ["TXT005"]
    for word in ("XXX", "TXT9999", "nope"):
        with pytest.raises(PaictlError):
            report_of(text, Choice(ignore=(word,)))


def test_information_alone_is_no_failure() -> None:
    problem = report_of(HIVED.replace("cellNumber: 1", "cellNumber: 01")).problems[0]
    mild = Problem(problem.place, "XXX001", "x", Severity.INFO, "m")
    assert Report((mild,), ()).exit_code is ExitCode.OK
    assert Report((problem,), ()).exit_code is ExitCode.NEGATIVE
    assert Report((), (), (), (PaictlError("x"),)).exit_code is ExitCode.USAGE


def test_files_that_could_not_be_read_take_no_part_in_rules_across_files(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def look(bundle: Bundle) -> list[Finding]:
        seen.append([document.path for document in bundle.documents])
        return []

    across: tuple[Rule[Bundle], ...] = (Rule("XRF999", "look", Severity.ERROR, look),)
    monkeypatch.setattr("paictl.config.linting.validate.rules_across", lambda _: across)
    validate(load_memory({"hivedscheduler.yaml": b"physicalCluster: [\n", "job.yaml": b"protocolVersion: 2\n"}))
    assert all(paths == ["job.yaml"] for paths in seen)


def test_the_words_of_a_rule_are_made_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(document: Document) -> list[Finding]:
        return [Finding(document.beginning, "a\x1b[31m\n" + "x" * 5000, "\u202ehint\x9b")]

    instead = Rule("TXT999", "loud", Severity.ERROR, check)
    monkeypatch.setattr("paictl.config.linting.validate.rules_on", lambda _: (instead,))
    (problem,) = report_of(HIVED).problems
    assert problem.message.startswith("a\\x1b[31m\\n")
    assert len(problem.message) < MAX_MESSAGE + 20
    assert problem.hint == "\\u202ehint\\x9b"


def test_thousands_of_problems_with_an_ignore_comment_cost_little() -> None:
    text = "# paictl: ignore-file=TXT016\n" + HIVED + "".join(f"k{number}: 1\n" for number in range(4000))
    report = report_of(text)
    assert len(report.problems) == MOST_OF_A_RULE
    assert report.omitted == {Severity.WARNING: 4000 - MOST_OF_A_RULE}
    assert report.count(Severity.WARNING) == 4000
    assert "3980 more of the same rules are not shown (--all-findings)" in summary(report)
    assert len(report_of(text, Choice(most=None)).problems) == 4000


def test_a_problem_in_an_aliased_value_is_reported_once() -> None:
    text = HIVED.replace(
        "- {cellType: NODE, cellAddress: worker1}",
        "- {cellType: NODE, cellAddress: worker1, cellChildren: &c [{cellTipe: x}]}\n"
        "  - {cellType: NODE, cellAddress: worker2, cellChildren: *c}",
    )
    assert ids(report_of(text, Choice(select=("SHP",)))) == ["SHP104"]


@given(st.text(max_size=80))
def test_printable_text_is_one_encodable_line_that_does_nothing(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert all(shows(character) for character in shown)
    assert printable(shown) == shown


@given(st.text(max_size=80), st.integers(8, 20))
def test_long_lines_are_cut_in_the_middle(text: str, limit: int) -> None:
    shown = one_line(text, limit)
    assert shown == printable(text) if len(text) <= limit else " ... " in shown


def test_bundles_give_the_only_document_of_a_kind() -> None:
    loaded = load_memory({"a.yaml": HIVED.encode(), "b.yaml": HIVED.encode()})
    (bundle,) = loaded.bundles
    assert bundle.only(next(iter(bundle.documents)).kind) is None
    one = Bundle("x", bundle.documents[:1])
    assert one.only(one.documents[0].kind) is one.documents[0]


def test_only_the_rules_that_are_asked_for_are_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    for target in ("rules_on", "rules_across"):
        original = getattr(rules, target)

        def spied(*args: Any, original: Any = original, **kwargs: Any) -> Any:
            def spy(one: Rule[Any]) -> Rule[Any]:
                def check(subject: Any) -> Iterable[Finding]:
                    ran.append(one.id)
                    return one.check(subject)

                return replace(one, check=check)

            return tuple(spy(one) for one in original(*args, **kwargs))

        monkeypatch.setattr(f"paictl.config.linting.validate.{target}", spied)
    report_of(HIVED, Choice(select=("HVD5", "XRF901"), ignore=("HVD51", "huge-node")))
    assert "HVD501" in ran
    assert "XRF901" in ran
    assert {word[:4] for word in ran} == {"HVD5", "XRF9"}
    assert not {"HVD513", "HVD540", "XRF902"} & set(ran)
    assert all(not word.startswith("HVD51") for word in ran)


def test_silenced_problems_do_not_count_towards_what_is_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.config.linting.validate.MOST_MADE", 30)
    silenced = "".join(f"k{number}: 1 # paictl: ignore=SHP104\n" for number in range(50))
    report = report_of(HIVED + silenced + "last: 1\n")
    assert [problem.message for problem in report.problems] == ["unknown key 'last'"]
    assert report.suppressed == 50
    unsilenced = report_of(HIVED + silenced.replace(" # paictl: ignore=SHP104", ""))
    assert len(unsilenced.problems) == MOST_OF_A_RULE
    assert unsilenced.count(Severity.WARNING) == 50
