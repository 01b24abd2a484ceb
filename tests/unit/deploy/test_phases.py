"""What holds for the phases of every deployment and upgrade, and for what they push."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from paictl.deploy.phases import phases
from paictl.deploy.site import Site, pack_folder
from paictl.deploy.upgrading import UpgradeOptions, UpgradeWork, upgrade_phases
from paictl.deploy.versions import Version

SITE = cast("Site", None)
"""No phase looks at it before it runs."""


def test_nothing_goes_on_behind_a_phase_that_failed() -> None:
    for line in (phases(SITE), upgrade_phases(UpgradeWork(SITE, UpgradeOptions(Version(1, 37, 1))))):
        ids = [one.id for one in line]
        assert len(ids) == len(set(ids)) > 5
        for number, one in enumerate(line):
            assert one.needs == frozenset(ids[:number]), one.id


def test_what_is_pushed_is_the_run_s_own_and_what_a_killed_run_left_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two deployments at once once took the archive away under each other."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    packs = tmp_path / "paictl" / "packs"
    other, dead = packs / str(os.getppid()), packs / str(2**22 + 1)  # Linux gives no higher number than 2^22
    for folder in (other, dead):
        folder.mkdir(parents=True)
        (folder / "x.tar").touch()
    with pack_folder() as mine:
        mine.mkdir()
        (mine / "x.tar").touch()
        assert sorted(packs.iterdir()) == sorted([other, mine])
    assert list(packs.iterdir()) == [other]
