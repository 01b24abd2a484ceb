"""The lab commands as a student uses them, mistakes and all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Paictl


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
    assert lines[0].startswith("export PAICTL_LAB_BACK=")
    assert lines[1] == f"export PAICTL_STATE={home}/state/labs/02_vc_safety"
    assert lines[2].startswith("cd ")
    assert "提示" in paictl("lab", "hint").out, "the language of the start is kept"
    again = paictl("lab", "start", "2")
    assert again.code == 0
    assert "已经开始" in again.out
    assert "第 1 步" in again.out


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
    assert "→ job-2 went to a virtual cluster other than vc1" in paictl("lab", "verify").out


@pytest.mark.usefixtures("in_shell")
def test_a_stale_service_is_named(paictl: Paictl) -> None:
    assert paictl("config", "pull", "-o", "config").code == 0
    services = Path("config/services-configuration.yaml")
    services.write_text(services.read_text().replace("cpu: 8", "cpu: 7"))
    assert paictl("config", "push", "-p", "config", "-y").code == 0
    out = paictl("lab", "verify").out
    assert "note: service hivedscheduler: runs with configuration 1" in out


@pytest.mark.usefixtures("in_shell")
def test_solve_skip_answer_status_and_report(paictl: Paictl) -> None:
    assert "needs its reason" in paictl("lab", "skip").err
    assert paictl("lab", "skip", "--reason", "known").code == 0
    unsolved = paictl("lab", "solve")
    assert "$ paictl job submit job-3.yaml" in unsolved.out
    assert unsolved.code == 1, "job-3 does not wait, because the step before was left out"
    assert "restart with paictl lab reset" in unsolved.out
    paictl("lab", "reset", "-y")
    paictl("lab", "start")
    paictl("lab", "skip", "too-big", "--reason", "known")
    assert "$ paictl job submit job-2.yaml" in paictl("lab", "solve").out
    assert paictl("lab", "answer", "1", "the quota").code == 0
    status = paictl("lab", "status").out
    assert "– too-big" in status
    assert "your answer: the quota" in status
    out = paictl("lab", "solve", "--all").out
    assert "a good answer" in out
    assert paictl("lab", "report", "-o", "r.html", "--name", "Ann").code == 0
    checked = paictl("lab", "check-report", "r.html", "-o", "json")
    assert checked.code == 0
    assert checked.data[0]["inconsistent"] == []
    Path("r.html").write_text(Path("r.html").read_text().replace("the quota", "my quota", 1))
    bad = paictl("lab", "check-report", "r.html")
    assert bad.code == 1
    assert "not consistent" in bad.out


@pytest.mark.usefixtures("in_shell")
def test_verify_gives_data_and_its_exit_code_is_the_answer(paictl: Paictl) -> None:
    data = paictl("lab", "verify", "-o", "json").data
    assert data[0]["findings"] == [
        {"ok": False, "of": "job job-2", "what": "", "expected": "exists", "observed": "no such job"}
    ]
    paictl("job", "submit", "job-2.yaml", "job-3.yaml")
    paictl("lab", "solve", "--all")
    assert paictl("lab", "next").out.startswith("all steps are done")
    done = paictl("lab", "verify", "--watch")
    assert done.code in (0, 1)


@pytest.mark.usefixtures("in_shell")
def test_verify_watches_no_longer_than_its_timeout(paictl: Paictl) -> None:
    watched = paictl("lab", "verify", "--watch", "--timeout", "0")
    assert watched.code == 1
    assert "✗ first-runs" in watched.out


def test_after_a_reset_a_lab_s_shell_keeps_its_language(
    in_shell: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_LAB_SHELL", in_shell.name)
    assert paictl("lab", "language", "zh").code == 0
    assert paictl("lab", "reset", "-y").code == 0
    gone = paictl("job", "list").err
    assert "没有启动的集群" in gone
    assert "提示：开始实验：paictl lab start 02" in gone


@pytest.mark.usefixtures("in_shell")
def test_an_answer_needs_no_quotes(paictl: Paictl) -> None:
    assert paictl("lab", "answer", "1", "the", "quota").code == 0
    assert "your answer: the quota" in paictl("lab", "status").out


@pytest.mark.usefixtures("home")
def test_a_prediction_needs_no_quotes(paictl: Paictl) -> None:
    assert paictl("lab", "start", "17").code == 0
    assert paictl("lab", "predict", "equal", "it", "waits", "--lab", "17").code == 0
    again = paictl("lab", "predict", "equal", "it runs", "--lab", "17").err
    assert "it waits" in again, "what it replaces is shown"


@pytest.mark.usefixtures("home")
def test_lab_03_with_job_2_first_leads_back(paictl: Paictl, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    assert paictl("lab", "start", "3").code == 0
    folder = home / "state" / "labs" / "03_priority_preemption"
    monkeypatch.setenv("PAICTL_STATE", str(folder))
    monkeypatch.chdir(folder / "files")
    paictl("job", "submit", "job-2.yaml")
    paictl("job", "submit", "job-1.yaml", "job-other.yaml")
    paictl("cluster", "tick", "2m")
    done = paictl("lab", "verify").out
    assert "job-2 came before job-1" in done


def test_reset_and_begin_anew_in_the_same_shell(in_shell: Path, paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml")
    Path("notes.txt").write_text("mine")
    assert "paictl lab start 02" in paictl("lab", "reset", "-y").err
    assert list(in_shell.rglob("*")) == [in_shell / "files"], "the folder where the shell stands is there, and empty"
    gone = paictl("job", "list")
    assert gone.code == 4
    assert "paictl lab start 02" in gone.err
    assert "VC safety" in paictl("lab", "start").out, "the lab that was reset, not the first"
    assert "job-2  Running" in paictl("job", "submit", "job-2.yaml").out
    assert "✓ first-runs" in paictl("lab", "verify").out


def test_solve_works_in_a_shell_whose_folder_was_taken_away(in_shell: Path, paictl: Paictl) -> None:
    import shutil

    shutil.rmtree(in_shell)
    assert paictl("lab", "start", "2").code == 0
    assert "job-2  Running" in paictl("lab", "solve").out


@pytest.mark.parametrize("word", ["solve", "shell", "env"])
def test_without_the_folder_of_the_files_a_lab_leads_to_reset(in_shell: Path, paictl: Paictl, word: str) -> None:
    import shutil

    shutil.rmtree(in_shell / "files")
    ended = paictl("lab", word)
    assert ended.code == 2
    assert f"{in_shell}/files: the lab's folder is gone" in ended.err
    assert "paictl lab reset 02" in ended.err
    assert "bug" not in ended.err
    paictl("lab", "reset")
    shutil.rmtree(in_shell)
    paictl("lab", "start")
    assert "job-2  Running" in paictl("lab", "solve").out


@pytest.mark.usefixtures("in_shell")
def test_a_report_without_a_name_is_refused(paictl: Paictl) -> None:
    ended = paictl("lab", "report", "-o", "r.md", "--name", " ")
    assert ended.code == 2
    assert "a report needs your name" in ended.err
    assert not Path("r.md").exists()


@pytest.mark.usefixtures("home")
def test_start_without_a_number_goes_on(paictl: Paictl) -> None:
    assert paictl("lab", "start").out.startswith("01 ")
    assert "this lab was started" in paictl("lab", "start").out
    paictl("lab", "solve", "--all")
    assert paictl("lab", "start").out.startswith("02 ")
    paictl("lab", "reset", "9")
    assert paictl("lab", "start").out.startswith("09 ")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["verify"], 2, ["no lab has been started yet", "paictl lab start 1"]),
        (["answer", "1", "x"], 2, ["no lab has been started yet"]),
        (["report", "-o", "r.html", "--name", "L"], 2, ["nothing to report"]),
        (["report", "-o", "r.pdf", "--name", "L"], 2, ["cannot be written as '.pdf'", ".md, .html, .json"]),
        (["run", "99"], 2, ["no lab '99'", "paictl lab list"]),
        (["start", "--lang", "fr"], 2, ["'fr' is not one of 'en', 'zh'"]),
        (["verify", "--lang", "zh"], 2, ["尚未开始任何实验", "开始：paictl lab start 1"]),
    ],
)
@pytest.mark.usefixtures("home")
def test_before_the_first_lab_every_mistake_leads_on(
    paictl: Paictl, words: list[str], code: int, said: list[str]
) -> None:
    done = paictl("lab", *words)
    assert done.code == code
    assert all(text in done.err for text in said), done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["answer", "99", "x"], ["questions 1 to 2, not 99", "paictl lab status 02"]),
        (["skip"], ["needs its reason", "--reason"]),
        (["skip", "nothing", "--reason", "x"], ["no step or check 'nothing'", "paictl lab status 02"]),
        (["report", "-o", "none/r.html", "--name", "L"], ["none/r.html: cannot be written", "create the folder first"]),
        (["hint", "3"], ["lab 03 has not been started", "paictl lab start 03"]),
    ],
)
@pytest.mark.usefixtures("in_shell")
def test_mistakes_in_a_lab_lead_on(paictl: Paictl, words: list[str], said: list[str]) -> None:
    done = paictl("lab", *words)
    assert done.code == 2
    assert all(text in done.err for text in said), done.err


def test_a_lab_that_was_begun_in_chinese_says_everything_in_chinese(home: Path, paictl: Paictl) -> None:
    paictl("lab", "start", "2", "--lang", "zh")
    assert "的思考题为 1 至 2" in paictl("lab", "answer", "9", "x").err
    assert "已记下实验 02" in paictl("lab", "answer", "1", "x").err
    assert "已重置" in paictl("lab", "reset").err
    assert "目标" in paictl("lab", "start").out, "the language stays"
    assert "已跳过 fill" in paictl("lab", "skip", "--reason", "x").err
    assert "实验的报告已写入" in paictl("lab", "report", "-o", str(home / "r.md"), "--name", "L").err
    assert "实验" in paictl("lab", "list").out
    assert "VC safety" in paictl("lab", "list", "--lang", "en").out


def test_in_chinese_a_stale_or_stopped_service_is_told_in_chinese(
    home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    paictl("lab", "start", "2", "--lang", "zh")
    ground = home / "state" / "labs" / "02_vc_safety"
    monkeypatch.setenv("PAICTL_STATE", str(ground))
    paictl("config", "pull", "-o", str(home))
    services = home / "services-configuration.yaml"
    services.write_text(services.read_text().replace("cpu: 8", "cpu: 7"))
    paictl("config", "push", "-p", str(home), "-y")
    paictl("service", "stop", "-n", "grafana")
    out = paictl("lab", "verify").out
    assert "注意：服务 grafana：已停止；启动：paictl service start -n grafana" in out
    assert (
        "注意：服务 hivedscheduler：仍按配置 1 运行，最新的是 2；加载：paictl service refresh -n hivedscheduler" in out
    )


def test_a_command_outside_the_shell_is_sent_there(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "lab" not in paictl("job", "list").err, "who does no labs hears nothing of them"
    paictl("lab", "start", "2")
    outside = paictl("job", "list")
    assert outside.code == 4
    assert "for lab 02: paictl lab shell 02" in outside.err
    monkeypatch.setenv("PAICTL_STATE", str(home / "state" / "labs" / "02_vc_safety"))
    elsewhere = paictl("job", "submit", "job-2.yaml")
    assert "lab: job-2.yaml is in the lab's folder, not here: cd " in elsewhere.err


def test_paictl_is_found_in_the_shell_however_it_was_called(
    home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    paictl("lab", "start", "2")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    lines = paictl("lab", "env").out.splitlines()
    script = "\n".join([*lines, "paictl job submit job-2.yaml && paictl lab verify"])
    done = subprocess.run(["/bin/sh", "-c", script], cwd=home, capture_output=True, text=True, check=False)
    assert "job-2  Running" in done.stdout
    assert "✓ first-runs" in done.stdout
    assert "continue: paictl lab next" in done.stdout
    monkeypatch.setenv("SHELL", "/usr/bin/env")
    assert paictl("lab", "shell").code == 0
    (home / "bin").mkdir()
    (home / "bin" / "paictl").write_text("#!/bin/sh\n")
    (home / "bin" / "paictl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/bin:/usr/bin:/bin")
    assert "PATH" not in paictl("lab", "env").out, "the paictl of the student's PATH stays"


@pytest.mark.usefixtures("home")
def test_in_the_shell_commands_stay_in_the_lab_whatever_cluster_was_exported(
    tmp_path: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    paictl("lab", "start", "2")
    program = tmp_path / "shell"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -m paictl job submit job-2.yaml > {tmp_path}/said 2>&1\n")
    program.chmod(0o755)
    monkeypatch.setenv("SHELL", str(program))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    monkeypatch.setenv("PAICTL_CLUSTER", "prod")
    ended = paictl("lab", "shell", "2")
    assert (ended.code, "job-2  Running" in (tmp_path / "said").read_text()) == (0, True)


@pytest.mark.usefixtures("in_shell")
def test_a_name_that_is_taken_leads_to_reset(paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml", "--vc", "default")
    again = paictl("job", "submit", "job-2.yaml")
    assert again.code == 2
    assert "to submit it again under its name, go back to the start of its step: paictl lab reset --step 1" in again.err


@pytest.mark.usefixtures("home")
def test_the_language_of_a_shell_is_that_of_its_commands(paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/env")
    paictl("lab", "start", "2")
    assert paictl("lab", "shell", "2", "--lang", "zh").code == 0
    assert "第 1 步" in paictl("lab", "next", "2").out


@pytest.mark.usefixtures("in_shell")
def test_a_taken_name_leads_to_the_step_of_the_job(paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml")
    paictl("job", "submit", "job-3.yaml", "--vc", "default")
    again = paictl("job", "submit", "job-3.yaml")
    assert "go back to the start of its step: paictl lab reset --step 2" in again.err


@pytest.mark.usefixtures("in_shell")
def test_a_job_that_was_stopped_is_not_called_done(paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml")
    assert "its step is done; continue" in paictl("job", "submit", "job-2.yaml").err
    paictl("job", "stop", "job-2")
    again = paictl("job", "submit", "job-2.yaml").err
    assert "lab: that job was stopped, and a name can be used only once" in again
    assert "paictl lab reset --step 2" in again


def test_what_the_last_command_said_is_said_again(in_shell: Path, paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml", "--vcc", "x")
    out = paictl("lab", "verify").out
    assert "your last command was refused: paictl job submit job-2.yaml --vcc x" in out
    assert "no such option: --vcc" in out
    paictl("job", "stop", "jobb")
    assert in_shell.is_dir()
    out = paictl("lab", "verify").out
    assert "paictl job stop jobb" in out
    assert "understood" not in out


def test_the_last_hint_and_the_end_say_how_to_go_on(
    in_shell: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_LAB_SHELL", "02_vc_safety")
    assert "that was the last hint" in paictl("lab", "hint").out
    assert "first leave this shell: exit; then work in it: paictl lab shell 03" in paictl("lab", "start", "3").out
    assert (in_shell.parent / "03_priority_preemption" / "lab.json").is_file()
    paictl("lab", "solve", "--all")
    assert "first leave this shell: exit; then next lab: paictl lab start 03" in paictl("lab", "next").out
    monkeypatch.delenv("PAICTL_LAB_SHELL")
    assert "exit" not in paictl("lab", "next").out, "that would close the terminal of who took paictl lab env"


def test_in_the_shell_of_a_lab_nobody_is_sent_into_it_again(
    in_shell: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_LAB_SHELL", "02_vc_safety")
    monkeypatch.setenv("SHELL", "/bin/false")
    again = paictl("lab", "shell")
    assert again.code == 0, "no shell was opened: that one would have ended with 1"
    assert f"this is already the shell of lab 02; its files are in {in_shell}/files" in again.err
    paictl("lab", "reset")
    out = paictl("lab", "start").out
    assert "step 1 of 5" in out
    assert "lab shell" not in out
    paictl("lab", "start", "3")
    other = paictl("lab", "shell", "3")
    assert other.code == 2, "no shell opens in a shell"
    assert "type exit, then: paictl lab shell 03" in other.err


def test_a_service_that_the_lab_stops_is_not_to_be_started(
    home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch
) -> None:
    paictl("lab", "start", "16")
    ground = home / "state" / "labs" / "16_explain"
    monkeypatch.setenv("PAICTL_STATE", str(ground))
    monkeypatch.chdir(ground / "files")
    five = [f"job-{letter}.yaml" for letter in "abcde"]
    paictl("job", "submit", "hold-1.yaml", "hold-2.yaml", "hold-3.yaml")
    paictl("node", "fail", "worker5")
    paictl("job", "submit", *five)
    paictl("service", "stop", "-n", "hivedscheduler", "grafana")
    out = paictl("lab", "verify").out
    assert "The scheduler was stopped after the jobs had come" in out
    assert "paictl service start -n grafana" in out
    assert "paictl service start -n hivedscheduler" not in out, "this step wants it stopped"
    paictl("lab", "skip", "--reason", "wrong order")
    assert "paictl service start -n hivedscheduler" in paictl("lab", "verify").out, "the next one wants it to run"


@pytest.mark.usefixtures("in_shell")
def test_a_second_try_of_what_is_done_is_not_scolded(paictl: Paictl) -> None:
    paictl("job", "submit", "job-2.yaml")
    again = paictl("job", "submit", "job-2.yaml")
    assert "its step is done" in again.err
    assert "reset" not in again.err.partition("lab:")[2]


@pytest.mark.usefixtures("in_shell")
def test_reset_asks_as_soon_as_something_was_typed(paictl: Paictl) -> None:
    paictl("job", "list")
    refused = paictl("lab", "reset", "--no-input")
    assert refused.code == 2
    assert "0 of 5 checks have passed" in refused.err
    assert paictl("lab", "verify").code == 1, "the lab is still there"


@pytest.mark.usefixtures("in_shell")
def test_hints_are_those_of_the_step_one_is_at(paictl: Paictl) -> None:
    assert "step 1, hint 1" in paictl("lab", "hint").out
    paictl("job", "submit", "job-2.yaml", "--priority", "prod")
    assert "step 2" in paictl("lab", "hint").out, "the check of step 1 has passed"


@pytest.mark.usefixtures("home")
def test_the_language_of_one_lab_is_not_that_of_another(paictl: Paictl) -> None:
    paictl("lab", "start", "2")
    assert "目标" in paictl("lab", "start", "4", "--lang", "zh").out
    assert "step 1" in paictl("lab", "next", "2").out
    assert "第 1 步" in paictl("lab", "next", "4").out
    paictl("lab", "language", "en")
    assert "step 1" in paictl("lab", "next", "4").out, "what is chosen for all holds for all"


def test_a_refusal_in_a_chinese_lab_is_chinese(home: Path, paictl: Paictl, monkeypatch: pytest.MonkeyPatch) -> None:
    paictl("lab", "start", "2", "--lang", "zh")
    ground = home / "state" / "labs" / "02_vc_safety"
    monkeypatch.setenv("PAICTL_STATE", str(ground))
    monkeypatch.chdir(ground / "files")
    unknown = paictl("job", "submit", "job-2.yaml", "--vc", "vc12").err
    assert "没有虚拟集群 vc12" in unknown
    assert "你是否想写 'vc1'？虚拟集群：default, vc1" in unknown
    too_big = paictl("job", "submit", "job-big.yaml").err
    assert "永远无法运行：" in too_big
    assert "leaf cells" not in too_big
    assert "其他地方也放不下" in too_big or "虚拟集群 vc1" in too_big
