"""Sizing: the smallest number of nodes that meets targets, what it costs, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paictl.cli.main import run as paictl
from paictl.sim.cluster import ClusterShape, homogeneous
from paictl.sim.failures import FailureModel, LoggedOutage, failures_of
from paictl.sim.job import Job
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.simulate import simulate
from paictl.sim.sizing import NEVER, NodeOffer, best, grown, offers, question, size, target
from paictl.sim.traces.load import load
from paictl.units import Millis

EIGHT = NodeOffer("gpu", 8)
BURST = [Job(str(number), Millis(0), 4, Millis(600_000)) for number in range(40)]
"""Ten minutes each, two on a node: 20 nodes run all at once, 10 in two turns, 4 in five."""


@pytest.mark.parametrize(
    ("wanted", "nodes"),
    [
        ("max queueing <= 0s", 20),
        ("max queueing <= 10m", 10),
        ("max queueing <= 40m", 4),
        ("makespan <= 20m", 10),
        ("mean queueing <= 5m", 10),
        ("p50 jct <= 10m", 11),
        ("MEDIAN jct<=10m", 11),
        ("p95 waiting <= 2h", 2),
    ],
)
def test_the_smallest_number_of_nodes(wanted: str, nodes: int) -> None:
    answer = size(BURST, EIGHT, [target(wanted)], "fifo")
    assert answer.smallest is not None
    assert (answer.smallest.nodes, answer.smallest.devices) == (nodes, 8 * nodes)


@pytest.mark.parametrize("policy", ["fifo", "backfill", "las"])
def test_one_node_fewer_does_not_meet_the_target(policy: str) -> None:
    jobs, goal = load("tenants").jobs, target("p95 queueing <= 1h")
    answer = size(jobs, EIGHT, [goal], policy)
    assert answer.smallest is not None
    for nodes, met in ((answer.smallest.nodes, True), (answer.smallest.nodes - 1, False)):
        assert (goal.value(simulate(jobs, homogeneous(nodes, 8), policy)) <= goal.bound) is met


def test_nodes_are_added_to_what_there_is() -> None:
    base = homogeneous(3, 8)
    answer = size(BURST, EIGHT, [target("max queueing <= 10m")], "fifo", base=base)
    assert answer.smallest is not None
    assert (answer.smallest.nodes, answer.smallest.devices) == (7, 80)
    enough = size(BURST, EIGHT, [target("max queueing <= 10m")], "fifo", base=homogeneous(10, 8))
    assert enough.smallest is not None
    assert enough.smallest.nodes == 0
    assert grown(base, EIGHT, 2).nodes[-1].name == "added-2"


def test_all_targets_must_be_met() -> None:
    goals = [target("max queueing <= 40m"), target("makespan <= 20m")]
    answer = size(BURST, EIGHT, goals, "fifo")
    assert answer.smallest is not None
    assert answer.smallest.nodes == 10


def test_what_no_cluster_can_meet_is_said_without_trying_for_ever() -> None:
    answer = size(BURST, EIGHT, [target("mean jct <= 5m")], "fifo")
    assert answer.smallest is None
    assert "no job waits there" in answer.reason
    assert len(answer.trials) <= 6
    answer = size(BURST, EIGHT, [target("max queueing <= 0s")], "fifo", most=7)
    assert (answer.smallest, answer.reason) == (None, "not even with 7 nodes")


def test_a_job_that_never_runs_waits_for_ever() -> None:
    goal = target("max queueing <= 1d")
    assert goal.value(simulate([Job("big", Millis(0), 9, Millis(1))], homogeneous(1, 8), "fifo")) == NEVER
    answer = size([Job("big", Millis(0), 9, Millis(1000))], EIGHT, [goal], "fifo")
    assert answer.smallest is not None
    assert answer.smallest.nodes == 2


def test_the_cheapest_kind_of_node_wins_and_without_prices_the_fewest_devices() -> None:
    def answers(*prices: str) -> str | None:
        kinds = offers(["big=8", "small=3"], prices)
        answer = best([size(BURST, kind, [target("max queueing <= 10m")], "fifo") for kind in kinds])
        return None if answer is None else answer.offer.type

    assert answers() == "big", "80 devices; small nodes hold no second job"
    assert answers("big=1", "small=9") == "big"
    assert answers("big=9", "small=1") == "small"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--target", "p95 foo <= 1h"], "'p95 foo <= 1h' is not a target"),
        (["--target", "queueing <= 1h"], "is not a target"),
        (["--target", "p95 makespan <= 1h"], "is not a target"),
        (["--target", "mean jct <= soon"], "is not a target"),
        (["--target", f"mean jct <= {'9' * 400}h"], "is not a target"),
        (["--target", "mean jct <= 1h", "--node", "0"], "'0' is not a node"),
        (["--target", "mean jct <= 1h", "--price", "cheap"], "'cheap' is not a price"),
        (["--target", "mean jct <= 1h", "--price", "V100=2"], "there is a price for 'V100', but no such node"),
        (["--target", "mean jct <= 1h", "--node", "8", "--node", "8"], "the same node twice"),
        (["--target", "mean jct <= 1h", "--policy", "nope"], "no policy 'nope'"),
        (["--target", "mean jct <= 1h", "--failures", "nod=1d"], "'nod=1d' is not a known part"),
        (
            ["--target", "mean jct <= 1h", "--failures", "node=1d", "--policy", "gavel"],
            "it does not support failures",
        ),
        (["--target", "mean jct <= 1h", "--failures", "{log}"], "a log names nodes, and there are none before"),
        (["--target", "mean jct <= 1h", "--failures", "{log}", "--cluster", "2x8"], "line 2: no node 'n7'"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_before_a_run(
    words: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("paictl.sim.sizing.play", None)
    log = tmp_path / "log.csv"
    log.write_text("node,start,end\nn7,0,60\n")
    assert paictl(["sim", "size", "tiny", *(word.format(log=log) for word in words)]) == 2
    assert message in capsys.readouterr().err


def test_a_name_that_is_taken_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = grown(homogeneous(1, 8), EIGHT, 1)
    monkeypatch.setattr("paictl.sim.sizing.cluster_named", lambda _: ClusterShape("mine", spec.nodes))
    with pytest.raises(ParameterError, match="added-1"):
        question("fifo", ["mean jct <= 1h"], ["8"], [], "mine")


def test_failures_cost_nodes() -> None:
    """A log fails two of ten nodes for the whole time, and a search without failures needs all ten."""
    goal, base = target("max queueing <= 10m"), homogeneous(4, 8)
    down = FailureModel(
        "log", log=tuple(LoggedOutage(line, base.nodes[line].name, None, Millis(0), None) for line in (0, 1))
    )
    answer = size(BURST, EIGHT, [goal], "fifo", base=base, failures=down)
    assert answer.smallest is not None
    assert (answer.smallest.nodes, answer.smallest.devices) == (8, 96), "6 more without failures"
    assert (answer.smallest.interruptions, answer.smallest.wasted) == (0, 0.0)


def test_added_nodes_fail_too_and_the_answer_meets_its_target() -> None:
    jobs, goal, model = load("tenants").jobs, target("p95 queueing <= 1h"), failures_of("node=10d,repair=12h")
    answer = size(jobs, EIGHT, [goal], "fifo", failures=model)
    calm = size(jobs, EIGHT, [goal], "fifo")
    assert answer.smallest is not None
    assert calm.smallest is not None
    assert answer.smallest.nodes > calm.smallest.nodes
    assert answer.smallest.interruptions
    assert calm.smallest.interruptions is None
    run = simulate(jobs, homogeneous(answer.smallest.nodes, 8), "fifo", failures=model)
    assert goal.value(run) <= goal.bound
    assert sum(outcome.interruptions for outcome in run.outcomes) == answer.smallest.interruptions


def test_a_search_ends_where_hardware_fails_too_often_for_any_job() -> None:
    """Thousands of nodes would be played, with a failure of each in every second."""
    goal, model = target("p95 queueing <= 1h"), failures_of("node=1s,repair=1s")
    answer = size(load("tiny").jobs, EIGHT, [goal], "fifo", failures=model)
    assert answer.smallest is None
    assert "no job completes" in answer.reason
    assert [trial.nodes for trial in answer.trials] == [1]


def test_a_search_goes_on_while_jobs_have_had_no_room_to_try() -> None:
    """One node is too small for the short job, and the long one fails on any."""
    hour = 3_600_000
    jobs = [Job("long", Millis(0), 8, Millis(10_000 * hour)), Job("wide", Millis(0), 16, Millis(1000))]
    model = failures_of("node=1h,repair=1s")
    answer = size(jobs, EIGHT, [target("makespan <= 1s")], "fifo", failures=model, most=2)
    assert [trial.nodes for trial in answer.trials] == [1, 2]
    assert "no job completes" not in answer.reason


def test_the_command_says_what_failures_cost(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "size", "tenants", "--target", "p95 queueing <= 1d", "--failures", "node=10d,repair=12h"]
    assert paictl([*words, "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["failures"] == "node=10d,repair=12h"
    assert all(trial["interruptions"] > 0 and 0 < trial["wasted"] < 1 for trial in data["answers"][0]["trials"])
    assert paictl(words) == 0
    assert "INTERRUPTIONS" in capsys.readouterr().out


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sim", "size", "tenants", "--target", "p95 queueing <= 1h", "--policy", "srtf", "--price", "9.8"]
    assert paictl([*words, "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    (answer,) = data["answers"]
    assert data["best"] == 0
    assert answer["price_per_hour"] == pytest.approx(9.8 * answer["nodes"])
    assert {trial["nodes"]: trial["met"] for trial in answer["trials"]}[answer["nodes"]] is True
    assert paictl(words) == 0
    assert f"{answer['nodes']} nodes of 8 gpu\n" in capsys.readouterr().out
    words = ["sim", "size", "tenants", "--target", "p95 queueing <= 1h", "--policy", "fifo", "--cluster", "12x8"]
    assert paictl(words) == 0
    shown = capsys.readouterr().out
    assert "MORE NODES OF GPU=8" in shown.upper()
    assert shown.endswith(" more nodes of 8 gpu\n")
    assert paictl(["sim", "size", "tenants", "--target", "p95 jct <= 1m"]) == 1
