"""Reservations under `hived`: valid files, and their effect in simulated time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paictl.sim.checkpoints import KeptRuns, RunRequest
from paictl.sim.cluster import ClusterShape, homogeneous
from paictl.sim.job import Job, Trace
from paictl.sim.policies.parameters import ParameterError
from paictl.sim.run import RunResult
from paictl.sim.simulate import PausedError, simulate
from paictl.units import Millis

HOUR = 3_600_000
OF_A = "vc: a, cells: 2xgpu-NODE-2"


def shape() -> ClusterShape:
    """Four nodes of two devices: two are promised to a, one to b, and one to nobody."""
    return replace(homogeneous(4, 2), quotas={"a": 4, "b": 2})


def job(name: str, at: float, gpus: int, hours: float, reservation: str = "", vc: str = "a") -> Job:
    return Job(
        name,
        Millis(round(at * HOUR)),
        gpus,
        Millis(round(hours * HOUR)),
        vc=vc,
        pod=min(gpus, 2),
        reservation=reservation,
    )


JOBS = [
    job("short", 0, 4, 3),
    job("long", 0.5, 2, 5),
    job("big", 4, 4, 1, "night"),
    job("more", 4, 2, 1, "night"),
    job("other", 4, 2, 9, vc="b"),
]


def written(folder: Path, text: str) -> str:
    path = folder / "reservations.yaml"
    path.write_text(text, encoding="utf-8")
    return f"hived:reservations={path}"


def starts(result: RunResult) -> dict[str, float | None]:
    return {
        outcome.id: None if outcome.first_start is None else outcome.first_start / HOUR for outcome in result.outcomes
    }


def test_nothing_runs_into_a_reservation_and_its_jobs_share_it(tmp_path: Path) -> None:
    policy = written(tmp_path, f"- {{name: night, {OF_A}, from: 5h, for: 2h}}\n")
    expected = {"short": 0, "long": 7, "big": 5, "more": 6, "other": 4}
    assert starts(simulate(JOBS, shape(), policy)) == expected
    without = starts(simulate(JOBS, shape(), "hived"))
    assert without == {"short": 0, "long": 3, "big": 8, "more": 4, "other": 4}, "the names mean nothing then"


@pytest.mark.parametrize(("repeat", "at"), [("once", 30), ("daily", 31), ("weekly", 30)])
def test_a_reservation_comes_again(tmp_path: Path, repeat: str, at: int) -> None:
    policy = written(tmp_path, f"- {{name: night, {OF_A}, from: 5h, for: 2h, repeat: {repeat}}}\n")
    jobs = [job("first", 0, 2, 1), job("late", 28.5, 2, 1), job("next", 30, 2, 1)]
    assert starts(simulate(jobs, shape(), policy)) == {
        "first": 0,
        "late": 31 if repeat == "daily" else 28.5,
        "next": at,
    }


def test_dates_count_from_the_start(tmp_path: Path) -> None:
    row = '{"name": "night", "start": "2026-12-01T20:00:00Z", "end": "2026-12-01T22:00:00Z", "vc": "a", "cells": 2, '
    more = '"cell_type": "gpu-NODE-2", "nodes": [], "repeat": "once", "reason": "", "active": false, "used": 0, '
    policy = written(tmp_path, f'[{row}{more}"size": "", "short": 0}}]')
    jobs = [job("big", 0, 4, 1, "night")]
    assert starts(simulate(jobs, shape(), f"{policy},start=2026-12-01T13:00")) == {"big": 7}
    assert starts(simulate(jobs, shape(), f"{policy},start=2026-12-01T21:00")) == {"big": 0}, "it lasts already"


def test_nodes_of_the_free_pool_are_closed_to_others(tmp_path: Path) -> None:
    opportunistic = [replace(job(f"o{number}", number / 100, 2, 4, vc="c"), vc="c") for number in range(4)]
    policy = written(tmp_path, "- {name: demo, nodes: gpu-4, from: 2h, for: 1h}\n")
    times = starts(simulate([*opportunistic, job("show", 0.5, 2, 1, "demo")], shape(), policy))
    assert times == {"o0": 0, "o1": 0.01, "o2": 0.02, "o3": 3, "show": 2}


def test_a_run_with_reservations_can_be_paused(tmp_path: Path) -> None:
    policy = written(tmp_path, f"- {{name: night, {OF_A}, from: 5h, for: 2h}}\n") + ",backfill=easy"
    with pytest.raises(PausedError) as paused:
        simulate(JOBS, shape(), policy, stop=lambda: True)
    resumed = simulate(JOBS, shape(), policy, snapshot=paused.value.snapshot)
    assert starts(resumed) == starts(simulate(JOBS, shape(), policy))


def test_a_run_that_was_kept_is_another_one_with_other_reservations(tmp_path: Path) -> None:
    trace = Trace(tuple(JOBS), sha256="0" * 64)
    kept_runs = KeptRuns(trace, resume=True, folder=tmp_path / "kept")
    request = RunRequest(written(tmp_path, f"- {{name: night, {OF_A}, from: 5h, for: 2h}}\n"), shape())
    kept_runs.pause(request, b"so far")
    assert kept_runs.snapshot(request) == b"so far"
    written(tmp_path, f"- {{name: night, {OF_A}, from: 6h, for: 2h}}\n")
    assert kept_runs.snapshot(request) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "is not a list of reservations"),
        ("a: [", "is not YAML"),
        (f"- {{{OF_A}, from: 2026-13-45, for: 1h}}", "is not YAML"),
        ("- {vc: a, cells: 10000000000, cell_type: gpu-NODE-2, for: 1h}", "has 8 devices, and this needs 20000000000"),
        ("- {vc: a, cells: 0, cell_type: gpu-NODE-2, for: 1h}", "has no cells"),
        ("- 3", r"\[0\] is not a reservation"),
        ("- {nodes: 4, for: 1h}", r"\[0\] is not a reservation"),
        ("- {vc: a, for: 1h}", "name the cells"),
        ("- {vc: [a], cells: 2xgpu-NODE-2, for: 1h}", r"\[0\] is not a reservation"),
        ("- {nodes: [[gpu-4]], for: 1h}", r"\[0\] is not a reservation"),
        (f"- {{{OF_A}, for: 1h, cell: 2}}", "unknown key 'cell'"),
        (f"- {{{OF_A}}}", "does not say how long it lasts"),
        (f"- {{{OF_A}, for: -1h}}", "'-1h' is not a time"),
        (f"- {{{OF_A}, for: 2026-12-01}}", "'2026-12-01' is not a time"),
        (f"- {{{OF_A}, from: soon, for: 1h}}", "'soon' is not a time"),
        (f"- {{{OF_A}, from: 22:00, for: 1h}}", "'22:00' is not a time"),
        (f"- {{{OF_A}, for: 0}}", "ends before it begins"),
        (f"- {{{OF_A}, for: 1h, repeat: yearly}}", "'yearly' is not one of once, daily, weekly"),
        ("- {vc: a, cells: two, for: 1h}", "'two' is not a number of cells"),
        ("- {cells: 2xgpu-NODE-2, for: 1h}", "name the cells"),
        ("- {vc: z, cells: 2xgpu-NODE-2, for: 1h}", "no virtual cluster 'z'"),
        ("- {vc: a, cells: 2xgpu-NODE, for: 1h}", "no cell type 'gpu-NODE'"),
        ("- {vc: a, cells: 3xgpu-NODE-2, for: 1h}", "a is promised 2xgpu-NODE-2, not 3xgpu-NODE-2"),
        (f"- {{{OF_A}, for: 1h}}\n- {{{OF_A}, from: 30m, for: 1h}}", r"\[1\]: it overlaps reservation reservation-1"),
        ("- {nodes: [gpu-3, gpu-4], for: 1h}", "promises need these nodes"),
        ("- {nodes: [gpu-9], for: 1h}", "no node 'gpu-9'"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        simulate(JOBS[:2], shape(), written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cannot read"):
        simulate(JOBS[:2], shape(), f"hived:reservations={tmp_path}/none.yaml")


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (job("x", 0, 2, 1, "nigth"), "no reservation 'nigth'"),
        (job("x", 0, 2, 1, "night", vc="b"), "no reservation 'night' for virtual cluster b"),
        (
            job("x", 0, 6, 1, "night", vc="a"),
            "reservation night keeps cells of a promise, which an opportunistic job cannot use",
        ),
    ],
)
def test_a_job_that_can_never_start_in_its_reservation_is_refused(tmp_path: Path, one: Job, said: str) -> None:
    with pytest.raises(ParameterError, match=f"job x: {said}"):
        simulate([one], shape(), written(tmp_path, f"- {{name: night, {OF_A}, from: 5h, for: 2h}}\n"))
