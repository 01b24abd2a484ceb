"""Runs in several processes: results in the order of the requests, errors with a hint."""

from __future__ import annotations

import multiprocessing

import pytest

from paictl.errors import PaictlError
from paictl.sim.cluster import homogeneous
from paictl.sim.parallel import RunRequest, play
from paictl.sim.traces.load import load


def test_an_error_in_another_process_is_the_same_error_and_leaves_nobody_behind() -> None:
    jobs, spec = load("tiny").jobs, homogeneous(2, 8)
    before = {child.pid for child in multiprocessing.active_children()}  # other tests of this process may have some
    with pytest.raises(PaictlError, match="no policy 'nope'") as refused:
        play(jobs, [RunRequest("fifo", spec), RunRequest("nope", spec)], processes=2)
    assert refused.value.hint
    assert not [child for child in multiprocessing.active_children() if child.pid not in before]


def test_how_far_it_is_is_told_after_each_run() -> None:
    jobs, spec = load("tiny").jobs, homogeneous(2, 8)
    for processes in (1, 2):
        reports: list[int] = []
        runs = play(
            jobs, [RunRequest(name, spec) for name in ("fifo", "srtf", "las")], processes=processes, done=reports.append
        )
        assert reports == [1, 2, 3]
        assert [run.policy for run in runs] == ["fifo", "srtf", "las"]


def test_a_few_jobs_are_played_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paictl.sim.parallel.ProcessPoolExecutor", None)
    runs = play(load("tiny").jobs, [RunRequest(name, homogeneous(2, 8)) for name in ("fifo", "srtf")])
    assert [run.policy for run in runs] == ["fifo", "srtf"]
