"""Every lab proves itself; dropping a folder into labs/ adds its tests.

Each lab is played twice, both times through the real command line: by its self-test, and as a reader sees it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paictl.cli.lab.author import self_test
from paictl.cli.lab.inprocess import in_workspace
from paictl.cli.main import run
from paictl.lab.manifest import Lab, all_labs
from paictl.lab.session import Session
from tests.conftest import ROOT

ZONES = ("Asia/Shanghai", "America/St_Johns")
LABS = all_labs()
IDS = [lab.id for lab in LABS]


@pytest.fixture
def zone(lab: Lab) -> Iterator[None]:
    """One of two time zones far from that of the machine that made the texts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", ZONES[int(lab.number) % len(ZONES)])
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("lab", LABS, ids=IDS)
def test_no_check_is_hollow_and_the_texts_show_what_is_so(lab: Lab, tmp_path: Path) -> None:
    problems = self_test(lab, tmp_path, update=False)
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("name", IDS)
def test_a_lab_that_is_played_passes_every_check(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lab = next(lab for lab in LABS if lab.id == name)
    lang = "zh" if int(lab.number) % 2 else "en"
    assert run(["lab", "run", name, "--fast", "--lang", lang]) == 0
    out = capsys.readouterr().out
    assert "✗" not in out
    assert lab.title.of(lang) in out


def test_the_manifests_are_validated_like_everything_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "validate", str(ROOT / "labs")]) == 0
    capsys.readouterr()


def test_playing_leaves_the_shell_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAICTL_STATE", "mine")
    session = Session(LABS[1], tmp_path)
    session.start()
    here = Path.cwd()
    with in_workspace(session):
        assert Path.cwd() == session.workspace.files
    assert Path.cwd() == here
    assert os.environ["PAICTL_STATE"] == "mine"
