"""Fixtures and paths that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test material beside the repository; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no test material at {SHARED} (set PAICTL_SHARED)")
    return SHARED
