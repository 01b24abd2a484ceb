"""Sessions of the shipped labs in a temporary folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from paictl.lab.manifest import find_lab, statements
from paictl.lab.session import Session
from paictl.lab.steps import Typist

Begin = Callable[[str], tuple[Session, Typist]]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    """Begin a lab; its session, and somebody who types there and lets the lab note it."""

    def make(word: str) -> tuple[Session, Typist]:
        session = Session(find_lab(word), tmp_path / "labs")
        session.start("en")
        return session, session.player("ann").play

    return make


__all__ = ["Begin", "begin", "statements"]
