"""The record of a job survives the way into the status of a `PaiJob` and back, and is small."""

from __future__ import annotations

import json
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.kubernetes.paijob.record import (
    KEPT_TASKS,
    AttemptLine,
    JobRecord,
    LastRun,
    numbers,
    ranges,
    read_record,
    status_json,
    with_attempt,
)
from paictl.units import from_unix
from paictl.workload.lifecycle import JobStatus, RunState, TaskStatus

NOW = from_unix(1_795_000_000)


@given(st.sets(st.integers(0, 300)))
def test_ranges_are_read_back(indices: set[int]) -> None:
    assert set(numbers(ranges(indices))) == indices


TASK = st.builds(
    lambda state, tries, retries, counted: (state, tries + retries, retries, min(counted, retries)),
    st.sampled_from(list(RunState)),
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
)
RUN = st.builds(
    LastRun,
    st.sampled_from(["n1", "n2"]),
    st.sets(st.integers(0, 7)).map(lambda found: tuple(sorted(found))),
    st.just(NOW),
    st.none() | st.integers(0, 99).map(lambda span: NOW + timedelta(seconds=span)),
    st.sampled_from(["", "exit code 1", "a / b"]),
    st.sampled_from(["", "preempted"]),
    st.sampled_from(["", "0:3,1:0"]),
)


@given(st.lists(TASK, min_size=1, max_size=12), st.lists(RUN, max_size=12), st.sampled_from(list(RunState)))
def test_a_record_is_read_back(
    tasks: list[tuple[RunState, int, int, int]], runs: list[LastRun], state: RunState
) -> None:
    half = (len(tasks) + 1) // 2
    places = [("a", index) for index in range(half)] + [("b_2", index) for index in range(len(tasks) - half)]
    rows = tuple(TaskStatus(place[0], place[1], *task) for place, task in zip(places, tasks, strict=True))
    last = dict(zip(places, runs, strict=False))
    record = JobRecord(
        JobStatus(state, rows, 2, 1),
        {"a": {"leafCellNumber": 2}},
        4,
        NOW,
        None,
        3,
        "why",
        last,
        (AttemptLine(0, None, NOW, "gone"), AttemptLine(1, NOW, NOW, "gone", last)),
        closed=True,
    )
    assert read_record(json.loads(json.dumps(status_json(record)))) == record


def test_a_job_of_ten_thousand_tasks_fits_into_its_object_at_worst() -> None:
    """Nothing alike: neighbours differ in state and tries, on 1,000 nodes, for 256 reasons, after 500 attempts."""
    tasks = tuple(
        TaskStatus("worker", index, list(RunState)[index % 5], index % 7, index % 3, index % 2)
        for index in range(10_000)
    )
    runs = {
        ("worker", index): LastRun(
            f"node-with-a-long-name-{index % 1000}",
            tuple(range(index % 8, 8)),
            NOW,
            NOW + timedelta(seconds=index),
            f"exit code {index % 256}",
        )
        for index in range(10_000)
    }
    lines: tuple[AttemptLine, ...] = ()
    for number in range(500):
        lines = with_attempt(lines, AttemptLine(number, NOW, NOW, "worker[9999]: " + "x" * 300))
    record = JobRecord(JobStatus(RunState.FAILED, tasks), {}, 80_000, NOW, NOW, 0, "", runs, lines)
    size = len(json.dumps(status_json(record)))
    assert size < 500_000
    assert [line.number for line in (lines[0], lines[4], lines[-1])] == [0, 4, 499]


def test_how_tasks_ran_in_attempts_before_takes_little_of_a_small_job_that_starts_again_and_again() -> None:
    runs = {
        ("worker", index): LastRun(f"node-with-a-long-name-{index}", tuple(range(8)), NOW, NOW, "y" * 300, "preempted")
        for index in range(KEPT_TASKS)
    }
    lines: tuple[AttemptLine, ...] = ()
    for number in range(500):
        lines = with_attempt(lines, AttemptLine(number, NOW, NOW, "x" * 300, runs))
    tasks = tuple(TaskStatus("worker", index, RunState.WAITING, 500, 0, 0) for index in range(KEPT_TASKS))
    assert len(json.dumps(status_json(JobRecord(JobStatus(RunState.WAITING, tasks, 500), attempts=lines)))) < 120_000


def test_a_status_that_nobody_has_written_is_none() -> None:
    assert read_record({}) is None
