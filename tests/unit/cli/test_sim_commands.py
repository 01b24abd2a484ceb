"""The commands of `paictl sim`: what they print, write and refuse."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from paictl.cli.main import run
from tests.conftest import OTHER_PYTHON, ROOT

FIELDS = {
    "policy",
    "parameters",
    "trace",
    "cluster",
    "seed",
    "jobs",
    "unfinished",
    "mean_jct",
    "p50_jct",
    "p95_jct",
    "p99_jct",
    "mean_queueing",
    "mean_waiting",
    "makespan",
    "preemptions",
    "migrations",
    "utilization",
    "fragmentation",
    "wall_seconds",
}
"""What simulator.md names."""

SMALL = """id,submit,gpus,duration,vc,deadlines,urge
a,0,2,2,x,3=10,strict
b,0,1,8,x,,
c,0,2,6,y,5=10,strict
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.csv"
    path.write_text(SMALL, encoding="utf-8")
    return path


def out(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert run(["sim", *map(str, words)]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_a_run_has_the_fields_that_are_promised_in_seconds(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, "run", small, "--policy", "fifo", "--cluster", "1x2", "-o", "json"))
    assert data.keys() >= FIELDS
    assert data["policy"] == "fifo"
    assert data["parameters"]["placement"] == "count"
    assert data["trace"]["path"] == str(small)
    assert (len(data["trace"]["sha256"]), data["trace"]["jobs"]) == (64, 3)
    assert (data["cluster"], data["devices"], data["seed"]) == ("1x2", 2, 0)
    # a from 0 to 2, b from 2 to 10, c from 10 to 16
    assert (data["jobs"], data["unfinished"], data["makespan"]) == (3, 0, 16.0)
    assert (data["mean_jct"], data["p50_jct"], data["mean_queueing"], data["mean_waiting"]) == (28 / 3, 10.0, 4.0, 4.0)
    assert (data["preemptions"], data["migrations"]) == (0, 0)
    assert data["utilization"] == (4 + 8 + 12) / 32
    assert (data["deadline_misses"], data["weighted_miss"], data["slo_jct"], data["best_effort_jct"]) == (1, 0.5, 9, 10)
    assert data["wall_seconds"] > 0
    assert [(row["name"], row["jobs"]) for row in data["tenants"]] == [("x", 2), ("y", 1)]
    assert yaml.safe_load(out(capsys, "run", small, "--policy", "fifo", "--cluster", "1x2", "-o", "yaml"))["jobs"] == 3


def test_where_there_are_no_deadlines_nothing_is_said_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, "run", "tiny", "--policy", "fifo", "--cluster", "4x8", "-o", "json"))
    assert data.keys().isdisjoint({"deadline_misses", "weighted_miss", "admitted", "delay_causes", "conflicts"})


def test_jobs_events_and_page_are_written(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs, events, html = (tmp_path / name for name in ("j.csv", "e.jsonl", "p.html"))
    words = ("run", small, "--policy", "srtf", "--cluster", "1x2", "--jobs", jobs, "--events", events, "--html", html)
    out(capsys, *words)
    rows = {row["id"]: row for row in csv.DictReader(jobs.read_text(encoding="utf-8").splitlines())}
    assert list(rows) == ["a", "b", "c"]
    assert [rows["c"][name] for name in ("jct", "first_start", "end", "ending")] == ["8", "2", "8", "passed"]
    lines = [json.loads(line) for line in events.read_text(encoding="utf-8").splitlines()]
    assert lines[0] == {"time": 0.0, "what": "submit", "job": "a"}
    assert {"time": 2.0, "what": "start", "job": "c", "devices": [0, 1]} in lines
    assert "Content-Security-Policy" in html.read_text(encoding="utf-8")
    first = [path.read_bytes() for path in (jobs, events, html)]
    out(capsys, *words)
    assert [path.read_bytes() for path in (jobs, events, html)] == first


@pytest.mark.skipif(OTHER_PYTHON is None, reason="there is no other Python here: make test-lowest")
def test_another_python_gives_the_same_bytes() -> None:
    script = (
        "import sys; sys.path.insert(0, '.')\n"
        "from paictl.sim.report import compared, events_jsonl, jobs_csv\n"
        "from paictl.sim.simulate import simulate\n"
        "from paictl.sim.cluster import homogeneous\n"
        "from paictl.sim.traces.load import load\n"
        "jobs = load('tenants').jobs\n"
        "for policy in ('fifo:placement=consolidate', 'srtf', 'las', 'gittins'):\n"
        "    run = simulate(jobs, homogeneous(8, 8), policy, log=True)\n"
        "    print(jobs_csv([run]), *events_jsonl(run), compared(load('tenants'), [run]).figures)\n"
    )
    found = [
        subprocess.run([python, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for python in (sys.executable, str(OTHER_PYTHON))
    ]
    assert len(found[0]) > 100_000
    assert found[0] == found[1]


def test_a_comparison_is_the_same_with_any_number_of_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for processes in (1, 2):
        jobs, html = tmp_path / f"{processes}.csv", tmp_path / f"{processes}.html"
        text = out(
            capsys,
            "compare",
            "tiny",
            "--policy",
            "fifo",
            "--policy",
            "backfill",
            "--policy",
            "srtf",
            "--cluster",
            "2x8",
            "--cluster",
            "3x8",
            "--processes",
            processes,
            "--jobs",
            jobs,
            "--html",
            html,
            "-o",
            "json",
            "--reproducible",
        )
        found.append((text, jobs.read_bytes(), html.read_bytes()))
    assert found[0] == found[1]
    data = json.loads(found[0][0])
    assert [(one["label"], one["cluster"]) for one in data["runs"]] == [
        (f"{policy} on {cluster}", cluster) for cluster in ("2x8", "3x8") for policy in ("fifo", "backfill", "srtf")
    ]
    assert all(one.keys() >= FIELDS and one["wall_seconds"] is None for one in data["runs"])
    # three pairs in each cluster, and each policy in both
    assert len(data["pairs"]) == 9
    for pair in data["pairs"]:
        assert pair["better"] + pair["worse"] + pair["same"] + pair["unpaired"] == 40


def test_differences_are_paired_and_told_in_both_directions(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--policy", "fifo", "--policy", "srtf", "--cluster", "1x2")
    data = json.loads(out(capsys, "compare", small, *words, "-o", "json"))
    # srtf: c from 2 to 8 instead of 10 to 16, b from 8 to 16 instead of 2 to 10
    (pair,) = data["pairs"]
    assert (pair["first"], pair["second"]) == ("fifo", "srtf")
    assert (pair["better"], pair["mean_gain"], pair["worse"], pair["mean_loss"], pair["same"]) == (1, 8.0, 1, 6.0, 1)
    assert pair["mean_difference"] == pytest.approx(-2 / 3)
    assert data["warnings"] == []
    text = out(capsys, "compare", small, *words)
    assert data["runs"][0]["trace"]["sha256"][:12] in text
    assert "seed 0" in text


def test_a_comparison_shows_repairs_where_any_run_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, log, cluster, jobs = (tmp_path / name for name in ("trace.csv", "log.csv", "cluster.yaml", "jobs.csv"))
    trace.write_text("id,submit,gpus,duration,vc,pod,restart\ngang,0,6,6000,a,2,member\n", encoding="utf-8")
    log.write_text("node,device,start,end\ngpu-2,,2100,30000\n", encoding="utf-8")
    cluster.write_text(
        yaml.safe_dump({"cluster": [{"name": "gpu", "nodes": 6, "devices": 2}], "quotas": {"a": 8}}), encoding="utf-8"
    )
    words = ("compare", trace, "--policy", "hived", "--policy", "hived:repair=gang", "--cluster", cluster)
    failing = (*words, "--failures", f"{log},checkpoint=10m")
    table = [" ".join(line.split()) for line in out(capsys, *failing, "--jobs", jobs).splitlines()]
    assert "COUNTED hived:repair=member hived:repair=gang" in table
    assert {"repaired 1 -", "repair_wait 0 -", "repair_idle_hours 0 -"} <= set(table)
    member, gang = json.loads(out(capsys, *failing, "-o", "json"))["runs"]
    assert (member["repaired"], "repaired" in gang) == (1, False)
    rows = list(csv.DictReader(jobs.read_text(encoding="utf-8").splitlines()))
    assert [row["repairs"] for row in rows] == ["1", ""]
    assert "COUNTED" not in out(capsys, *words), "nothing failed"


def test_a_workload_that_cannot_tell_policies_apart_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "compare", "tiny", "--policy", "fifo", "--policy", "srtf", "--cluster", "64x8"]
    assert run(words) == 0
    assert "this workload cannot distinguish policies on 64x8" in capsys.readouterr().err
    assert run([*words[:-1], "2x8"]) == 0
    assert "cannot tell" not in capsys.readouterr().err


def test_jobs_that_can_never_run_are_warned_of(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sim", "run", str(small), "--policy", "fifo", "--cluster", "1x1"]) == 0
    captured = capsys.readouterr()
    assert "2 of 3 jobs can never run on 1x1" in captured.err
    assert "not done 2" in " ".join(captured.out.split())


def test_bad_rows_are_reported_with_their_lines_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(SMALL + "".join(f"bad{n},0,0,1,,,\n" for n in range(9)), encoding="utf-8")
    assert run(["sim", "run", str(path), "--policy", "fifo", "--cluster", "1x2", "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["trace"]["bad_rows"] == 9
    assert f"{path}: 9 of 12 rows are not jobs and were left out" in captured.err
    assert f"{path}:5: a job needs at least 1 device, not 0" in captured.err
    assert "and 4 more" in captured.err
    data = json.loads(out(capsys, "traces", path, "-o", "json"))
    assert [row["line"] for row in data["bad"]] == list(range(5, 14))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "tiny", "--policy", "fifi", "--cluster", "1x2"), "no policy 'fifi'"),
        (("run", "tiny", "--policy", "fifo:speed=1", "--cluster", "1x2"), "no parameter 'speed'"),
        (("run", "tiny", "--policy", "fifo", "--cluster", "many"), "many: neither a file"),
        (("run", "tiny", "--policy", "fifo", "--cluster", "0x4"), "at least one node"),
        (("run", "tiny", "--policy", "fifo", "--cluster", "9999x999"), "more than 1,000,000 devices"),
        (("run", "tny", "--policy", "fifo", "--cluster", "1x2"), "tny: no such file"),
        (("run", "tiny", "--policy", "fifo", "--cluster", "1x2", "--format", "x"), "no format 'x'"),
        (("run", "tiny", "--policy", "fifo", "--cluster", "1x2", "--jobs", "/nowhere/x.csv"), "cannot write"),
        (("compare", "tiny", "--policy", "fifo"), "a comparison needs a cluster"),
        (("compare", "tiny", "--cluster", "1x2"), "a comparison needs policies"),
        (("compare", "tiny", "--config", "x", "--failures", "node=1d"), "--failures cannot be used with --config"),
        (("compare", "tiny", "--config", "x", "--cluster", "1x2"), "--cluster cannot be used with --config"),
        (("policies", "tirsias"), "no policy 'tirsias'"),
        (("generate", "tirsias"), "no mix 'tirsias'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line_with_what_to_do(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["sim", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "hint: " in err
    assert "Traceback" not in err


def test_every_policy_says_what_it_knows_and_where_it_is_from(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, "policies", "-o", "json"))["items"]
    for one in data:
        assert one["title"]
        assert one["paper"]
        assert all(row["help"] and row["allowed"] for row in one["parameters"]), one["name"]
        assert one["name"] in out(capsys, "policies", one["name"])
    known = {one["name"]: one["knows"] for one in data}
    assert (known["fifo"], known["srtf"]) == ([], ["duration"])
    assert all(name in out(capsys, "policies") for name in known)


def test_formats_and_our_own_traces_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, "traces", "-o", "json"))
    assert {"native", "tiresias", "philly", "itp", "chronus", "gavel", "muri", "pollux", "sc17"} <= {
        one["name"] for one in data["formats"]
    }
    assert "tiny" in data["traces"]
    assert "tiny" in out(capsys, "traces")


def test_a_trace_is_surveyed(small: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(out(capsys, "traces", small, "--cluster", "1x2", "-o", "json"))
    assert (data["jobs"], data["demand"], data["mean"], data["deadlines"]) == (3, 24.0, 16 / 3, 2)
    assert data["durations"] == {"shortest": 2.0, "median": 6.0, "90 %": 7.6, "99 %": 7.96, "longest": 8.0}
    assert data["sizes"] == [{"gpus": 1, "jobs": 1, "demand": 8.0}, {"gpus": 2, "jobs": 2, "demand": 16.0}]
    assert data["load"] is None  # everything comes at once
    assert json.loads(out(capsys, "traces", "tiny", "--cluster", "2x8", "-o", "json"))["load"] > 0.5
    assert "load on 2x8" in out(capsys, "traces", "tiny", "--cluster", "2x8")


def test_generated_traces_are_written_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.csv"
    out(capsys, "generate", "tiresias", "--jobs", 30, "--seed", 5, "-o", path)
    assert out(capsys, "generate", "tiresias", "--jobs", 30, "--seed", 5) == path.read_text(encoding="utf-8")
    assert json.loads(out(capsys, "traces", path, "-o", "json"))["jobs"] == 30
    assert "tiresias" in out(capsys, "generate")


@pytest.mark.parametrize("command", ["run", "compare", "sweep"])
@pytest.mark.parametrize(
    ("header", "where", "message"),
    [
        ("id,submit,duration,gpus", ":2", "50 of 50 jobs request numbers of devices that look like times"),
        ("id,gpus,submit,duration", "", "no job fits on 4x8: the smallest requests 60 devices"),
        ("submit,id,gpus,duration", ":2", "contains no job"),
    ],
)
def test_swapped_columns_are_refused_before_a_run(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    header: str,
    where: str,
    message: str,
) -> None:
    monkeypatch.setattr("paictl.sim.parallel.simulate", None)
    path = tmp_path / "jobs.csv"
    rows = [f"j{number},{60 * number},{1 << number % 4},{3601 + 4 * number}" for number in range(1, 51)]
    path.write_text("\n".join([header, *rows]))
    assert run(["sim", command, str(path), "--policy", "fifo", "--cluster", "4x8"]) == 2
    said = capsys.readouterr().err
    assert f"{path}{where}: {message}" in said
    assert "hint:" in said
