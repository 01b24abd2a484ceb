"""Configurations that HiveD ran have no error, and large sound ones give nothing (the corpus: `test_corpus`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from paictl.config.linting.rules import rules_for
from paictl.config.linting.validate import validate
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load, load_memory
from paictl.config.reading.problem import Severity
from tests.conftest import ROOT


def test_what_the_original_ran_has_no_error(shared: Path) -> None:
    paths = sorted((shared / "golden").glob("**/*.yaml"))
    assert len(paths) > 50
    for path in paths:
        errors = validate(load([str(path)], FileKind.HIVED)).count(Severity.ERROR)
        assert errors == 0, path.name


def big(nodes: int, *options: str) -> bytes:
    command = [sys.executable, str(ROOT / "tools" / "make_big_hived.py"), str(nodes), *options]
    return subprocess.run(command, capture_output=True, check=True).stdout


@pytest.mark.parametrize("options", [(), ("--flat",)], ids=["racks", "flat"])
def test_a_large_sound_configuration_has_no_findings(options: tuple[str, ...]) -> None:
    (document,) = load_memory({"hivedscheduler.yaml": big(1500, *options)}).documents
    assert document.violations == []
    rules = [rule for rule in rules_for(FileKind.HIVED) if rule.id.startswith("HVD")]
    findings = [finding for rule in rules for finding in rule.check(document)]
    assert findings == []
