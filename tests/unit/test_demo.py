"""`make demo` shows pushes and jobs, and leaves the checkout as it was."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tools import demo


def test_the_demo_changes_nothing_in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def state() -> dict[str, tuple[int, int]]:
        files = (path for path in (ROOT / "examples").rglob("*") if path.is_file())
        return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}

    pushing = tuple(step for step in demo.STEPS if any("config push" in command for command in step.commands))
    assert pushing
    monkeypatch.setattr(demo, "STEPS", pushing)
    before = state()
    assert demo.main() == 0
    assert state() == before
