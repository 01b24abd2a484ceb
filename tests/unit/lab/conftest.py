"""Sessions of the shipped labs in a temporary folder, typed in through the real command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from paictl.cli.lab.inprocess import called, silent_runner
from paictl.lab.actions import Runner
from paictl.lab.manifest import find_lab, statements
from paictl.lab.session import Session

Begin = Callable[[str], tuple[Session, Runner]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Begin a lab; its session, and somebody (ann) who types there without the lab noting it."""

    def make(word: str) -> tuple[Session, Runner]:
        session = Session(find_lab(word), tmp_path / "labs")
        session.start()
        return session, silent_runner(session)

    with called("ann"):
        yield make


__all__ = ["Begin", "begin", "statements"]
