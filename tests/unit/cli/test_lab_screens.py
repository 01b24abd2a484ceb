"""What a student sees: brief checks, texts, language, prompts, and the way into a lab and out again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from paictl.cli.lab.shell import with_prompt
from paictl.cli.paragraphs import wrapped
from paictl.lab.glossary import read_glossary
from tests.conftest import ROOT
from tests.unit.cli.conftest import Paictl


@pytest.mark.usefixtures("in_shell")
def test_verify_is_brief_and_says_what_failed_last(paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml", "--vc", "default")
    lines = paictl("lab", "verify").out.splitlines()
    assert lines[0].startswith("✗ first-runs")
    assert lines[1].startswith("· second-waits")
    assert lines[5] == "0 of 5 checks passed"
    assert any(line.startswith("    expected: job job-2: virtual cluster vc1") for line in lines[6:])
    paictl("lab", "reset", "-y")
    paictl("lab", "start")
    paictl("job", "submit", "job-2.yaml")
    assert "expected" not in paictl("lab", "verify").out
    assert "expected: job job-2: state Running" in paictl("lab", "verify", "-v").out


@pytest.mark.usefixtures("in_shell")
def test_a_job_that_is_not_of_the_lab_is_named(paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml", "--name", "extra2")
    paictl("job", "submit", "job-2.yaml")
    out = paictl("lab", "verify").out
    assert (
        "→ extra2 does not belong to this lab and may hold devices that another job needs: paictl job stop extra2"
        in out
    )
    assert "cannot be undone" not in out
    assert "lab: ✓ job-2 runs" in paictl("job", "stop", "extra2").err


def test_services_that_were_started_one_by_one_were_started(
    home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    paictl("lab", "start", "5")
    monkeypatch.setenv("PAICTL_STATE", str(home / "state" / "labs" / "05_one_vc"))
    paictl("lab", "skip", "run", "--reason", "x")
    paictl("lab", "skip", "pull", "--reason", "x")
    paictl("lab", "next")
    paictl("service", "stop", "-n", "hivedscheduler")
    assert "not typed yet: paictl service stop" in paictl("lab", "next").out
    paictl("service", "stop", "-n", "rest-server")
    out = paictl("lab", "next").out
    assert "not typed yet: paictl job list" in out
    assert "not typed yet: paictl service stop" not in out


def test_one_language_for_everything(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    paictl("lab", "start", "2")
    assert "实验现在使用中文" in paictl("lab", "language", "zh").out
    assert paictl("lab", "language").out == "zh\n"
    wrong = paictl("lab", "answer", "9", "x").err
    assert wrong.startswith("错误：实验 02")
    assert "\n提示：查看" in wrong
    monkeypatch.setenv("PAICTL_STATE", str(home / "state" / "labs" / "02_vc_safety"))
    monkeypatch.chdir(home / "state" / "labs" / "02_vc_safety" / "files")
    assert "lab: ✓ job-2 在承诺给 vc1 的 GPU 上运行" in paictl("job", "submit", "job-2.yaml").err
    assert paictl("job", "show", "nosuch").err.startswith("错误：")
    assert "# 实验 02" in paictl("lab", "show").out
    assert "step 1" not in paictl("lab", "next").out
    monkeypatch.setenv("PAICTL_LANG", "en")
    assert paictl("lab", "answer", "9", "x").err.startswith("error: lab 02")
    assert "但 PAICTL_LANG=en 优先" in paictl("lab", "language", "zh").out
    assert "# Lab 02" in paictl("lab", "show").out


@pytest.mark.usefixtures("home")
def test_the_texts_lead_to_what_explains_them(paictl: Paictl) -> None:
    assert "paictl lab show 02" in paictl("lab", "start", "2").out
    assert "paictl lab show 02" in paictl("lab", "next").out
    explained = paictl("lab", "show", "2", "--explain").out
    assert explained.startswith("# Lab 02")
    assert "## Explain" in explained
    assert "$ paictl" not in explained
    paictl("lab", "solve", "--all")
    assert "paictl lab show 02 --explain" in paictl("lab", "next").out


def test_the_glossary_is_beside_the_words_of_the_textbook(paictl: Paictl) -> None:
    out = paictl("lab", "glossary").out
    for word in ("组调度", "群调度", "增量调度", "弹性调度", "机会型作业", "低优先级任务"):
        assert word in out
    readme = (ROOT / "labs" / "README.md").read_text(encoding="utf-8")
    for term in read_glossary():
        assert f"| {term.en} | {term.zh} | {term.textbook} |" in readme


@pytest.mark.parametrize(
    ("lab", "step", "commands"),
    [
        (11, 2, ["paictl job stop job-test job-prod", "paictl job submit job-test.yaml --name job-lazy"]),
        (16, 3, ["paictl job submit job-b.yaml --priority prod --name job-b2"]),
    ],
)
def test_the_name_that_a_step_wants_is_free_again_only_at_its_start(
    home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch, lab: int, step: int, commands: list[str]
) -> None:
    paictl("lab", "start", str(lab))
    for _ in range(step - 1):
        paictl("lab", "solve", str(lab))
    folder = next((home / "state" / "labs").glob(f"{lab}_*"))
    monkeypatch.setenv("PAICTL_STATE", str(folder))
    monkeypatch.chdir(folder / "files")
    for command in commands:
        assert paictl(*command.split()[1:]).code == 0
    again = paictl(*commands[-1].split()[1:]).err
    assert f"go back to the start of its step: paictl lab reset --step {step}" in again


@pytest.mark.parametrize("named", ["", "real one"])
def test_who_took_the_environment_of_a_lab_finds_back(home: Path, paictl: Paictl, named: str) -> None:
    """Also where the shell named another cluster, to which no command of the lab may go."""
    paictl("lab", "start", "2")
    paictl("lab", "start", "1")
    assert "this shell does not use a lab" in paictl("lab", "env", "--leave").err
    script = ROOT / ".venv" / "bin" / "paictl"
    if not script.is_file():
        pytest.skip("paictl is not installed in .venv")
    lines = f"""
        cd {home}; eval "$({script} lab env 1)"; eval "$({script} lab env 2)"; pwd; {script} job list | head -1
        echo "cluster:$PAICTL_CLUSTER"
        eval "$({script} lab env --leave)"; pwd; echo "state:$PAICTL_STATE cluster:$PAICTL_CLUSTER"; ! env | grep LAB_
    """
    environment = {**os.environ, "PAICTL_STATE": str(home / "state"), "PAICTL_CLUSTER": named}
    done = subprocess.run(["/bin/sh", "-c", lines], env=environment, capture_output=True, text=True, check=True)
    here, jobs, inside, back, outside = done.stdout.splitlines()
    assert here.endswith("02_vc_safety/files")
    assert jobs.startswith("JOB ")
    assert inside == "cluster:local"
    assert Path(back) == home.resolve()
    assert outside == f"state: cluster:{named}"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "dash"])
def test_the_lab_stands_in_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"no {shell} here")
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".bashrc").write_text("PS1='mine> '\n")
    (tmp_path / ".zshrc").write_text("PROMPT='mine> '\n")
    words, more = with_prompt(program, tmp_path / "labs", "02")
    if shell == "bash":
        done = subprocess.run([*words, "-c", "true"], env=os.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0
        rc = (tmp_path / "labs" / "shell" / "bashrc").read_text()
        shown = subprocess.run(
            [program, "--norc", "-c", f'{rc}\necho "$PS1"'], capture_output=True, text=True, check=True
        )
        assert shown.stdout == "(lab 02) mine> \n"
    elif shell == "zsh":
        shown = subprocess.run(
            [*words, "-c", 'print -r -- "$PROMPT"'],
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            check=True,
        )
        assert shown.stdout == "(lab 02) mine> \n"
    elif shell == "fish":
        shown = subprocess.run([program, "-c", f"{words[-1]}\nfish_prompt"], capture_output=True, text=True, check=True)
        assert shown.stdout.startswith("(lab 02) ")
    else:
        assert more == {"PS1": "(lab 02) $ "}


def test_lines_break_at_words_and_between_chinese_characters() -> None:
    assert wrapped("one two three four", 11, indent="- ", hang="  ") == ["- one two", "  three", "  four"]
    assert wrapped("从提交到结束的全过程，再看。", 10) == ["从提交到结", "束的全过", "程，再看。"]
    assert wrapped("见 paictl lab show 2（说明）", 16) == ["见 paictl lab", "show 2（说明）"]
    assert wrapped("a text", None, indent="→ ") == ["→ a text"]
    long = "paictl lab reset --step 2 " * 9
    assert all(len(line) <= 40 for line in wrapped(long, 40))
    assert " ".join(wrapped(long, 40)).split() == long.split()
