"""Repairs on disk: a file is replaced as a whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from paictl.config.linting.fix import Fixed, fix
from paictl.config.reading.load import load
from paictl.errors import PaictlError
from tests.unit.config.linting.test_fix import HIVED
from tests.unit.config.permissions import NOBODY


def broken_file(folder: Path) -> Path:
    path = folder / "hivedscheduler.yaml"
    path.write_text(HIVED.replace("childCellNumber: 4", 'childCellNumber: "4"'))
    return path


def fixed_at(path: Path) -> Fixed:
    (file,) = fix(load([str(path)])).changed
    return file


def test_a_file_is_replaced_in_one_step_with_its_mode_kept(tmp_path: Path) -> None:
    path = broken_file(tmp_path)
    path.chmod(0o640)
    fixed_at(path).write()
    assert path.read_text() == HIVED
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_all_names_of_a_file_stay_names_of_it(tmp_path: Path) -> None:
    path = broken_file(tmp_path)
    other = tmp_path / "other.yaml"
    other.hardlink_to(path)
    fixed_at(path).write()
    assert other.samefile(path)
    assert other.read_text() == HIVED
    assert {one.name for one in tmp_path.iterdir()} == {path.name, other.name}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_owner_of_a_file_stays_its_owner(tmp_path: Path) -> None:
    path = broken_file(tmp_path)
    path.chmod(0o640)
    os.chown(path, NOBODY, NOBODY)
    fixed_at(path).write()
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (NOBODY, NOBODY, 0o640)
    assert path.read_text() == HIVED


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = broken_file(tmp_path / "real")
    link = tmp_path / "hivedscheduler.yaml"
    link.symlink_to(path)
    fixed_at(link).write()
    assert link.is_symlink()
    assert path.read_text() == HIVED


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = broken_file(tmp_path)
    fixed = fixed_at(path)
    path.write_text("somebody else was here\n")
    with pytest.raises(PaictlError, match="changed while"):
        fixed.write()
    assert path.read_text() == "somebody else was here\n"


def test_a_failure_while_writing_leaves_the_old_file_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = broken_file(tmp_path)
    fixed, before = fixed_at(path), path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(PaictlError, match="No space left on device"):
        fixed.write()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
