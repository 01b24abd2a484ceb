"""Several files, all or none."""

from __future__ import annotations

from pathlib import Path

import pytest

from paictl.errors import PaictlError
from paictl.files import write_together

TEXTS = {"a.yaml": "a: ü\n", "b.yaml": "b: 2\n"}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_folder_is_made_and_the_mode_is_set(tmp_path: Path) -> None:
    paths = write_together(tmp_path / "x" / "y", TEXTS, mode=0o600)
    assert [path.read_text("utf-8") for path in paths] == ["a: ü\n", "b: 2\n"]
    assert [path.stat().st_mode & 0o777 for path in paths] == [0o600, 0o600]
    assert names(tmp_path / "x" / "y") == ["a.yaml", "b.yaml"]


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("mine")
    with pytest.raises(PaictlError, match=r"b\.yaml already exists") as caught:
        write_together(tmp_path, TEXTS)
    assert caught.value.hint == "replace with --force"
    assert names(tmp_path) == ["b.yaml"]
    assert (tmp_path / "b.yaml").read_text() == "mine"


def test_force_replaces(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("mine")
    write_together(tmp_path, TEXTS, force=True)
    assert (tmp_path / "b.yaml").read_text() == "b: 2\n"
    assert names(tmp_path) == ["a.yaml", "b.yaml"]


def test_what_is_the_same_already_is_in_nobodys_way(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(TEXTS["b.yaml"])
    write_together(tmp_path, TEXTS)
    assert names(tmp_path) == ["a.yaml", "b.yaml"]


def test_a_name_may_be_a_path_below_the_folder(tmp_path: Path) -> None:
    (path,) = write_together(tmp_path, {"schemas/x.json": "{}"})
    assert path == tmp_path / "schemas" / "x.json"
    assert path.read_text() == "{}"


def test_a_link_that_leads_nowhere_counts_as_there(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(PaictlError, match="already exists"):
        write_together(tmp_path, TEXTS)


def test_a_failure_in_between_puts_everything_back(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("mine")
    (tmp_path / "b.yaml").mkdir()  # cannot be replaced by a file
    with pytest.raises(PaictlError, match="cannot write") as caught:
        write_together(tmp_path, TEXTS, force=True)
    assert caught.value.hint == "nothing was changed"
    assert names(tmp_path) == ["a.yaml", "b.yaml"]
    assert (tmp_path / "a.yaml").read_text() == "mine"


def test_a_new_file_is_taken_away_again(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").mkdir()
    with pytest.raises(PaictlError):
        write_together(tmp_path, TEXTS, force=True)
    assert names(tmp_path) == ["b.yaml"]


def test_a_folder_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(PaictlError, match="cannot write"):
        write_together(tmp_path / "f", TEXTS)
