"""docs/simulator-python.md: its cells run in order and print the output that the page shows."""

from __future__ import annotations

import contextlib
import io
import re
from typing import Any

import pytest

from paictl.sim.policies import table
from paictl.sim.policies.parameters import ParameterError
from tests.conftest import ROOT

PAGE = ROOT / "docs/simulator-python.md"
CELL = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.S)


def played(page: str) -> list[tuple[str, str]]:
    """(output of a cell, output on the page) of each cell of a page."""
    names: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for place, (source, expected) in enumerate(CELL.findall(page)):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(source, f"{PAGE.name}, cell {place}", "exec"), names)  # noqa: S102 - our own page
        outputs.append((out.getvalue(), expected))
    return outputs


def test_the_cells_print_what_the_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_LOADED", {})
    cells = played(PAGE.read_text(encoding="utf-8"))
    assert len(cells) >= 7
    assert [printed for printed, _ in cells] == [expected for _, expected in cells]


def test_a_registered_class_replaces_the_one_before_but_none_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "_LOADED", {})
    kind = table.policy_class("fifo")
    for _ in range(2):
        replacement = type("Mine", (kind,), {"id": "mine"})
        assert table.register(replacement) is replacement
        assert table.policy_class("mine") is replacement
    with pytest.raises(ParameterError, match="'fifo' is taken"):
        table.register(kind)
    with pytest.raises(ParameterError, match="does not set id"):
        table.register(type("Nameless", (kind,), {"id": None}))
