"""Sweeps: ranges, means with intervals, significant differences, and runs kept for --resume."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paictl.cli.main import run as paictl
from paictl.sim.checkpoints import KeptRuns, RunRequest
from paictl.sim.cluster import homogeneous
from paictl.sim.exports import sweep_svg
from paictl.sim.metrics import figures
from paictl.sim.parallel import play
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.simulate import LOOK, simulate
from paictl.sim.sweep import (
    SweepRun,
    estimate,
    expanded,
    planned,
    quantile,
    seeds_of,
    settings,
    sweep_csv,
    sweep_data,
    swept,
)
from paictl.sim.traces.load import load

BRANCHING = "easy:limits=user,factor=2..3"


@pytest.mark.parametrize(
    ("written", "policies"),
    [
        ("fifo", ["fifo"]),
        ("las:knob=1..3", ["las:knob=1", "las:knob=2", "las:knob=3"]),
        ("easy:factor=1..2..0.5", ["easy:factor=1", "easy:factor=1.5", "easy:factor=2"]),
        (
            "las:order=start|running,knob=1..2",
            [
                "las:order=start,knob=1",
                "las:order=start,knob=2",
                "las:order=running,knob=1",
                "las:order=running,knob=2",
            ],
        ),
        ("las:queues=3250/7200", ["las:queues=3250/7200"]),
        ("gandiva:quantum=1..3m", ["gandiva:quantum=1m", "gandiva:quantum=2m", "gandiva:quantum=3m"]),
        ("gandiva:quantum=30s..1m..15", ["gandiva:quantum=30s", "gandiva:quantum=45s", "gandiva:quantum=60s"]),
    ],
)
def test_ranges_stand_for_policies(written: str, policies: list[str]) -> None:
    assert expanded(written) == policies


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("las:knob=1..", "'1..' is not a valid range"),
        ("las:knob=5..1", "'5..1' is not a valid range"),
        ("las:knob=1..2..0", "'1..2..0' is not a valid range"),
        ("las:knob=1..2..1..1", "is not a valid range"),
        ("gandiva:quantum=1..m", "is not a valid range"),
        ("las:knob=1..inf", "is not a valid range"),
        ("las:knob=1..9999999", "more than 10,000 values"),
        ("las:knob=1..10000,promote=1..10000,interval=1..10000", "1,000,000,000,000 runs"),
        (f"las:knob={'1|' * 20_000}1", "20,001 runs"),
        ("las:nob=1..2", "no parameter 'nob'"),
        ("las:order=start|sideways", "'sideways' is not a known value"),
        ("lass:knob=1..2", "no policy 'lass'"),
    ],
)
def test_a_sweep_of_what_does_not_exist_is_refused(written: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        planned([written], ["2x4"], [])


def test_everything_is_checked_before_a_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.sim.sweep.play", None)
    words = ["sim", "sweep", "tiny", "nowhere.csv", "--policy", "fifo", "--cluster", "2x4"]
    assert paictl(words) == 2
    assert paictl([*words[:3], *words[4:], "--policy", "srtf:x=1..2"]) == 2


def test_seeds_are_numbers_and_ranges() -> None:
    assert seeds_of(["3", "1..4"]) == [3, 1, 2, 4]
    for wrong in ("", "a", "4..1", "1..x", "-1", "0..999999"):
        with pytest.raises(ParameterError, match="not a valid seed"):
            seeds_of([wrong])


def test_the_interval_is_students() -> None:
    interval = estimate([1.0, 2.0, 3.0, 4.0])
    assert interval.low is not None
    assert interval.high is not None
    assert (interval.mean, interval.count) == (2.5, 4)
    assert interval.high - interval.mean == pytest.approx(3.182 * 1.2909944 / 2, rel=1e-6)
    assert interval.mean - interval.low == pytest.approx(interval.high - interval.mean)
    assert (interval.certain, estimate([0.0, 10.0]).certain, estimate([5.0]).certain) == (True, False, False)


def runs_of(*policies: str, seeds: str = "1..3") -> list[SweepRun]:
    return swept([load("tenants"), load("tiny")], planned(policies, ["4x4"], [seeds]), processes=1)


def test_a_setting_has_means_over_traces_and_seeds_and_differences_to_the_first() -> None:
    runs = runs_of("fifo", BRANCHING)
    fifo, two, three = settings(runs)
    assert [setting.policy for setting in (fifo, two, three)] == ["fifo", *expanded(BRANCHING)]
    assert fifo.against == fifo.ratios == {}
    for setting in (fifo, two, three):
        assert (setting.estimates["mean_jct"].count, setting.estimates["mean_jct"].over) == (2, "traces"), (
            "seeds of a trace share its jobs: they are one replication, whether the policy draws or not"
        )
    means = {(run.trace, run.policy, run.seed): run.figures.mean_jct or 0 for run in runs}
    differences = [means[trace, two.policy, seed] - means[trace, "fifo", seed] for trace, _, seed in means]
    assert two.against["mean_jct"].mean < 0
    assert min(differences) <= two.against["mean_jct"].mean <= max(differences)
    assert min(differences) < fmean(differences) == pytest.approx(two.against["mean_jct"].mean)


def made_up(*rows: tuple[str, str, int, float, float]) -> list[SweepRun]:
    """Runs by (policy, trace, seed, mean JCT, utilization)."""
    figure = swept([load("tiny")], planned(["fifo"], ["2x4"], []), processes=1)[0].figures
    return [
        SweepRun(trace, policy, "2x4", seed, replace(figure, mean_jct=jct, utilization=used))
        for policy, trace, seed, jct, used in rows
    ]


def test_an_interval_never_leaves_what_a_metric_can_be() -> None:
    rows = [
        ("fifo", "a", 0, 10.0, 0.1),
        ("fifo", "b", 0, 900.0, 0.9),
        ("srtf", "a", 0, 9.0, 0.95),
        ("srtf", "b", 0, 800.0, 0.2),
    ]
    fifo, srtf = settings(made_up(*rows))
    shares, times = fifo.estimates["utilization"], fifo.estimates["mean_jct"]
    assert (shares.mean, shares.low, shares.high) == (0.5, 0.0, 1.0), "t of two values is 12.7: nothing is known"
    assert times.low == 0.0
    assert times.high is not None
    assert times.high > 900
    assert (srtf.against["utilization"].low, srtf.against["utilization"].high) == (-1.0, 1.0)


def test_a_trace_of_long_jobs_does_not_outweigh_the_others() -> None:
    base = [(f"t{place}", 10.0**place) for place in range(5)]
    rows = [("fifo", trace, 0, jct, 0.5) for trace, jct in base]
    factors = (0.5, 0.55, 0.45, 0.5, 0.52)
    rows += [("srtf", trace, 0, jct * factor, 0.5) for (trace, jct), factor in zip(base, factors, strict=True)]
    _, srtf = settings(made_up(*rows))
    assert not srtf.against["mean_jct"].certain, "the difference is that of the longest trace alone"
    assert srtf.certain("mean_jct"), "each trace ends in about half of the time"
    ratio = srtf.ratios["mean_jct"]
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.mean == pytest.approx((0.5 * 0.55 * 0.45 * 0.5 * 0.52) ** 0.2)
    assert 0.44 < ratio.low < ratio.mean < ratio.high < 0.56


def test_many_seeds_of_two_traces_do_not_pass_for_many_traces() -> None:
    rows = [("fifo", trace, seed, jct, 0.5) for trace, jct in (("a", 10.0), ("b", 30.0)) for seed in range(20)]
    rows += [("easy", trace, seed, jct + seed / 100, 0.5) for _, trace, seed, jct, _ in rows]
    _, easy = settings(made_up(*rows))
    interval = easy.estimates["mean_jct"]
    assert interval.count == 2
    assert interval.high is not None
    assert interval.high > 100, "t of two values, not of forty"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_the_mean_is_within_its_interval(values: list[float]) -> None:
    interval = estimate(values, least=0.0, most=1.0)
    assert (interval.low is None) == (len(values) == 1)
    if interval.low is not None and interval.high is not None:
        assert 0 <= interval.low <= interval.mean + 1e-12
        assert interval.mean - 1e-12 <= interval.high <= 1


@pytest.mark.parametrize(
    ("freedom", "value"), [(1, 12.706), (2, 4.303), (30, 2.042), (31, 2.0395), (60, 2.0003), (1000, 1.9623)]
)
def test_quantiles_are_those_of_the_tables(freedom: int, value: float) -> None:
    assert quantile(freedom) == pytest.approx(value, abs=2e-4)


def test_few_replications_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "sweep", "tiny", "--policy", BRANCHING, "--cluster", "2x4"]
    assert paictl(words) == 0
    assert "one replication has no interval" in capsys.readouterr().err
    assert paictl([*words, "--seed", "1..3"]) == 0
    assert "3 replications say little: their intervals are 4.3 standard errors" in capsys.readouterr().err
    assert paictl([*words, "--seed", "1..5"]) == 0
    assert "replications" not in capsys.readouterr().err


def test_what_draws_nothing_is_never_significant_on_one_trace() -> None:
    runs = swept([load("tenants")], planned(["fifo", "srtf"], ["4x4"], ["1..5"]), processes=1)
    difference = settings(runs)[1].against["mean_jct"]
    assert (difference.count, difference.low, difference.certain) == (1, None, False)


def test_results_as_json_csv_and_a_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, plot = tmp_path / "runs.csv", tmp_path / "plot.svg"
    words = ["sim", "sweep", "tiny", "--policy", BRANCHING, "--cluster", "2x4", "--cluster", "1x4", "--seed", "1..2"]
    assert paictl([*words, "--csv", str(table), "--plot", str(plot), "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [(setting["policy"], setting["cluster"]) for setting in data["settings"]] == [
        (policy, cluster) for cluster in ("2x4", "1x4") for policy in expanded(BRANCHING)
    ]
    assert len(data["runs"]) == 8
    assert data["settings"][1]["against_first"]["mean_jct"].keys() >= {"mean", "low", "high", "significant"}
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert [(row["factor"], row["seed"]) for row in rows[:4]] == [("2", "1"), ("2", "2"), ("3", "1"), ("3", "2")]
    assert float(rows[0]["mean_jct"]) == data["runs"][0]["mean_jct"]
    root = ElementTree.fromstring(plot.read_text(encoding="utf-8"))  # noqa: S314 - our own
    shown = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"mean_jct", "makespan", "2x4", "1x4"} <= set(shown)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) >= 4 * 8
    assert paictl(words) == 0
    assert "95 % confidence intervals" in capsys.readouterr().out


def test_a_plot_of_one_setting_without_differences_can_be_drawn() -> None:
    runs = swept([load("tiny")], planned(["fifo"], ["2x4"], []), processes=1)
    assert sweep_svg(settings(runs)).count("<circle") == len(settings(runs)[0].estimates)
    assert sweep_data(runs)["settings"][0]["metrics"]["mean_jct"]["low"] is None
    assert len(sweep_csv(runs).splitlines()) == 2


# --- progress, and kept runs


def test_how_far_a_run_is_rises_to_the_end() -> None:
    values: list[float] = []
    jobs = load("tenants").jobs * 1
    simulate(jobs, homogeneous(1, 8), "las:queues=60/300/900", part=values.append)
    assert len(values) >= 1
    assert values == sorted(values)
    assert 0 < values[-1] <= 1
    assert LOOK > 0


def test_an_interrupted_command_resumes_with_the_runs_that_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.sim.checkpoints.WORTH", 0)
    trace, requests = load("tiny"), [RunRequest(name, homogeneous(2, 4)) for name in ("fifo", "srtf", "las")]
    played: list[str] = []

    def broken(jobs: object, spec: object, policy: str, **more: object) -> object:
        played.append(policy)
        if policy == "las" and played.count("las") == 1:
            raise KeyboardInterrupt
        return simulate(jobs, spec, policy, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("paictl.sim.parallel.simulate", broken)
    with pytest.raises(KeyboardInterrupt):
        play(trace.jobs, requests, processes=1, kept=KeptRuns(trace, resume=False, folder=tmp_path))
    assert len(list(tmp_path.iterdir())) == 2, "what is done is left"
    again = play(trace.jobs, requests, processes=1, kept=KeptRuns(trace, resume=True, folder=tmp_path))
    assert played == ["fifo", "srtf", "las", "las"]
    assert [figures(run) for run in again] == [figures(run) for run in play(trace.jobs, requests, processes=1)]
    assert list(tmp_path.iterdir()) == [], "a finished command leaves nothing"


def test_kept_runs_are_only_those_of_the_same_trace_policy_cluster_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.sim.checkpoints.WORTH", 0)
    trace, request = load("tiny"), RunRequest("fifo", homogeneous(2, 4), 1)
    kept_runs = KeptRuns(trace, resume=True, folder=tmp_path / "cache")
    kept_runs.put(request, simulate(trace.jobs, request.cluster, "fifo", seed=1))
    assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
    assert kept_runs.get(request) is not None
    assert kept_runs.get(RunRequest("fifo", homogeneous(2, 4), 2)) is None
    assert kept_runs.get(RunRequest("fifo", homogeneous(2, 8), 1)) is None
    assert KeptRuns(load("tenants"), resume=True, folder=tmp_path / "cache").get(request) is None
    next((tmp_path / "cache").iterdir()).write_bytes(b"garbage")
    assert kept_runs.get(request) is None, "what cannot be read is played again"


def test_a_parquet_file_has_the_rows_of_the_csv_file_with_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table, typed = tmp_path / "runs.csv", tmp_path / "runs.parquet"
    words = ["sim", "sweep", "tiny", "--policy", "fifo", "--policy", "las:knob=1..2,order=start|running"]
    assert paictl([*words, "--cluster", "2x4", "--csv", str(table), "--parquet", str(typed)]) == 0
    read = parquet.read_table(typed)
    rows = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert read.column_names == list(rows[0])
    assert {name: str(read.schema.field(name).type) for name in ("knob", "order", "seed", "mean_jct")} == {
        "knob": "double",
        "order": "string",
        "seed": "int64",
        "mean_jct": "double",
    }
    assert read.column("knob").to_pylist() == [None, 1, 1, 2, 2]
    for name in ("mean_jct", "makespan", "preemptions"):
        assert read.column(name).to_pylist() == [float(row[name]) for row in rows]
    assert read.column("interruptions").to_pylist() == [None] * 5


def test_parquet_without_its_library_is_refused_before_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setattr("paictl.sim.sweep.play", None)
    words = ["sim", "sweep", "tiny", "--policy", "fifo", "--cluster", "2x4", "--parquet", str(tmp_path / "x")]
    assert paictl(words) == 2
    assert "paictl[parquet]" in capsys.readouterr().err
