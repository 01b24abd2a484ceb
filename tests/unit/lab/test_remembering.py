"""What a manifest said is remembered, and forgotten as soon as the file is another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from paictl.lab.cache import remembered


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Reader:
    """Counts how often a file is really read."""

    def __init__(self, *says: Any) -> None:
        self.says = list(says)
        self.times = 0

    def __call__(self, _: Path) -> Any:
        self.times += 1
        return self.says[min(self.times, len(self.says)) - 1]


def kept(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_file_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path, read = tmp_path / "a.yaml", Reader({"a": [1, "α"]}, {"b": None})
    path.write_text("one")
    assert [remembered(path, read) for _ in range(3)] == [{"a": [1, "α"]}] * 3
    assert read.times == 1
    path.write_text("other text")
    assert (remembered(path, read), read.times) == ({"b": None}, 2)
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert (remembered(path, read), read.times) == ({"b": None}, 3)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"of": 3}'])
def test_a_damaged_cache_is_none(tmp_path: Path, damage: str) -> None:
    path, read = tmp_path / "a.yaml", Reader({"a": 1})
    path.write_text("one")
    remembered(path, read)
    (entry,) = kept(tmp_path)
    entry.write_text(damage)
    assert (remembered(path, read), read.times) == ({"a": 1}, 2)


@pytest.mark.parametrize("says", [{1: "one"}, {"a": {1}}])
def test_what_json_cannot_say_is_not_kept(tmp_path: Path, says: Any) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("one")
    assert remembered(path, Reader(says)) == says
    assert kept(tmp_path) == []


def test_without_a_cache_folder_everything_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, read = tmp_path / "a.yaml", Reader({"a": 1})
    path.write_text("one")
    monkeypatch.setenv("XDG_CACHE_HOME", str(path))  # a file is in the way
    assert [remembered(path, read) for _ in range(2)] == [{"a": 1}] * 2
    with pytest.raises(ValueError, match="no file"):
        remembered(tmp_path / "gone.yaml", _no_file)


def _no_file(path: Path) -> Any:
    raise ValueError(f"no file {path}")
