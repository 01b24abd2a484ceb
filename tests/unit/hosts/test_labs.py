"""Labs of several processes come and go side by side."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.hosts import lab
from tools.hosts.lab import Lab, sweep

ROUNDS = 100


@pytest.fixture
def raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and a file that is there while the limits of the machine would be raised."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = tmp_path / "raised"
    monkeypatch.setattr(lab, "raise_limits", file.touch)
    monkeypatch.setattr(lab, "restore_limits", lambda: file.unlink(missing_ok=True))
    return file


def test_a_lab_of_a_living_process_stays_and_has_its_limits_whoever_else_comes_and_goes(raised: Path) -> None:
    """Workers of `make e2e-hosts` begin at once: each claims a lab, sweeps those of the dead, and ends its own."""

    def come_and_go(number: int) -> list[str]:
        faults = []
        for turn in range(ROUNDS):
            own = Lab(f"pytest-{number}-{turn}", owner=os.getpid())
            faults += sweep()
            own.claim()
            faults += sweep()
            if not own.folder.is_dir():
                faults.append(f"{own.name} was swept")
            if not raised.exists():
                faults.append(f"{own.name} lost its limits")
            own.down()
        return faults

    with ThreadPoolExecutor(4) as pool:
        assert [fault for faults in pool.map(come_and_go, range(4)) for fault in faults] == []
    assert not raised.exists()


def test_a_lab_whose_owner_is_dead_is_swept_once(raised: Path) -> None:
    dead, living = Lab("dead", owner=os.getpid()), Lab("living", owner=os.getpid())
    dead.claim()
    living.claim()
    (dead.folder / "owner").write_text(f"{os.getpid()} 1\n")  # this process has that id now, but began at another time
    assert [sweep(), sweep()] == [["dead"], []]
    assert (dead.folder.exists(), living.folder.exists(), raised.exists()) == (False, True, True)
    living.down()
    assert not raised.exists()
