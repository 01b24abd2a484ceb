"""EASY and conservative backfill: worked examples, and the guarantees of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.sim.cluster import homogeneous, mixed
from paictl.sim.job import Job
from paictl.sim.policies.conservative import Profile
from paictl.sim.run import Ending, RunResult
from paictl.sim.simulate import simulate
from paictl.units import Millis


def job(name: str, at: int, gpus: int, seconds: int, limit: int | None = None, gpu_type: str | None = None) -> Job:
    return Job(
        name,
        Millis(at * 1000),
        gpus,
        Millis(seconds * 1000),
        gpu_type=gpu_type,
        limit=None if limit is None else Millis(limit * 1000),
    )


def starts(result: RunResult) -> dict[str, float]:
    return {outcome.id: (outcome.first_start or 0) / 1000 for outcome in result.outcomes}


EXTRA = [job("A", 0, 2, 10, 10), job("B", 1, 3, 10, 10), job("C", 2, 4, 5, 5), job("D", 3, 1, 20, 20)]
IN_TIME = [*EXTRA[:3], job("D", 3, 2, 7, 7), job("E", 4, 1, 30, 30)]
BESIDE = [*EXTRA[:2], job("D", 3, 1, 20, 20), job("E", 3, 1, 20, 20)]
"""Of two long jobs that arrive together, only one may have the device that B does not need."""
EARLY = [job("A", 0, 3, 4, 10), job("B", 1, 4, 5, 5), job("C", 2, 1, 8, 8), job("D", 3, 1, 5, 5)]

CASES = [
    (EXTRA, "easy", {"A": 0, "B": 10, "C": 23, "D": 3}),
    (EXTRA, "conservative", {"A": 0, "B": 10, "C": 20, "D": 25}),
    (IN_TIME, "easy", {"A": 0, "B": 10, "C": 20, "D": 3, "E": 25}),
    (IN_TIME, "conservative", {"A": 0, "B": 10, "C": 20, "D": 3, "E": 25}),
    (BESIDE, "easy", {"A": 0, "B": 10, "D": 3, "E": 20}),
    (EARLY, "easy", {"A": 0, "B": 10, "C": 2, "D": 4}),
    (EARLY, "conservative", {"A": 0, "B": 10, "C": 2, "D": 4}),
]


@pytest.mark.parametrize(("jobs", "policy", "expected"), CASES)
def test_worked_cases_on_four_devices(jobs: list[Job], policy: str, expected: dict[str, float]) -> None:
    assert starts(simulate(jobs, homogeneous(1, 4), policy)) == expected


def test_an_early_end_moves_reservations_forward() -> None:
    result = simulate(EARLY, homogeneous(1, 4), "conservative")
    assert {outcome.id: outcome.notes["promise"] for outcome in result.outcomes} == {"A": 0, "B": 10, "C": 2, "D": 15}
    assert result.counters["mean_slack"] == pytest.approx(-11 / 4)


def test_a_job_ends_at_its_limit() -> None:
    jobs = [job("long", 0, 1, 100, 10), job("next", 1, 1, 5)]
    for policy in ("easy", "conservative"):
        result = simulate(jobs, homogeneous(1, 1), policy)
        assert [outcome.ending for outcome in result.outcomes] == [Ending.STOPPED, Ending.PASSED]
        assert starts(result) == {"long": 0, "next": 10}
        assert (result.counters["over_limit"], result.counters["promises_broken"]) == (1, 0)


def test_a_job_may_run_past_its_limit_and_then_breaks_promises() -> None:
    jobs = [job("long", 0, 1, 100, 10), job("next", 1, 1, 5)]
    for policy in ("easy:overrun=run", "conservative:overrun=run"):
        result = simulate(jobs, homogeneous(1, 1), policy)
        assert starts(result) == {"long": 0, "next": 100}
        assert (result.counters["over_limit"], result.counters["promises_broken"]) == (1, 1)
        assert result.counters["max_slack"] == 90


@pytest.mark.parametrize(
    ("limits", "expected"),
    [("limits=exact", 10.0), ("limits=factor,factor=3", 30.0), ("limits=max,limit=1h", 3600.0)],
)
def test_jobs_without_a_limit_have_that_of_the_parameters(limits: str, expected: float) -> None:
    result = simulate([job("a", 0, 1, 10), job("b", 0, 1, 10, 77)], homogeneous(1, 2), f"easy:{limits}")
    assert [outcome.notes["limit"] for outcome in result.outcomes] == [expected, 77]


def test_drawn_limits_are_between_once_and_factor_times_the_duration_and_follow_the_seed() -> None:
    jobs = [job(str(number), 0, 1, 10) for number in range(50)]
    runs = [simulate(jobs, homogeneous(1, 4), "easy:limits=user,factor=4", seed=seed) for seed in (0, 0, 1)]
    drawn = [[outcome.notes["limit"] for outcome in run.outcomes] for run in runs]
    assert drawn[0] == drawn[1] != drawn[2]
    assert min(drawn[0]) >= 10
    assert max(drawn[0]) <= 40
    assert max(drawn[0]) - min(drawn[0]) > 20


def test_where_places_matter_the_head_keeps_its_nodes() -> None:
    """Two nodes of 4: b needs a whole node, the first is free at 10; d would spoil it, e ends before."""
    jobs = [job("a", 0, 3, 10), job("c", 0, 3, 30), job("b", 1, 4, 5), job("d", 2, 1, 50), job("e", 3, 1, 6)]
    result = simulate(jobs, homogeneous(2, 4), "easy:placement=consolidate", log=True)
    assert starts(result) == {"a": 0, "c": 0, "b": 10, "d": 2, "e": 3}
    places = {entry.job: entry.devices for entry in result.log if entry.what == "start"}
    assert places["d"][0] // 4 == places["c"][0] // 4, "d runs long, so not on the node that b waits for"
    assert places["e"][0] // 4 == places["a"][0] // 4


def test_a_job_that_never_finds_a_place_blocks_nobody() -> None:
    jobs = [job("wide", 0, 6, 5), job("small", 1, 1, 5)]
    result = simulate(jobs, mixed([("x", 1, 4), ("y", 1, 4)]), "easy:placement=consolidate")
    assert [outcome.ending for outcome in result.outcomes] == [Ending.UNFINISHED, Ending.PASSED]


def test_reservations_beyond_the_depth_wait_in_line() -> None:
    jobs = [job("a", 0, 2, 10), job("b", 1, 2, 10), job("c", 2, 2, 10), job("d", 3, 1, 1)]
    shallow = simulate(jobs, homogeneous(1, 2), "conservative:depth=1")
    assert starts(shallow) == {"a": 0, "b": 10, "c": 20, "d": 30}
    assert {outcome.id: outcome.notes["promise"] for outcome in shallow.outcomes} == {"a": 0, "b": 10, "c": 20, "d": 30}


@st.composite
def traces(draw: st.DrawFn) -> list[Job]:
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, 20), st.sampled_from([1, 1, 2, 3, 4, 6]), st.integers(1, 20), st.integers(0, 15)),
            min_size=1,
            max_size=16,
        )
    )
    return [job(str(n), at, gpus, work, work + more) for n, (at, gpus, work, more) in enumerate(rows)]


@settings(max_examples=150)
@given(jobs=traces(), policy=st.sampled_from(["easy", "easy:placement=consolidate", "conservative"]))
def test_no_promise_is_broken_and_everybody_runs(jobs: list[Job], policy: str) -> None:
    result = simulate(jobs, homogeneous(2, 4), policy)
    assert result.counters["promises_broken"] == 0
    assert {outcome.ending for outcome in result.outcomes} == {Ending.PASSED}


@settings(max_examples=60)
@given(jobs=traces())
def test_conservative_never_starts_later_than_the_first_reservation(jobs: list[Job]) -> None:
    result = simulate(jobs, homogeneous(2, 4), "conservative")
    for outcome in result.outcomes:
        assert outcome.first_start is not None
        assert outcome.first_start / 1000 <= outcome.notes["promise"]


@settings(max_examples=60)
@given(jobs=traces())
def test_easy_is_the_plain_scan_of_the_line(jobs: list[Job]) -> None:
    """The same by a walk over all waiting jobs."""
    assert starts(simulate(jobs, homogeneous(2, 4), "easy")) == _by_hand(jobs, 8)


def _by_hand(jobs: list[Job], size: int) -> dict[str, float]:
    line: list[Job] = []
    coming = sorted(jobs, key=lambda job: job.submit)
    runs: list[tuple[int, int, Job]] = []
    began: dict[str, float] = {}
    now = 0

    def start(job: Job) -> None:
        began[job.id] = now / 1000
        runs.append((now + job.work, now + (job.limit or 0), job))
        line.remove(job)

    def free() -> int:
        return size - sum(job.gpus for _, _, job in runs)

    while coming or line or runs:
        now = min([end for end, _, _ in runs] + [first.submit for first in coming[:1]])
        runs[:] = [row for row in runs if row[0] > now]
        while coming and coming[0].submit == now:
            line.append(coming.pop(0))
        while line and line[0].gpus <= free():
            start(line[0])
        if not line:
            continue
        shadow = min(
            at for _, at, _ in runs if free() + sum(job.gpus for _, plan, job in runs if plan <= at) >= line[0].gpus
        )
        extra = free() + sum(job.gpus for _, plan, job in runs if plan <= shadow) - line[0].gpus
        for waiting in line[1:]:
            in_time = now + (waiting.limit or 0) <= shadow
            if waiting.gpus <= free() and (in_time or waiting.gpus <= extra):
                extra -= 0 if in_time else waiting.gpus
                start(waiting)
    return began


def test_a_fleet_of_several_types_is_reserved_by_type() -> None:
    jobs = [
        job("x1", 0, 2, 10, gpu_type="x"),
        job("any", 1, 2, 10),
        job("x2", 2, 2, 5, gpu_type="x"),
        job("y1", 3, 1, 4, gpu_type="y"),
        job("wide", 4, 4, 5),
    ]
    spec = mixed([("x", 1, 2), ("y", 1, 2)])
    for policy in ("conservative", "easy"):
        assert starts(simulate(jobs, spec, policy)) == {"x1": 0, "any": 1, "x2": 10, "y1": 11, "wide": 15}


HORIZON = 400


@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 20), st.integers(0, 3), st.booleans()), min_size=1, max_size=20
    )
)
def test_the_earliest_place_is_found_wherever_earlier_searches_ended(rows: list[tuple[int, int, int, bool]]) -> None:
    """Against a table of every instant: reservations, passing time, and devices that are freed early."""
    profile, free, now = Profile({"x": 5}), [5] * HORIZON, 0
    for number, length, passed, back in rows:
        now += passed
        profile.pass_to(now)
        expected = next(at for at in range(now, HORIZON) if min(free[at : at + length]) >= number)
        assert profile.earliest("x", number, length) == (expected, {"x": number})
        profile.change({"x": -number}, expected, expected + length)
        if back:
            profile.change({"x": number}, expected, expected + length)
        else:
            free[expected : expected + length] = [
                number_free - number for number_free in free[expected : expected + length]
            ]


class Looks(list[int]):
    """A row that counts how often it is looked at."""

    number = 0

    def __getitem__(self, place: Any) -> Any:
        Looks.number += 1
        return super().__getitem__(place)

    def __iter__(self) -> Iterator[int]:
        return (self[place] for place in range(len(self)))


def test_a_search_does_not_look_through_all_that_is_reserved_before() -> None:
    profile = Profile({"x": 4})
    profile._rows["x"] = Looks([4])
    for place in range(600):
        number, length = 3, 100 + place % 7
        start, parts = profile.earliest("x", number, length)
        profile.change({kind: -devices for kind, devices in parts.items()}, start, start + length)
    assert Looks.number < 600 * 20, "180,000 where each search begins now"
