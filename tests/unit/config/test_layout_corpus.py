"""Published layouts, host lists and cluster settings: what each gives."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from paictl.config.kinds import Kind
from paictl.config.load import load
from paictl.config.validate import validate

LAYOUT, CONFIG = Kind.LAYOUT, Kind.CONFIG
LEGACY = {"LAY401": 1, "LAY402": 9, "LAY403": 2}

EXPECTED: dict[str, tuple[Kind, dict[str, int]]] = {
    "pai-kubespray.yaml": (LAYOUT, {}),
    "pai-config.yaml": (CONFIG, {"CFG301": 2}),
    "v1.2.0-config.yml": (CONFIG, {"CFG301": 4, "CFG309": 1}),
    "v1.2.0-master.csv": (Kind.MASTER_CSV, {}),
    "v1.2.0-worker.csv": (Kind.WORKER_CSV, {}),
    "legacy-configuration-duplicate-hostname.yaml": (LAYOUT, {**LEGACY, "LAY412": 2}),
    "legacy-configuration-none-overwrite.yaml": (LAYOUT, LEGACY),
    "legacy-configuration-overwrite.yaml": (LAYOUT, LEGACY),
    "legacy-configuration-template-generate.yaml": (LAYOUT, {"LAY401": 1, "LAY402": 9}),
    "legacy-example.yaml": (LAYOUT, {"LAY401": 1, "LAY402": 12, "LAY403": 8}),
}


def test_no_file_is_left_out(shared: Path) -> None:
    assert {path.name for path in (shared / "corpus" / "layout").iterdir()} == EXPECTED.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_a_published_file_gives_what_is_known_of_it(shared: Path, name: str) -> None:
    report = validate(load([str(shared / "corpus" / "layout" / name)]))
    found = dict(Counter(problem.rule for problem in report.problems))
    assert ([file.kind for file in report.files], found) == ([EXPECTED[name][0]], EXPECTED[name][1])


def test_the_duplicate_names_are_pointed_at(shared: Path) -> None:
    path = shared / "corpus" / "layout" / "legacy-configuration-duplicate-hostname.yaml"
    problems = validate(load([str(path)])).problems
    assert [(p.place.line, p.place.column) for p in problems if p.rule == "LAY412"] == [(89, 17), (109, 17)]
