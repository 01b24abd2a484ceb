"""`paictl sim what-if`: a month of jobs under two configurations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paictl.cli.main import run
from paictl.cluster.targets import open_target
from tests.unit.cli.conftest import Paictl

NODES = ", ".join(f"{{cellAddress: n{number}}}" for number in range(4))
CONFIG = """physicalCluster:
  cellTypes:
    NODE: {{childCellType: GPU, childCellNumber: 2, isNodeLevel: true}}
    POOL: {{childCellType: NODE, childCellNumber: 4}}
  physicalCells:
  - cellType: POOL
    cellChildren: [{nodes}]
virtualClusters:
  a: {{virtualCells: [{{cellType: POOL.NODE, cellNumber: {a}}}]}}
  b: {{virtualCells: [{{cellType: POOL.NODE, cellNumber: {b}}}]}}
"""
# a has four jobs of two devices at once, b one: with 2 nodes for each, two jobs of a wait for ten seconds
JOBS = "id,submit,gpus,duration,vc\n" + "".join(f"a{n},0,2,10,a\n" for n in range(4)) + "b0,0,2,10,b\nb1,1,2,10,b\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "jobs.csv").write_text(JOBS)
    for name, (a, b) in {"old": (2, 2), "new": (3, 1), "same": (2, 2), "bad": (3, 2)}.items():
        (tmp_path / f"{name}.yaml").write_text(CONFIG.format(nodes=NODES, a=a, b=b))
    return tmp_path


def words(files: Path, old: str, new: str, *more: str) -> list[str]:
    return [
        "sim",
        "what-if",
        str(files / "jobs.csv"),
        "--config",
        str(files / f"{old}.yaml"),
        "--config",
        str(files / f"{new}.yaml"),
        *more,
    ]


def test_who_gains_who_loses_and_which_jobs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words(files, "old", "new", "-o", "json", "--reproducible")) == 0
    text = capsys.readouterr().out
    data = json.loads(text)
    a, b = data["tenants"]
    assert (a["vc"], a["jobs"], a["promised_before"], a["promised_after"]) == ("a", 4, 4, 6)
    assert (a["mean_waiting_before"], a["mean_waiting_after"]) == (5.0, 2.5)
    assert (a["less"], a["more"], a["same"]) == (1, 0, 3)
    assert a["gained"] == [{"id": "a2", "gpus": 2, "waiting_before": 10.0, "waiting_after": 0.0}]
    assert (b["less"], b["more"], b["mean_waiting_before"], b["mean_waiting_after"]) == (0, 1, 0.0, 4.5)
    assert [job["id"] for job in b["lost"]] == ["b1"]
    assert (data["old"]["policy"], data["new"]["jobs"]) == ("hived", 6)
    assert run(words(files, "old", "new", "-o", "json", "--reproducible")) == 0
    assert capsys.readouterr().out == text


def test_time_without_devices_counts_after_the_first_start_too(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "jobs.csv").write_text(
        "id,submit,gpus,duration,vc,share\no,0,8,10,a,opportunistic\ng,1,2,5,b,guaranteed\n"
    )
    assert run(words(files, "old", "new", "-o", "json")) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["old"]["preemptions"] == 1
    assert [row["mean_waiting_before"] for row in data["tenants"]] == [5.0, 0.0]


def test_it_says_so_in_words_and_files(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words(files, "old", "new", "--jobs", str(files / "j.csv"), "--html", str(files / "p.html"))) == 0
    captured = capsys.readouterr()
    assert "shorter mean wait: a; longer: b" in captured.err
    assert "4 > 6" in captured.out
    assert (files / "j.csv").read_text().count("\n") == 13
    assert "<!doctype html>" in (files / "p.html").read_text()
    assert run(words(files, "old", "same")) == 0
    assert "shorter mean wait: no tenant; longer: no tenant" in capsys.readouterr().err


@pytest.mark.parametrize("pair", [("old", "bad"), ("bad", "old")])
def test_quotas_that_do_not_fit_are_refused_with_the_finding(
    pair: tuple[str, str], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words(files, *pair)) == 1
    captured = capsys.readouterr()
    assert "quota-exceeds-cluster" in captured.out
    assert f"{files / 'bad.yaml'}: was not simulated: it has errors" in captured.err
    assert "MEAN WAIT" not in captured.out


def test_both_meet_the_same_failures(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At one second n2 and n3 fail: the old configuration runs a job there, the new one two."""
    log = files / "log.csv"
    log.write_text("node,start,end\nn2,1,100\nn3,1,100\n")
    assert run(words(files, "old", "new", "--failures", str(log), "-o", "json")) == 0
    data = json.loads(capsys.readouterr().out)
    for side in ("old", "new"):
        assert data[side]["failures"] == str(log)
        assert data[side]["down"] > 0.4
    assert [data[side]["interruptions"] for side in ("old", "new")] == [1, 2]
    assert run(words(files, "old", "new", "--failures", "node=60s,repair=5s", "--seed", "3", "-o", "json")) == 0
    drawn = json.loads(capsys.readouterr().out)
    assert (drawn["old"]["seed"], drawn["new"]["seed"]) == (3, 3)
    assert run(words(files, "old", "new", "--failures", str(log))) == 0
    assert "interruptions" in capsys.readouterr().out


def test_failures_of_other_nodes_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "log.csv").write_text("node,start,end\nx9,1,100\n")
    assert run(words(files, "old", "new", "--failures", str(files / "log.csv"))) == 2
    assert "no node 'x9'" in capsys.readouterr().err


def test_a_trace_of_which_no_job_fits_is_refused_before_a_run(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.sim.parallel.simulate", None)
    (files / "jobs.csv").write_text("id,gpus,submit,duration,vc\n" + "".join(f"a{n},60,2,10,a\n" for n in range(9)))
    assert run(words(files, "old", "new")) == 2
    err = capsys.readouterr().err
    assert "no job fits on" in err
    assert "two may be swapped" in err


def test_jobs_of_nobody_are_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "jobs.csv").write_text(JOBS + "c0,0,1,5,c\n")
    assert run(words(files, "old", "new")) == 0
    assert "promises nothing to 'c': 1 of their jobs run as opportunistic" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [((), "needs two configurations"), (("--config", "x.yaml", "--config", "y.yaml"), "with --from-cluster")],
)
def test_wrong_usage_is_refused(more: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "what-if", *more]) == 2
    assert said in capsys.readouterr().err


def test_the_jobs_of_a_cluster_are_its_history(
    home: Path, paictl: Paictl, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(home / "state"))
    assert paictl("cluster", "up", "--preset", "lab").code == 0
    job = files / "job.yaml"
    job.write_text(
        "protocolVersion: 2\nname: one\ntype: job\nprerequisites:\n- {name: i, type: dockerimage, uri: x}\n"
        "taskRoles:\n  t: {instances: 1, dockerImage: i, resourcePerInstance: {gpu: 1, cpu: 1, memoryMB: 1}, "
        "commands: [sleep 60]}\n"
    )
    none = paictl("sim", "what-if", "--from-cluster", *words(files, "old", "new")[3:])
    assert (none.code, "none of its jobs has ended yet" in none.err) == (2, True)
    assert paictl("job", "submit", str(job)).code == 0
    assert paictl("cluster", "tick", "2m").code == 0
    job.write_text(job.read_text().replace("name: one", "name: two"))
    assert paictl("job", "submit", str(job)).code == 0
    done = paictl("sim", "what-if", "--from-cluster", *words(files, "old", "new", "-o", "json")[3:])
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert (data["old"]["jobs"], data["old"]["trace"]["jobs"], data["old"]["mean_jct"]) == (1, 1, 60.0)
    assert "two: is running, its duration is not known" in done.err
    one = paictl("sim", "what-if", "--from-cluster", "--config", str(files / "new.yaml"), "-o", "json")
    assert one.code == 0, one.err
    data = json.loads(one.out)
    assert [data[side]["cluster"] for side in ("old", "new")] == ["configuration 1", str(files / "new.yaml")]
    assert [row["vc"] for row in data["tenants"]] == ["a", "b", "default", "vc1"]
    assert "what was pushed promises nothing" not in one.err
    assert "forgets" not in one.err, "what ran here stays"


def test_the_cluster_can_be_named(home: Path, paictl: Paictl, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAICTL_STATE", str(home / "state"))
    new = ("--config", str(files / "new.yaml"))
    assert paictl("cluster", "up", "--preset", "lab").code == 0
    here = paictl("sim", "what-if", "--from-cluster", "local", *new)
    assert (here.code, "none of its jobs has ended yet" in here.err) == (2, True)
    said = {
        ("--from-cluster", "lokal"): "no cluster 'lokal'",
        ("--from-cluster", str(files / "jobs.csv")): "is a file, not a cluster",
        ("--from-cluster", "local", "--cluster", "prod"): "--from-cluster names local, but another option names prod",
        (
            "--from-cluster",
            "prod",
            "--state",
            str(home / "state"),
        ): "--from-cluster names prod, but another option names local",
        (str(files / "jobs.csv"),): "what-if needs two configurations",
    }
    for given, error in said.items():
        refused = paictl("sim", "what-if", *given, *new)
        assert (refused.code, error in refused.err) == (2, True), refused.err


def test_a_pushed_configuration_with_errors_is_refused(home: Path, paictl: Paictl, files: Path) -> None:
    assert paictl("cluster", "up", "--preset", "lab").code == 0
    hived = "".join(f"    {line}\n" for line in (files / "bad.yaml").read_text().splitlines())
    written = {"services-configuration.yaml": f"hivedscheduler:\n  config: |\n{hived}"}
    open_target("local", folder=home / "state").push(written, "past the checks of paictl config push")
    done = paictl("sim", "what-if", "--from-cluster", "--config", str(files / "new.yaml"))
    assert (done.code, "quota-exceeds-cluster" in done.out) == (1, True)
    assert "configuration 2: was not simulated: it has errors" in done.err
