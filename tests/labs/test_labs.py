"""Every lab proves itself; dropping a folder into labs/ adds its tests."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from paictl.cli.lab.play import called, in_ground, self_test, type_silently
from paictl.cli.main import run
from paictl.cluster.interface import Cluster, HandClock
from paictl.lab.ground import Ground
from paictl.lab.manifest import Lab, all_labs
from paictl.lab.session import Session
from tests.conftest import ROOT

LABS = all_labs()
IDS = [lab.id for lab in LABS]


@pytest.mark.parametrize("name", IDS)
def test_no_check_is_hollow_and_the_texts_show_what_is_so(name: str, tmp_path: Path) -> None:
    found = self_test(name, tmp_path, update=False)
    assert not found, "\n".join(found)


class OnlyTheInterface:
    """A cluster of which nothing can be used but the interface, and the clock that is advanced by hand."""

    OFFERED = frozenset({*vars(Cluster), *vars(HandClock)})

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> object:
        assert name in self.OFFERED, f"{name} is not in the interface"
        return getattr(self._cluster, name)


@pytest.mark.parametrize("lab", LABS, ids=IDS)
def test_steps_and_checks_need_the_interface_only_and_do_what_the_command_line_does(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Ground.cluster

    def shown(ground: Ground) -> object:
        return OnlyTheInterface(real(ground)) if ground.folder.parent.name == "table" else real(ground)

    monkeypatch.setattr(Ground, "cluster", shown)
    table, line = Session(lab, tmp_path / "table"), Session(lab, tmp_path / "line")
    for session in (table, line):
        session.start("en")
    with called("student"):
        for step in lab.steps:
            by_table = table.play(
                step, step.solution, table.player("student", lambda words: type_silently(table, words)).play
            )
            by_line = line.play(
                step, step.solution, lambda command: type_silently(line, command.split()[1:])
            )  # fmt: skip
            assert [(typed.command, typed.exit) for typed in by_table] == [
                (typed.command, typed.exit) for typed in by_line
            ]
    assert [(e.at, e.kind, e.subject, e.message) for e in table.scene().events] == [
        (e.at, e.kind, e.subject, e.message) for e in line.scene().events
    ]


def test_all_labs_play_within_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.process_time()
    assert run(["lab", "run", "--all", "--fast", "--lang", "zh"]) == 0
    assert time.process_time() - began < 60
    out = capsys.readouterr().out
    assert "✗" not in out
    assert all(lab.title.zh in out for lab in LABS)


def test_the_manifests_are_validated_like_everything_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "validate", str(ROOT / "labs")]) == 0
    capsys.readouterr()


def test_playing_leaves_the_shell_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAICTL_STATE", "mine")
    session = Session(LABS[0], tmp_path)
    session.start("en")
    here = Path.cwd()
    with in_ground(session):
        assert Path.cwd() == session.ground.files
    assert Path.cwd() == here
    import os

    assert os.environ["PAICTL_STATE"] == "mine"
