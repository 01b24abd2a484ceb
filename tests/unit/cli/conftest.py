"""Running the command line in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from paictl.cli.main import run
from paictl.cli.settings import GlobalOptions, settings
from paictl.cluster.embedded.present import plan_beginning
from tests.contract.conftest import BEGINNING


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """What the JSON document on stdout says: its items, where it is a list of things."""
        document = json.loads(self.out)
        assert document.pop("schemaVersion") == 1
        return document["items"] if set(document) == {"items"} else document


Paictl = Callable[..., Done]


@pytest.fixture
def paictl(capsys: pytest.CaptureFixture[str]) -> Iterator[Paictl]:
    """Run `paictl WORDS…` and give exit code, stdout and stderr."""

    def call(*words: str) -> Done:
        code = run(list(words))
        captured = capsys.readouterr()
        return Done(int(code), captured.out, captured.err)

    yield call
    fresh = GlobalOptions()
    for name in GlobalOptions.__slots__:
        setattr(settings, name, getattr(fresh, name))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without state, user ann, no language."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LOGNAME", "ann")
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def mid_month(home: Path) -> Path:
    """The same, where a cluster comes up on a morning in the middle of a month: accounts begin anew with each."""
    folder = home / "state"
    folder.mkdir(mode=0o700)
    plan_beginning(folder, BEGINNING.timestamp())
    return home


@pytest.fixture
def in_shell(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lab 02 was started, and this is its shell."""
    assert paictl("lab", "start", "2").code == 0
    ground = home / "state" / "labs" / "02_vc_safety"
    monkeypatch.setenv("PAICTL_STATE", str(ground))
    monkeypatch.chdir(ground / "files")
    return ground
