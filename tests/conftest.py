"""Fixtures and paths that all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# In CI the same examples every time: a submission must not fail for what it did not change. Elsewhere new ones every
# time, which is how the next mistake is found. No deadlines: the machines are shared.
settings.register_profile("anew", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same" if os.environ.get("CI") else "anew")

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("PAICTL_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test material beside the repository; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no test material at {SHARED} (set PAICTL_SHARED)")
    return SHARED
