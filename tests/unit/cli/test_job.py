from __future__ import annotations

from pathlib import Path

import pytest

from paictl.cluster.embedded.store import FILE
from tests.unit.cli.conftest import Paictl

JOB = """\
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{name: image, type: dockerimage, uri: openpai/standard}}
taskRoles:
  train:
    dockerImage: image
    resourcePerInstance: {{cpu: 2, memoryMB: 4096, gpu: 1}}
    commands: [sleep 5m]
defaults: {{virtualCluster: {vc}}}
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paictl: Paictl) -> Path:
    """A cluster, and a folder with two jobs and a file that is none."""
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name, vc in (("a", "default"), ("b", "vc1")):
        (folder / f"{name}.yaml").write_text(JOB.format(name=name, vc=vc), encoding="utf-8")
    (folder / "README.md").write_text("no job", encoding="utf-8")
    assert paictl("cluster", "up", "--speed", "0").code == 0
    return folder


def keys(paictl: Paictl, *words: str) -> list[str]:
    return [job["key"] for job in paictl("job", "list", "-o", "json", *words).data]


def test_what_is_most_likely_a_mistake_is_told_once_and_the_job_submitted(paictl: Paictl, jobs: Path) -> None:
    with (jobs / "a.yaml").open("a", encoding="utf-8") as file:
        file.write("extras: {gangallocation: false, hivedScheduler: {skuType: V100}}\n")
    done = paictl("job", "submit", str(jobs / "a.yaml"), "--repeat", "2", "--user", "me")
    assert (done.code, done.out) == (0, "me~a-1  Running\nme~a-2  Waiting\n")
    said = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert len(said) == 2, done.err
    assert "a.yaml:12:10: extras has a key 'gangallocation'" in said[0]
    assert "did you mean 'gangAllocation'?" in said[0]
    assert "[SHP104]" in said[1]
    assert "warning" not in paictl("--quiet", "job", "submit", str(jobs / "a.yaml"), "--name", "other").err


def test_one_command_cannot_submit_two_jobs_of_a_name(paictl: Paictl, jobs: Path) -> None:
    path = str(jobs / "a.yaml")
    done = paictl("job", "submit", path, path, "--user", "me")
    assert done.code == 2
    assert "a.yaml: job 'a' is submitted twice by this command; it also comes from" in " ".join(done.err.split())
    assert "rename it" in done.err
    (jobs / "b.yaml").write_text(JOB.format(name="a-2", vc="vc1"), encoding="utf-8")
    done = paictl("job", "submit", str(jobs), "--repeat", "2", "--user", "me")
    assert done.code == 0, "a-1, a-2, a-2-1, a-2-2"
    (jobs / "b.yaml").write_text(JOB.format(name="a", vc="vc1"), encoding="utf-8")
    done = paictl("job", "submit", path, str(jobs / "b.yaml"), "--user", "me")
    assert (done.code, f"it also comes from {path}" in done.err) == (2, True)
    assert keys(paictl) == ["me~a-1", "me~a-2", "me~a-2-1", "me~a-2-2"], "nothing was half submitted"


def test_events_of_a_job_are_found_by_the_name_that_job_show_takes(paictl: Paictl, jobs: Path) -> None:
    assert paictl("job", "submit", str(jobs / "a.yaml"), "--user", "me").code == 0
    long, short = (paictl("cluster", "events", "--subject", f"job/{name}") for name in ("me~a", "a"))
    assert "Submitted" in long.out
    assert (short.code, short.out) == (0, long.out)
    done = paictl("cluster", "events", "--subject", "job/nobody")
    assert (done.code == 0, "nobody" in done.err) == (False, True)
    assert paictl("cluster", "events", "--subject", "node/worker1").code == 0


def test_a_folder_stands_for_all_jobs_in_it(paictl: Paictl, jobs: Path) -> None:
    assert paictl("job", "submit", str(jobs), "--user", "me").out == "me~a  Running\nme~b  Running\n"
    done = paictl("job", "submit", str(jobs), "--name", "c")
    assert (done.code, "contains 2 jobs" in done.err) == (2, True)
    (jobs / "a.yaml").unlink()
    (jobs / "b.yaml").unlink()
    assert "this folder contains no job file" in paictl("job", "submit", str(jobs)).err


def test_a_wrong_option_is_not_looked_for_in_the_file(paictl: Paictl, jobs: Path) -> None:
    done = paictl("job", "submit", str(jobs), "--vc", "vc9")
    assert (done.code, done.err.splitlines()[0]) == (2, "error: --vc: no virtual cluster vc9")


def test_all_jobs_are_taken_or_none(paictl: Paictl, jobs: Path) -> None:
    (jobs / "c.yaml").write_text(JOB.format(name="c", vc="vc9"), encoding="utf-8")
    done = paictl("job", "submit", str(jobs))
    assert done.code == 2
    assert "no virtual cluster vc9" in done.err
    assert "did you mean" in done.err
    assert keys(paictl) == []


def test_a_list_shows_only_what_was_asked_for(paictl: Paictl, jobs: Path) -> None:
    paictl("job", "submit", str(jobs), "--user", "me", "--repeat", "2")
    assert keys(paictl) == ["me~a-1", "me~a-2", "me~b-1", "me~b-2"]
    assert keys(paictl, "--vc", "vc1") == ["me~b-1", "me~b-2"]
    assert keys(paictl, "-s", "waiting") == ["me~a-2", "me~b-2"]
    assert keys(paictl, "-s", "waiting", "-s", "running", "--vc", "default") == ["me~a-1", "me~a-2"]
    assert keys(paictl, "--user", "you") == []
    done = paictl("job", "list", "-s", "waitin")
    assert (done.code, "did you mean 'Waiting'?" in done.err) == (2, True)
    assert "0/1" in next(line for line in paictl("job", "list").out.splitlines() if "Waiting" in line)


def test_stopping_says_what_became_of_each_job(paictl: Paictl, jobs: Path) -> None:
    paictl("job", "submit", str(jobs), "--user", "me")
    assert paictl("job", "stop", "me~a").err == "job me~a stopped\n"
    done = paictl("job", "stop", "me~a", "me~b")
    assert (done.code, done.err) == (0, "job me~a has already ended (Stopped)\njob me~b stopped\n")
    done = paictl("job", "stop", "me~a", "you~a")
    assert (done.code, "did you mean me~a?" in done.err) == (3, True)
    assert paictl("job", "stop", "nobody~x").code == 2
    paictl("job", "submit", str(jobs), "--user", "you")
    paictl("service", "stop", "-n", "rest-server")
    assert paictl("job", "stop", "you~a").code == 4


def test_a_layout_alone_is_enough(paictl: Paictl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paictl.cluster.presets import LAYOUT, preset_files

    (tmp_path / LAYOUT).write_text(preset_files("dgx2")[LAYOUT], encoding="utf-8")
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    done = paictl("cluster", "up", "--layout", str(tmp_path / LAYOUT))
    assert "each kind of worker gets its own VC" in done.err
    assert "3 nodes, 32 devices" in done.err
    assert "13 running" in paictl("cluster", "status").out


def test_what_cannot_come_up_leaves_nothing(paictl: Paictl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paictl.cluster.presets import LAYOUT, SERVICES, preset_files

    files = preset_files("lab")
    (tmp_path / LAYOUT).write_text(files[LAYOUT], encoding="utf-8")
    (tmp_path / SERVICES).write_text(files[SERVICES].partition("hivedscheduler:")[0], encoding="utf-8")
    monkeypatch.setenv("PAICTL_STATE", str(tmp_path / "state"))
    done = paictl("cluster", "up", "--layout", str(tmp_path / LAYOUT))
    assert (done.code, "hivedscheduler" in done.err) == (2, True)
    assert not (tmp_path / "state" / FILE).exists()


@pytest.mark.usefixtures("jobs")
def test_a_node_is_added_like_another_and_said_to_be_in_no_cell(paictl: Paictl) -> None:
    done = paictl("node", "add", "worker3", "--address", "10.0.1.3", "--like", "worker1")
    assert "in no cell of the scheduler's configuration" in done.err
    assert "gpu-machine, 8 cores, 32 GiB" in paictl("node", "show", "worker3").out
    assert "note: worker3: in no cell" in paictl("cluster", "status").out
    assert paictl("node", "add", "w4", "--address", "10.0.1.4", "--sku", "X=gpu:3,cpu:9,memory:64Gi").code == 0
    assert "devices:  0 of 3 in use (nvidia.com/gpu)" in paictl("node", "show", "w4").out
    assert "did you mean 'worker3'?" in paictl("node", "add", "w5", "--address", "10.0.1.5", "--like", "worker33").err
    assert paictl("node", "add", "w5", "--address", "10.0.1.3", "--like", "w4").code == 2
    assert "specify what the machine has" in paictl("node", "add", "w5", "--address", "10.0.1.5").err


def test_a_list_for_a_virtual_cluster_that_nobody_knows_is_refused(paictl: Paictl, jobs: Path) -> None:
    assert paictl("job", "list", "--vc", "vc1").code == 0, "it is there, and has no jobs"
    done = paictl("job", "list", "--vc", "defalt")
    assert (done.code, "did you mean 'default'?" in done.err) == (2, True)
    paictl("job", "submit", str(jobs / "a.yaml"), "--user", "me")
    assert paictl("job", "list", "--vc", "vc9").code == 2


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n"])
def test_nothing_that_was_submitted_is_not_a_success(paictl: Paictl, jobs: Path, text: str) -> None:
    (jobs / "a.yaml").write_text(text, encoding="utf-8")
    assert paictl("job", "submit", str(jobs / "a.yaml")).code == 2
    assert keys(paictl) == []


def test_a_job_of_somebody_else_is_shown_by_its_name_alone_and_never_stopped_so(paictl: Paictl, jobs: Path) -> None:
    paictl("job", "submit", str(jobs / "a.yaml"), "--user", "bob")
    assert paictl("job", "show", "a").out.startswith("job bob~a: Running")
    assert paictl("job", "stop", "a").code == 2
    paictl("job", "submit", str(jobs / "a.yaml"), "--user", "eve")
    assert "did you mean bob~a, eve~a?" in paictl("job", "show", "a").err


def test_text_and_data_count_attempts_alike_and_times_are_dates(paictl: Paictl, jobs: Path) -> None:
    paictl("job", "submit", str(jobs / "a.yaml"), "--user", "me")
    data = paictl("job", "show", "me~a", "-o", "json").data
    assert "attempt 1" in paictl("job", "show", "me~a").out
    assert (data["attempt"], data["tasks"][0]["attempt"]) == (1, 1)
    status = paictl("cluster", "status", "-o", "json").data
    assert data["submitted"] == data["started"] == status["epoch"]
    assert status["epoch"].endswith("Z")
    assert (status["upSeconds"], status["speed"], status["devices"]) == (0.0, 0.0, {"used": 1, "total": 2})


def test_repeat_is_bounded(paictl: Paictl, jobs: Path) -> None:
    done = paictl("job", "submit", str(jobs / "a.yaml"), "--repeat", "1000000000")
    assert (done.code, "is too large" in done.err) == (2, True)
    done = paictl("job", "submit", str(jobs), "--repeat", "20000")
    assert (done.code, "more than 20000 jobs" in done.err) == (2, True)


def test_a_limit_is_shown_in_list_and_job_and_lists_without_one_have_no_column(paictl: Paictl, jobs: Path) -> None:
    assert paictl("job", "submit", str(jobs / "a.yaml"), "--user", "me").code == 0
    assert "MAX RUN TIME" not in paictl("job", "list").out
    with (jobs / "b.yaml").open("a", encoding="utf-8") as file:
        file.write("extras: {maxRunTime: 2m}\n")
    done = paictl("job", "submit", str(jobs / "b.yaml"), "--user", "me")
    assert (done.code, done.err) == (0, "")
    rows = paictl("job", "list", "-o", "wide").out.splitlines()
    assert rows[0].endswith("MAX RUN TIME")
    assert [row.split()[-1] for row in rows[1:]] == ["-", "2m"]
    assert "at the latest (maxRunTime 2m)" in paictl("job", "show", "me~b").out
    assert paictl("job", "show", "me~b", "-o", "json").data["max_run_time"] == 120_000
    paictl("cluster", "tick", "2m")
    assert paictl("job", "show", "me~b").out.splitlines()[0] == (
        "job me~b: Stopped, ran longer than its maxRunTime of 2m"
    )


def test_a_limit_that_is_no_time_is_refused_with_its_line(paictl: Paictl, jobs: Path) -> None:
    with (jobs / "b.yaml").open("a", encoding="utf-8") as file:
        file.write("extras: {maxRunTime: soon}\n")
    done = paictl("job", "submit", str(jobs / "b.yaml"))
    assert done.code != 0
    assert "b.yaml:12:22" in done.out + done.err
