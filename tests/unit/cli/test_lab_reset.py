"""Resetting a lab or a step of it: asked for, never of another lab, and never for good."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from paictl.cli.settings import GlobalOptions
from tests.unit.cli.conftest import Paictl


def jobs(paictl: Paictl) -> list[str]:
    return [str(row["key"]).partition("~")[2] for row in paictl("job", "list", "-o", "json").data]


@pytest.mark.usefixtures("in_shell")
def test_reset_asks_for_the_number_once_checks_have_passed(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    assert paictl("lab", "reset").code == 0, "there is nothing to lose"
    paictl("lab", "start")
    paictl("job", "submit", "job-2.yaml")
    refused = paictl("lab", "reset")
    assert refused.code == 2
    assert "lab 02 (VC safety) will be restarted; 1 of 5 checks have passed" in refused.err
    assert jobs(paictl) == ["job-2"]
    asked: list[str] = []

    def answer(question: str, **_: object) -> str:
        asked.append(question)
        return "06" if len(asked) == 1 else "02"

    monkeypatch.setattr(GlobalOptions, "may_ask", property(lambda _: True))
    monkeypatch.setattr("typer.prompt", answer)
    assert paictl("lab", "reset").code == 2, "another number is no answer"
    assert jobs(paictl) == ["job-2"]
    assert paictl("lab", "reset").code == 0
    assert "'02'" in asked[0]


def test_what_a_reset_took_comes_back(in_shell: Path, paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml", "job-3.yaml")
    Path("notes.txt").write_text("mine")
    done = paictl("lab", "reset", "-y")
    backup = next((in_shell.parent / "backups").iterdir())
    assert f"its previous state is kept in {backup}" in done.err
    assert "paictl lab restore 02" in done.err
    paictl("lab", "start")
    assert jobs(paictl) == []
    assert paictl("lab", "restore").code == 0
    assert sorted(jobs(paictl)) == ["job-2", "job-3"]
    assert Path("notes.txt").read_text() == "mine"
    assert "✓ second-waits" in paictl("lab", "verify").out
    assert paictl("lab", "restore").code == 0, "what was there before comes back in turn"
    assert jobs(paictl) == []
    nothing = paictl("lab", "restore", "3")
    assert nothing.code == 2
    assert "no backup of lab 03" in nothing.err


def test_a_step_can_be_taken_back(in_shell: Path, paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml")
    Path("job-5.yaml").write_text("spoilt")
    paictl("job", "submit", "job-3.yaml", "--vc", "default")
    out = paictl("lab", "verify").out
    assert "restart only this step and keep everything before it: paictl lab reset --step 2" in out
    refused = paictl("lab", "reset", "--step", "2")
    assert refused.code == 2
    assert "will go back to step 2 (commands since then: 1; changed files: job-5.yaml)" in refused.err
    assert "pass --yes to confirm" in refused.err
    assert Path("job-5.yaml").read_text() == "spoilt"
    done = paictl("lab", "reset", "--step", "2", "--yes")
    assert done.code == 0
    assert "lab 02 is back at the start of step 2" in done.err
    assert "step 2 of 5" in done.out
    assert jobs(paictl) == ["job-2"]
    assert Path("job-5.yaml").read_text() != "spoilt"
    assert "✓ first-runs" in paictl("lab", "verify").out
    assert "lab: ✓ job-3 waits" in paictl("job", "submit", "job-3.yaml").err, "its name is free again"
    early = paictl("lab", "reset", "--step", "5")
    assert early.code == 2
    assert "you have not reached step 5" in early.err
    assert "steps are 1 to 5" in paictl("lab", "reset", "--step", "9").err
    progress = json.loads((in_shell.parent / "progress.json").read_text())
    assert [reset["step"] for reset in progress["labs"]["02_vc_safety"]["resets"]] == ["overfill"]


@pytest.mark.usefixtures("in_shell")
def test_a_step_is_thrown_away_by_its_number_only(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    paictl("job", "submit", "job-2.yaml")
    assert paictl("lab", "reset", "--step", "2").code == 0, "nothing has happened in it"
    Path("notes.txt").write_text("mine")
    answers = iter(["02", "2"])
    monkeypatch.setattr(GlobalOptions, "may_ask", property(lambda _: True))
    monkeypatch.setattr("typer.prompt", lambda *_, **__: next(answers))
    assert paictl("lab", "reset", "--step", "2").code == 2, "the number of the lab is no answer"
    assert Path("notes.txt").exists()
    assert paictl("lab", "reset", "--step", "2").code == 0
    assert not Path("notes.txt").exists()


def test_in_the_shell_of_a_lab_whose_folder_is_gone_no_other_lab_is_meant(
    in_shell: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    paictl("lab", "start", "6")
    paictl("job", "submit", "job-2.yaml")
    monkeypatch.setenv("PAICTL_LAB_SHELL", "02_vc_safety")
    shutil.rmtree(in_shell)
    other = in_shell.parent / "06_gang"
    before = sorted(path.name for path in other.iterdir())
    for words in (["verify"], ["next"], ["status"], ["hint"], ["solve"], ["reset", "--step", "1"], ["shell"]):
        ended = paictl("lab", *words)
        assert ended.code == 2, words
        assert "the folder of lab 02 is gone" in ended.err, words
        assert "paictl lab start 02" in ended.err, words
        assert " 06" not in ended.err + ended.out
    assert "paictl lab start 02" in paictl("job", "list").err
    assert "lab 02 was reset" in paictl("lab", "reset", "-y").err
    assert sorted(path.name for path in other.iterdir()) == before
    assert paictl("lab", "start").out.startswith("02 ")


def test_the_same_where_the_whole_labs_folder_is_gone(
    in_shell: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_LAB_SHELL", "02_vc_safety")
    shutil.rmtree(in_shell.parent)
    assert "lab 02 has not been started" in paictl("lab", "verify").err
    assert paictl("lab", "start").out.startswith("02 ")
    assert (in_shell / "lab.json").is_file()


@pytest.mark.usefixtures("in_shell")
def test_an_answer_is_not_empty_and_says_what_it_replaces(paictl: Paictl) -> None:
    assert paictl("lab", "answer", "1", "the quota").code == 0
    empty = paictl("lab", "answer", "1", "  ")
    assert empty.code == 2
    assert "is empty; nothing was noted" in empty.err
    assert "your answer: the quota" in paictl("lab", "status").out
    assert "it replaces: the quota" in paictl("lab", "answer", "1", "the promise").err
