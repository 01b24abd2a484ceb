"""Every rule against its case files and against the examples of its own documentation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from paictl.config.linting import rules as rules_package
from paictl.config.linting.rule import Rule
from paictl.config.linting.rules import ALONE, TABLE, all_rules, rules_across, rules_for, rules_on
from paictl.config.reading.document import Bundle
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load_memory
from paictl.config.reading.problem import Problem
from paictl.i18n import in_language
from tests.unit.config.cases import FOLDER, Case, all_cases, lines_of, problems_of

CASES = all_cases()

UNTRANSLATED = re.compile(
    r"'[^']*'|\"[^\"]*\"|paictl [\w .-]+|nvidia-smi|kubectl get nodes|git clone|affinity group|near miss"
)
"""What stays as it is in every language: values, names, commands, terms of OpenPAI and of labs."""
ENGLISH = re.compile(r"(?<![\w./$-])[a-z]{2,}(?: [a-z]{2,})+(?![\w./:-])")


def english_left_in_chinese(problem: Problem) -> list[str]:
    """Messages and hints in which two English words follow each other: a part that was put in as plain text."""
    said = [in_language(words, "zh") for words in (problem.message, problem.hint) if words]
    return [words for words in said if ENGLISH.search(UNTRANSLATED.sub("", words))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_gives_exactly_the_expected_problems(case: Case) -> None:
    assert lines_of(problems_of(case.files)) == case.expected


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_every_rule_has_a_failing_and_a_passing_case(rule: Rule[Any]) -> None:
    cases = [case for case in CASES if case.rule == rule.id]
    hits = [any(line.split()[1] == rule.id for line in case.expected) for case in cases]
    assert any(hits), "no failing case"
    assert not all(hits), "no passing case"


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.id)
def test_the_documentation_of_a_rule_is_true(rule: Rule[Any]) -> None:
    manual = rule.manual
    assert manual.summary.endswith(".")
    assert manual.why
    assert "\n" not in manual.why
    assert manual.why.endswith(".")
    assert problems_of(manual.passes) == [], "the passing example has problems"
    found = problems_of(manual.fails)
    assert rule.id in {problem.rule for problem in found}
    for problem in found:
        assert english_left_in_chinese(problem) == []
        if problem.rule == rule.id:
            assert not problem.message.endswith(".")
            assert "\n" not in problem.message


def test_ids_and_names_are_unique_and_well_formed() -> None:
    rules = all_rules()
    assert len({rule.id for rule in rules}) == len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        assert rule.id[:3].isupper()
        assert rule.id[3:].isdigit()
        assert rule.name == rule.name.lower()


def test_every_case_folder_belongs_to_a_rule() -> None:
    known = {rule.id for rule in all_rules()}
    assert {path.name for path in FOLDER.iterdir()} <= known


def test_every_module_of_rules_is_in_the_table() -> None:
    folder = Path(rules_package.__file__ or "").parent
    modules = {path.relative_to(folder).with_suffix("") for path in folder.rglob("*.py")}
    holding = {".".join(path.parts) for path in modules if path.name not in ("__init__", "words")}
    assert holding == {module for listed in TABLE.values() for module in listed}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_files_that_stand_alone_say_nothing_of_each_other(case: Case) -> None:
    """Rules across files are not even loaded for them; here they are run all the same."""
    for bundle in load_memory(case.files).bundles:
        alone = Bundle(bundle.name, tuple(one for one in bundle.documents if one.kind in ALONE and not one.fatal))
        assert not [finding for rule in rules_across(set(FileKind)) for finding in rule.check(alone)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rules_that_are_left_out_have_nothing_to_say(case: Case) -> None:
    for bundle in load_memory(case.files).bundles:
        for document in bundle.documents:
            left_out = set(rules_for(document.kind)) - set(rules_on(document))
            assert document.fatal or not [finding for rule in left_out for finding in rule.check(document)]
