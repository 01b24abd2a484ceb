"""Failures, random and logged: what they cost a job, policies that support them, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.cli.main import run as paictl
from paictl.sim.cluster import Cluster, homogeneous
from paictl.sim.failures import FailureError, FailureModel, LoggedOutage, failures_of
from paictl.sim.invariants import Invariants
from paictl.sim.job import Job
from paictl.sim.metrics import figures
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.policies.table import POLICIES, policy_class
from paictl.sim.run import FINISHED, Ending
from paictl.sim.simulate import PausedError, simulate
from paictl.units import Millis
from tests.unit.sim.test_properties import SHARING, traces

ENDURING = [name for name in POLICIES if policy_class(name).endures]
HOUR = 3_600_000


def logged(*rows: tuple[str, int | None, int, int | None], checkpoint: int | None = 0) -> FailureModel:
    """Outages in seconds: (node, device, start, end)."""
    outages = [
        LoggedOutage(line, node, device, Millis(start * 1000), None if end is None else Millis(end * 1000))
        for line, (node, device, start, end) in enumerate(rows, 2)
    ]
    every = None if checkpoint is None else Millis(checkpoint * 1000)
    return FailureModel("log", log=tuple(outages), checkpoint=every)


def windows(*rows: tuple[str, int, int], planned: bool = True) -> FailureModel:
    """Maintenance in seconds: (node, start, end)."""
    model = logged(*((node, None, start, end) for node, start, end in rows))
    return replace(model, log=tuple(replace(row, planned=planned) for row in model.log or ()))


# --- maintenance windows


@pytest.mark.parametrize("policy", ["hived", "hived:backfill=easy", "hived:backfill=conservative"])
def test_nothing_starts_that_would_still_run_when_a_maintenance_window_begins(policy: str) -> None:
    jobs = [
        Job("long", submit=Millis(0), gpus=2, work=Millis(100_000)),
        Job("short", submit=Millis(0), gpus=2, work=Millis(40_000)),
    ]
    maintained = windows(("gpu-1", 50, 80))
    long, short = simulate(jobs, homogeneous(1, 2), policy, failures=maintained, check=Invariants()).outcomes
    assert (short.first_start, short.end) == (0, 40_000), "it ends in time, and does not wait behind the long one"
    assert (long.first_start, long.end, long.interruptions) == (80_000, 180_000, 0)
    surprised = simulate(jobs, homogeneous(1, 2), policy, failures=windows(("gpu-1", 50, 80), planned=False))
    assert surprised.outcomes[0].interruptions == 1


def test_a_limit_in_the_trace_counts_not_the_duration() -> None:
    (job,) = [Job("careful", submit=Millis(0), gpus=1, work=Millis(10_000), limit=Millis(60_000))]
    (run,) = simulate([job], homogeneous(1, 2), "hived", failures=windows(("gpu-1", 50, 80))).outcomes
    assert run.first_start == 80_000


@settings(max_examples=15, deadline=None)
@given(jobs=traces(), starts=st.lists(st.integers(0, 200), min_size=1, max_size=4))
def test_hived_is_never_interrupted_by_maintenance(jobs: list[Job], starts: list[int]) -> None:
    rows = [(f"gpu-{1 + place % 2}", start, start + 20) for place, start in enumerate(starts)]
    plain = [replace(job, limit=None) for job in jobs]
    run = simulate(plain, homogeneous(2, 8), "hived", failures=windows(*rows), check=Invariants())
    assert run.counters["interruptions"] == 0


# --- times of failures


def test_mean_times_are_those_that_were_asked_for_and_the_same_for_every_policy() -> None:
    model, cluster = failures_of("node=10h,repair=1h"), Cluster(homogeneous(50, 2))
    assert model is not None
    drawn = list(islice(model.outages(cluster, 1, Millis(0)), 4_000))
    assert drawn == list(islice(model.outages(cluster, 1, Millis(0)), 4_000))
    assert drawn[:9] != list(islice(model.outages(cluster, 2, Millis(0)), 9))
    assert [outage.start for outage in drawn] == sorted(outage.start for outage in drawn)
    down = [(outage.end or 0) - outage.start for outage in drawn]
    assert sum(down) / len(down) == pytest.approx(HOUR, rel=0.06)
    between = drawn[-1].start / (len(drawn) / 50) - HOUR  # of one node, without its downtime
    assert between == pytest.approx(10 * HOUR, rel=0.06)
    assert {len(outage.devices) for outage in drawn} == {2}


def test_devices_and_nodes_fail_each_for_themselves() -> None:
    model = failures_of("node=30d,device=30d,repair=2h")
    assert model is not None
    drawn = list(islice(model.outages(Cluster(homogeneous(4, 8)), 0, Millis(0)), 900))
    assert 50 < sum(len(outage.devices) == 8 for outage in drawn) < 150, "one node to eight devices"


# --- costs

LONG = [Job("a", Millis(0), 2, Millis(100_000))]


@pytest.mark.parametrize(
    ("checkpoint", "lost", "end"),
    [(0, 0, 120), (None, 55, 175), (20, 15, 135), (55, 0, 120), (60, 55, 175)],
    ids=["always", "never", "every 20 s", "just saved", "not yet"],
)
def test_a_job_starts_again_from_its_last_checkpoint(checkpoint: int | None, lost: int, end: int) -> None:
    run = simulate(LONG, homogeneous(1, 2), "fifo", failures=logged(("gpu-1", 1, 55, 75), checkpoint=checkpoint))
    (outcome,) = run.outcomes
    assert (outcome.end, outcome.lost, outcome.interruptions) == (end * 1000, lost * 1000, 1)
    assert (outcome.first_start, outcome.wasted) == (0, 2 * lost * 1000)
    assert (outcome.ran, outcome.waiting) == ((100 + lost) * 1000, 20_000)
    assert run.counters["interruptions"] == run.counters["failures"] == 1
    assert run.counters["down"] == 20_000
    assert figures(run).wasted == pytest.approx(2 * lost / (2 * end))


def test_what_a_job_did_before_a_preemption_is_saved() -> None:
    jobs = [Job("long", Millis(0), 1, Millis(100_000)), Job("short", Millis(50_000), 1, Millis(10_000))]
    run = simulate(jobs, homogeneous(1, 1), "srtf", failures=logged(("gpu-1", 0, 80, 90), checkpoint=None))
    long, short = run.outcomes
    assert (short.end, long.end, long.lost) == (60_000, 140_000, 20_000)
    assert (long.preemptions, long.interruptions) == (1, 1)


def test_only_the_jobs_on_the_devices_that_fail_are_hit_and_others_take_their_place() -> None:
    jobs = [Job(name, Millis(0), 1, Millis(100_000)) for name in "abc"]
    run = simulate(jobs, homogeneous(1, 2), "fifo", failures=logged(("gpu-1", 0, 10, None)), log=True)
    assert sum(outcome.interruptions for outcome in run.outcomes) == 1
    assert [outcome.ending for outcome in run.outcomes] == [Ending.PASSED] * 3
    assert sorted(outcome.end or 0 for outcome in run.outcomes) == [100_000, 200_000, 290_000], "one device is left"


def test_overlapping_outages_end_with_the_last_and_an_end_comes_before_a_failure() -> None:
    overlapping = logged(("gpu-1", 0, 100, 150), ("gpu-1", None, 120, 200))
    jobs = [Job("a", Millis(0), 2, Millis(100_000)), Job("b", Millis(1), 2, Millis(10_000))]
    a, b = simulate(jobs, homogeneous(1, 2), "fifo", failures=overlapping).outcomes
    assert (a.end, a.interruptions, b.end) == (100_000, 0, 210_000)


def test_what_never_comes_to_its_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.sim.engine.GIVE_UP", 5)
    model = failures_of("node=30,repair=1,checkpoint=never")
    jobs = [Job("long", Millis(0), 1, Millis(HOUR)), Job("short", Millis(0), 1, Millis(1000))]
    long, short = simulate(jobs, homogeneous(1, 1), "srtf", failures=model).outcomes
    assert (long.ending, long.interruptions, short.ending) == (Ending.UNFINISHED, 5, Ending.PASSED)


def test_who_comes_where_no_work_is_ever_done_counts_as_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.sim.engine.BARREN", 20)
    jobs = [Job("long", Millis(0), 1, Millis(HOUR)), Job("late", Millis(HOUR), 1, Millis(HOUR))]
    run = simulate(jobs, homogeneous(1, 1), "fifo", failures=failures_of("node=1,repair=1,checkpoint=never"))
    assert [outcome.ending for outcome in run.outcomes] == [Ending.UNFINISHED] * 2


def test_jobs_wait_for_ever_where_nothing_is_repaired() -> None:
    run = simulate(LONG, homogeneous(1, 2), "fifo", failures=logged(("gpu-1", 0, 10, None)))
    assert [outcome.ending for outcome in run.outcomes] == [Ending.UNFINISHED]


# --- every policy

MODELS = ("node=600,device=4000,repair=100,checkpoint=20", "device=300,repair=5,checkpoint=0", "node=90,repair=30")


@pytest.mark.parametrize("policy", [*ENDURING, "srtf:placement=consolidate", "easy:placement=consolidate"])
@settings(max_examples=8)
@given(jobs=traces(), nodes=st.sampled_from([1, 2, 4]), model=st.sampled_from(MODELS), seed=st.integers(0, 9))
def test_no_policy_uses_a_device_that_is_down_and_every_job_ends(
    policy: str, jobs: list[Job], nodes: int, model: str, seed: int
) -> None:
    check = Invariants(shared=policy.split(":")[0] in SHARING)
    spec, failures = homogeneous(nodes, 8), failures_of(model)
    plain = [replace(job, elastic=None, sensitivity={}) for job in jobs]
    run = simulate(plain, spec, policy, seed=seed, failures=failures, check=check, log=True)
    assert {outcome.ending for outcome in run.outcomes} <= FINISHED
    assert [outcome.id for outcome in run.outcomes] == [
        outcome.id for outcome in simulate(plain, spec, policy).outcomes
    ]
    with pytest.raises(PausedError) as paused:
        simulate(plain, spec, policy, seed=seed, failures=failures, log=True, stop=lambda: True)
    again = simulate(plain, spec, policy, seed=seed, failures=failures, log=True, snapshot=paused.value.snapshot)
    assert replace(again, wall_seconds=0) == replace(run, wall_seconds=0)


def test_policies_that_cannot_are_refused_with_those_that_can() -> None:
    with pytest.raises(ParameterError, match="it does not support failures") as refused:
        simulate(LONG, homogeneous(1, 2), "gandiva", failures=failures_of("node=30d"))
    assert "fifo, " in (refused.value.hint or "")


# --- specifications


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("", "cannot read the log"),
        ("node=30d,repare=4h", "'repare=4h' is not a known part"),
        ("repair=4h", "no failures are given"),
        ("node=soon", "node=soon is not a duration"),
        ("node=0", "node=0 is not a duration"),
        ("node=1d,node=2d", "is not a known part"),
        ("nowhere.csv", "No such file"),
        ("log.csv,repair=4h", "a log cannot be combined with repair="),
    ],
)
def test_what_is_no_specification_is_refused(written: str, message: str) -> None:
    with pytest.raises(FailureError, match=message) as refused:
        failures_of(written)
    assert refused.value.hint
    assert refused.value.where


@pytest.mark.parametrize(
    ("rows", "where", "message"),
    [
        ("node,from\nn,1", ":1", "the columns are node, from"),
        ("node,start,end\ngpu-1,5,x", ":2", "'x' is not a time"),
        ("node,start,end\ngpu-1,5,9\ngpu-1,9,5", ":3", "its end is before its start"),
        ("node,device,start\ngpu-1,x,5", ":2", "'x' is not the index"),
        ("node,start,end,planned\ngpu-1,5,9,perhaps", ":2", "'perhaps' is neither yes nor no"),
        ("node,start,planned\ngpu-1,5,yes", ":2", "a maintenance window is for whole nodes and has an end"),
        ("node,device,start,end,planned\ngpu-1,0,5,9,yes", ":2", "a maintenance window is for whole nodes"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(tmp_path: Path, rows: str, where: str, message: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(rows)
    with pytest.raises(FailureError, match=message) as refused:
        failures_of(str(path))
    assert refused.value.where == f"{path}{where}"


@pytest.mark.parametrize(("row", "message"), [("gpu-9,,1", "no node 'gpu-9'"), ("gpu-1,4,1", "has 4 devices")])
def test_a_log_of_another_cluster_is_refused_before_a_run(
    tmp_path: Path, row: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(f"node,device,start\n{row}\n")
    for command in ("run", "compare", "sweep"):
        words = ["sim", command, "nowhere.csv", "--policy", "fifo", "--cluster", "2x4", "--failures", str(path)]
        assert paictl(words) == 2
        assert message in capsys.readouterr().err


def test_commands_show_what_failures_cost_each_policy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, table = tmp_path / "log.csv", tmp_path / "jobs.csv"
    log.write_text("node,device,start,end\ngpu-1,,5,10\ngpu-2,3,20,90\n")
    failures = f"{log},checkpoint=never"
    words = ["tiny", "--policy", "fifo", "--cluster", "2x4", "--failures", failures]
    assert paictl(["sim", "run", *words, "-o", "json", "--jobs", str(table)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["failures"] == failures
    assert data["interruptions"] == data["counters"]["interruptions"] > 0
    assert 0 < data["down"] < 1
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert sum(int(row["interruptions"]) for row in rows) == data["interruptions"]
    assert paictl(["sim", "compare", *words, "--policy", "srtf", "--failures", "none", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [run["label"] for run in data["runs"]] == [
        f"{policy}, failures {model}" for model in (failures, "none") for policy in ("fifo", "srtf")
    ]
    assert len(data["pairs"]) == 4, "those that differ in one thing"
    assert paictl(["sim", "sweep", *words, "--failures", "none", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [setting["failures"] for setting in data["settings"]] == [failures, None]
    assert paictl(["sim", "compare", *words]) == 0
    assert "interruptions" in capsys.readouterr().out
