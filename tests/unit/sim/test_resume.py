"""Ctrl-C and --resume: a run that was interrupted anywhere ends as if it had not been."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from paictl.cells.spec import ClusterSpec as HivedSpec
from paictl.cli.main import run as paictl
from paictl.config.quotas.capacity import configuration
from paictl.config.reading.load import load as load_configuration
from paictl.resources import resource_folder
from paictl.sim.checkpoints import KeptRuns, RunRequest
from paictl.sim.cluster import homogeneous
from paictl.sim.parallel import play
from paictl.sim.policies.table import POLICIES
from paictl.sim.promises import PromiseKind, play_each
from paictl.sim.run import RunResult
from paictl.sim.simulate import PausedError, simulate
from paictl.sim.sizing import NodeOffer, SizingTrial, size, target
from paictl.sim.specify import from_hived
from paictl.sim.traces.load import load

SPEC = homogeneous(10, 8)


def bare(run: RunResult) -> RunResult:
    return replace(run, wall_seconds=0)


def after(instants: int) -> Callable[[], bool]:
    """A `stop` that is true after so many instants."""
    remaining = iter(range(instants))
    return lambda: next(remaining, None) is None


@pytest.mark.parametrize("policy", [*POLICIES, "las:queues=60/300,knob=2,placement=consolidate"])
def test_every_policy_resumes_between_any_two_instants(policy: str) -> None:
    jobs = load("tenants").jobs[:40]
    whole = simulate(jobs, SPEC, policy, log=True)
    snapshot: bytes | None = None
    for instants in (1, 20, 15):
        with pytest.raises(PausedError) as paused:
            simulate(jobs, SPEC, policy, log=True, stop=after(instants), snapshot=snapshot)
        snapshot = paused.value.snapshot
    resumed = simulate(jobs, SPEC, policy, log=True, snapshot=snapshot)
    assert bare(resumed) == bare(whole)
    assert resumed.wall_seconds > 0


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own handler, which paictl's replaces for the process in which a command runs."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_keeps_how_far_the_runs_are(store: Path, processes: int) -> None:
    trace, requests = load("tenants"), [RunRequest(name, SPEC) for name in ("las:queues=3600/7200", "srtf", "fifo")]
    pressed: list[float] = []

    def press(part: float) -> None:
        if not pressed:
            signal.raise_signal(signal.SIGINT)
        pressed.append(part)

    kept_runs = KeptRuns(trace, resume=False, folder=store)
    with pytest.raises(KeyboardInterrupt):
        play(trace.jobs, requests, processes=processes, part=press, kept=kept_runs)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert kept_runs.number >= (1 if processes == 1 else 0)
    again = play(trace.jobs, requests, processes=processes, kept=KeptRuns(trace, resume=True, folder=store))
    assert [bare(run) for run in again] == [bare(run) for run in play(trace.jobs, requests, processes=1)]
    assert list(store.glob("*")) == [], "nothing is left to resume"


@pytest.mark.usefixtures("ctrl_c")
def test_a_second_ctrl_c_ends_at_once(store: Path) -> None:
    trace = load("tenants")
    after: list[int] = []

    def press(_: float) -> None:
        for time in (1, 2):
            signal.raise_signal(signal.SIGINT)
            after.append(time)

    with pytest.raises(KeyboardInterrupt):
        play(
            trace.jobs,
            [RunRequest("srtf", SPEC)],
            processes=1,
            part=press,
            kept=KeptRuns(trace, resume=False, folder=store),
        )
    assert after == [1]
    assert not list(store.glob("*"))


def test_what_was_kept_is_for_the_same_question_only(store: Path) -> None:
    trace, request = load("tenants"), RunRequest("srtf", SPEC)
    with pytest.raises(PausedError) as paused:
        simulate(trace.jobs, SPEC, request.policy, stop=lambda: True)
    KeptRuns(trace, resume=True, folder=store).pause(request, paused.value.snapshot)
    kept_runs = KeptRuns(trace, resume=True, folder=store)
    assert kept_runs.snapshot(request) == paused.value.snapshot
    for other in (replace(request, seed=1), replace(request, log=True), replace(request, cluster=homogeneous(9, 8))):
        assert kept_runs.snapshot(other) is None
    assert KeptRuns(trace, resume=False, folder=store).snapshot(request) is None
    assert KeptRuns(load("tiny"), resume=True, folder=store).snapshot(request) is None


def test_a_parameter_too_long_for_a_path_is_no_file(store: Path) -> None:
    request = RunRequest(f"las:queues={'/'.join(map(str, range(1, 20_000)))}", SPEC)
    kept_runs = KeptRuns(load("tiny"), resume=True, folder=store)
    kept_runs.pause(request, b"half")
    assert kept_runs.snapshot(request) == b"half"


def test_a_search_for_a_size_resumes_with_the_trials_that_are_missing(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paictl.sim.checkpoints.WORTH", 0)
    trace, goal = load("tenants"), target("p95 queueing <= 1h")
    played: list[int] = []

    def interrupt(trial: SizingTrial) -> None:
        if trial.nodes == 8:
            raise KeyboardInterrupt

    kept_runs = KeptRuns(trace, resume=False, folder=store)
    with pytest.raises(KeyboardInterrupt):
        size(trace.jobs, NodeOffer("gpu", 8), [goal], "srtf", tried=interrupt, kept=kept_runs)
    assert len(list(store.glob("*.run"))) == 4

    def counted(*arguments: Any, **more: Any) -> RunResult:
        played.append(1)
        return simulate(*arguments, **more)

    monkeypatch.setattr("paictl.sim.parallel.simulate", counted)
    again = KeptRuns(trace, resume=True, folder=store)
    answer = size(trace.jobs, NodeOffer("gpu", 8), [goal], "srtf", kept=again)
    assert len(played) == len(answer.trials) - 4
    assert answer == size(trace.jobs, NodeOffer("gpu", 8), [goal], "srtf")
    assert not list(store.glob("*"))


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("at", [0.1, 0.5, 0.9])
def test_a_comparison_of_promises_resumes_where_it_was(store: Path, monkeypatch: pytest.MonkeyPatch, at: float) -> None:
    monkeypatch.setattr("paictl.sim.checkpoints.WORTH", 0)
    path = resource_folder("examples") / "cluster"
    document = configuration(load_configuration([str(path)]))
    hived, spec = HivedSpec.from_mapping(document.data), from_hived(document, str(path))  # type: ignore[arg-type]
    jobs = [
        replace(job, vc=("vision", "speech")[number % 2], gpus=min(job.gpus, 4))
        for number, job in enumerate(load("tenants").jobs[:120])
    ]
    trace, kinds, pressed = replace(load("tenants"), jobs=tuple(jobs)), list(PromiseKind), list[float]()

    def press(part: float) -> None:
        if part > at and not pressed:
            pressed.append(part)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        play_each(kinds, jobs, hived, spec, press, KeptRuns(trace, resume=False, folder=store))
    assert list(store.glob("*"))
    again = KeptRuns(trace, resume=True, folder=store)
    resumed = play_each(kinds, jobs, hived, spec, lambda _: None, again)
    assert resumed == play_each(kinds, jobs, hived, spec, lambda _: None)
    assert not list(store.glob("*"))


@pytest.mark.parametrize(
    "words",
    [
        ["run", "tenants", "--policy", "srtf", "--cluster", "10x8"],
        ["compare", "tenants", "--policy", "fifo", "--policy", "srtf", "--cluster", "10x8"],
        ["sweep", "tenants", "--policy", "easy:factor=1..2", "--cluster", "10x8"],
        ["size", "tenants", "--policy", "srtf", "--target", "p95 queueing <= 1h"],
    ],
)
def test_the_commands_say_how_to_resume(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    more = ["--processes", "1"] if words[0] in ("compare", "sweep") else []
    command = ["sim", *words, *more, "-o", "json"]
    assert paictl(command) == 0
    whole = capsys.readouterr().out

    instants = count()
    with monkeypatch.context() as patch:
        patch.setattr("paictl.sim.parallel._stoppable", lambda _: nullcontext(lambda: next(instants) > 100))
        assert paictl(command) == 130
    output = capsys.readouterr()
    assert output.out == ""
    assert "--resume" in output.err
    assert paictl([*command, "--resume"]) == 0
    again = capsys.readouterr().out
    assert _without_time(again) == _without_time(whole)
    assert not list(tmp_path.rglob("*.part"))


def _without_time(text: str) -> list[str]:
    return [line for line in text.splitlines() if "wall_seconds" not in line]
