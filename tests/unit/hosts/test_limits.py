"""Limits of the machine come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.hosts.limits import raise_limits, restore_limits

INSTANCES, WATCHES = "fs/inotify/max_user_instances", "fs/inotify/max_user_watches"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "sys/fs/inotify").mkdir(parents=True)
    (tmp_path / "sys" / INSTANCES).write_text("128\n")
    (tmp_path / "sys" / WATCHES).write_text("9999999\n")
    return tmp_path / "sys"


def test_what_is_too_low_is_raised_and_set_back(settings: Path) -> None:
    raise_limits(settings)
    raise_limits(settings)
    assert int((settings / INSTANCES).read_text()) == 4096
    assert int((settings / WATCHES).read_text()) == 9999999
    restore_limits(settings)
    assert int((settings / INSTANCES).read_text()) == 128
    restore_limits(settings)
    assert int((settings / INSTANCES).read_text()) == 128


def test_what_another_has_set_meanwhile_stays(settings: Path) -> None:
    raise_limits(settings)
    (settings / INSTANCES).write_text("8192\n")
    restore_limits(settings)
    assert int((settings / INSTANCES).read_text()) == 8192
