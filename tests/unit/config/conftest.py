"""Fixtures of the tests about configuration files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that everybody may enter; pytest's own belongs to whoever runs the tests."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
