"""The lab commands as a student uses them, mistakes and all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LOGNAME", "ann")
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def in_shell(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lab 02 was started, and this is its shell."""
    assert paictl("lab", "start", "2").code == 0
    ground = home / "state" / "labs" / "02_vc_safety"
    monkeypatch.setenv("PAICTL_STATE", str(ground))
    monkeypatch.chdir(ground / "files")
    return ground


@pytest.mark.usefixtures("home")
def test_before_any_lab_the_commands_lead_to_one(paictl: Paictl) -> None:
    assert "paictl lab start 1" in paictl("lab", "next").err
    assert "paictl lab start 02" in paictl("lab", "verify", "2").err
    assert "01_deploy" in paictl("lab", "list").out
    assert "VC safety" in paictl("lab", "show", "2").out


def test_env_and_start_say_how_to_work_in_the_lab(home: Path, paictl: Paictl) -> None:
    out = paictl("lab", "start", "2", "--lang", "zh").out
    assert "paictl lab shell 02" in out
    assert "目标" in out
    lines = paictl("lab", "env").out.splitlines()
    assert lines[0] == f"export PAICTL_STATE={home}/state/labs/02_vc_safety"
    assert lines[1].startswith("cd ")
    assert "提示" in paictl("lab", "hint").out, "the language of the start is kept"
    assert "has begun already" in paictl("lab", "start", "2").err


@pytest.mark.usefixtures("in_shell")
def test_typing_in_the_shell_ticks_checks_off(paictl: Paictl) -> None:
    done = paictl("job", "submit", "job-2.yaml")
    assert "lab: ✓ job-2 runs on the GPU" in done.err
    assert paictl("lab", "verify").code == 1
    out = paictl("lab", "next").out
    assert "step 2 of 5" in out
    assert "this step is not done yet" not in out
    again = paictl("lab", "next").out
    assert "not typed yet: paictl job submit job-3.yaml" in again


@pytest.mark.usefixtures("in_shell")
def test_the_usual_mistakes_lead_on(paictl: Paictl) -> None:
    assert "no command has reached this lab" in paictl("lab", "verify").out
    file = Path("job-2.yaml")
    text = file.read_text()
    file.write_text(text.replace("instances: 1", "instances: one"))
    assert paictl("job", "submit", "job-2.yaml").code == 2
    out = paictl("lab", "verify").out
    assert "your last command was refused: paictl job submit job-2.yaml" in out
    assert "correct the errors above" in out
    file.write_text(text)
    paictl("job", "submit", "job-2.yaml", "--vc", "default")
    assert "→ job-2 went to another virtual cluster than vc1" in paictl("lab", "verify").out


@pytest.mark.usefixtures("in_shell")
def test_a_stale_service_is_named(paictl: Paictl) -> None:
    assert paictl("config", "pull", "-o", "config").code == 0
    services = Path("config/services-configuration.yaml")
    services.write_text(services.read_text().replace("cpu: 8", "cpu: 7"))
    assert paictl("config", "push", "-p", "config", "-y").code == 0
    out = paictl("lab", "verify").out
    assert "note: service hivedscheduler: runs by configuration 1" in out


@pytest.mark.usefixtures("in_shell")
def test_solve_skip_answer_status_and_report(paictl: Paictl) -> None:
    assert "needs its reason" in paictl("lab", "skip").err
    assert paictl("lab", "skip", "--reason", "known").code == 0
    assert "$ paictl job submit job-3.yaml" in paictl("lab", "solve").out
    assert paictl("lab", "answer", "1", "the quota").code == 0
    status = paictl("lab", "status").out
    assert "– first-runs" in status
    assert "your answer: the quota" in status
    out = paictl("lab", "solve", "--all").out
    assert "a good answer" in out
    assert paictl("lab", "report", "-o", "r.html", "--name", "Ann").code == 0
    checked = paictl("lab", "check-report", "r.html", "-o", "json")
    assert checked.code == 0
    assert json.loads(checked.out)[0]["inconsistent"] == []
    Path("r.html").write_text(Path("r.html").read_text().replace("the quota", "my quota", 1))
    bad = paictl("lab", "check-report", "r.html")
    assert bad.code == 1
    assert "not consistent" in bad.out


@pytest.mark.usefixtures("in_shell")
def test_verify_gives_data_and_its_exit_code_is_the_answer(paictl: Paictl) -> None:
    data = json.loads(paictl("lab", "verify", "-o", "json").out)
    assert data[0]["findings"] == [
        {"ok": False, "of": "job job-2", "what": "", "expected": "exists", "observed": "no such job"}
    ]
    paictl("job", "submit", "job-2.yaml", "job-3.yaml")
    paictl("lab", "solve", "--all")
    assert paictl("lab", "next").out.startswith("all steps are done")
    done = paictl("lab", "verify", "--watch")
    assert done.code in (0, 1)


def test_reset_inside_the_shell_and_begin_anew(in_shell: Path, paictl: Paictl) -> None:
    assert "leave it with exit" in paictl("lab", "reset").err
    assert not in_shell.exists()


def test_solve_works_in_a_shell_whose_folder_was_taken_away(in_shell: Path, paictl: Paictl) -> None:
    assert paictl("lab", "reset").code == 0
    assert not in_shell.exists()
    assert paictl("lab", "start", "2").code == 0
    assert "job-2  Running" in paictl("lab", "solve").out


def test_commands_outside_a_lab_are_not_noted(home: Path, paictl: Paictl) -> None:
    paictl("lab", "start", "2")
    paictl("cluster", "up", "--speed", "0")
    assert not list(home.rglob("commands.jsonl"))
