"""The order of the modules that run on test hosts: the long ones first, whatever else is collected beside them."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.conftest import ROOT
from tests.e2e_hosts.conftest import LONGEST, pytest_collection_modifyitems

FOLDER = ROOT / "tests" / "e2e_hosts"


def _item(path: Path, name: str) -> Any:
    return SimpleNamespace(path=path, name=name, add_marker=lambda _: None)


def test_each_of_the_long_modules_is_there() -> None:
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if not (FOLDER / f"test_{name}.py").is_file()] == []


def test_long_modules_come_first_and_the_tests_of_each_keep_their_order() -> None:
    """A module of the same name elsewhere is another one, and stays where it is."""
    others = [_item(ROOT / "tests/unit/deploy/test_audit.py", "x"), _item(FOLDER / "test_hosts.py", "y")]
    long = [_item(FOLDER / f"test_{name}.py", test) for name in LONGEST for test in ("b", "a")]
    items = [*others, *reversed(long)]
    pytest_collection_modifyitems(items)
    assert [(one.path.stem, one.name) for one in items] == [
        *((f"test_{name}", test) for name in LONGEST for test in ("a", "b")),
        ("test_audit", "x"),
        ("test_hosts", "y"),
    ]


def test_the_makefile_lets_that_order_stand() -> None:
    """Without the option pytest-xdist begins with the modules of most tests."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    assert [line for line in lines if line.endswith("--dist loadfile --no-loadscope-reorder tests/e2e_hosts")]
