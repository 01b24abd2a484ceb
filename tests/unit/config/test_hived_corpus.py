"""HiveD's own configurations: what each gives, and that what HiveD ran has no error."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from paictl.config.kinds import Kind
from paictl.config.load import load, load_memory
from paictl.config.problem import Severity
from paictl.config.rules import rules_for
from paictl.config.validate import validate
from tests.conftest import ROOT

EXPECTED = {
    "example-basic": {"HVD531": 2},  # VC1, VC2
    "example-default": {"TXT013": 1},  # nothing but comments
    "example-design": {"HVD507": 1, "HVD531": 2, "HVD535": 1},
    "feature-hived-config-33": {"HVD507": 1},
}
"""Rules and how often each, by file of corpus/hived; files that are not named give nothing."""


def test_the_corpus_gives_what_is_expected(shared: Path) -> None:
    paths = sorted((shared / "corpus" / "hived").glob("*.yaml"))
    assert len(paths) == 13
    for path in paths:
        problems = validate(load([str(path)], Kind.HIVED)).problems
        assert Counter(problem.rule for problem in problems) == Counter(EXPECTED.get(path.stem, {})), path.name
        assert not any(problem.severity is Severity.ERROR for problem in problems), path.name


def test_what_the_original_ran_has_no_error(shared: Path) -> None:
    paths = sorted((shared / "golden").glob("**/*.yaml"))
    assert len(paths) > 50
    for path in paths:
        errors = validate(load([str(path)], Kind.HIVED)).count(Severity.ERROR)
        assert errors == 0, path.name


def big(nodes: int, *options: str) -> bytes:
    command = [sys.executable, str(ROOT / "tools" / "make_big_hived.py"), str(nodes), *options]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.parametrize("options", [(), ("--flat",)], ids=["racks", "flat"])
def test_a_large_sound_configuration_has_no_findings(options: tuple[str, ...]) -> None:
    (document,) = load_memory({"hivedscheduler.yaml": big(1500, *options)}).documents
    assert document.violations == []
    rules = [rule for rule in rules_for(Kind.HIVED) if rule.id.startswith("HVD")]
    findings = [finding for rule in rules for finding in rule.check(document)]
    assert findings == []
