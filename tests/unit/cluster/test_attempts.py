"""Attempts of jobs, from events: any that there may be; Kubernetes' are in tests/unit/controller/test_events.py."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from paictl.cluster.attempts import JobAttempt, attempts_of
from paictl.cluster.interface import Event, EventKind, JobState, JobView

BEGIN = datetime(2026, 11, 25, 8, tzinfo=UTC)


def at(minute: int) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def event(minute: int, kind: EventKind, **data: object) -> Event:
    return Event(minute, at(minute), kind, "job/ann~one", "", data)


def task(minute: int, kind: EventKind, reason: str = "", index: int = 0, node: str = "n1") -> Event:
    return event(minute, kind, role="worker", index=index, reason=reason, node=node)


def view(state: JobState, attempt: int, ended: int | None = None, reason: str = "") -> JobView:
    return JobView(
        "ann~one",
        "A",
        "test",
        state,
        at(0),
        2,
        started=at(9),
        ended=None if ended is None else at(ended),
        attempt=attempt,
        reason=reason,
    )


FALLEN = [
    event(0, EventKind.SUBMITTED),
    task(1, EventKind.STARTED),
    task(1, EventKind.STARTED, index=1, node="n2"),
    task(3, EventKind.FAILED, "exit code 137", index=1),
    task(3, EventKind.KILLED, "the job starts again"),
    event(3, EventKind.RETRIED, next=2),
    task(5, EventKind.STARTED),
    task(6, EventKind.PREEMPTED, "preempted by bob~high"),
    event(6, EventKind.RETRIED, next=3),
    task(9, EventKind.STARTED, node="n3"),
]


def test_each_attempt_has_its_start_end_exit_code_and_what_ended_it() -> None:
    found = attempts_of(view(JobState.RUNNING, 2), FALLEN)
    assert found == (
        JobAttempt(0, "failed", at(1), at(3), 137, "exit code 137", "worker[1]", ("n1", "n2")),
        JobAttempt(1, "preempted", at(5), at(6), None, "preempted by bob~high", "worker[0]", ("n1",)),
        JobAttempt(2, "running", at(9), nodes=("n3",)),
    )


def test_of_several_ends_the_first_brought_the_attempt_down() -> None:
    story = [
        task(1, EventKind.STARTED),
        task(3, EventKind.FAILED, "exit code 3"),
        task(4, EventKind.FAILED, "exit code 143", index=1),
        event(4, EventKind.RETRIED, next=2),
    ]
    first = attempts_of(view(JobState.RUNNING, 1), story)[0]
    assert (first.exit_code, first.task) == (3, "worker[0]")


def test_the_last_attempt_ends_with_the_job() -> None:
    failed = [*FALLEN, task(11, EventKind.FAILED, "OOMKilled (exit code 9)"), event(11, EventKind.FAILED)]
    last = attempts_of(view(JobState.FAILED, 2, 11, "worker[0] failed"), failed)[-1]
    assert (last.outcome, last.ended, last.exit_code, last.task) == ("failed", at(11), 9, "worker[0]")
    assert last.reason == "worker[0] failed"
    done = attempts_of(view(JobState.SUCCEEDED, 2, 11), [*FALLEN, task(11, EventKind.FINISHED)])[-1]
    assert (done.outcome, done.exit_code, done.reason) == ("finished", 0, "")
    stopped = attempts_of(view(JobState.STOPPED, 2, 11), [*FALLEN, task(11, EventKind.KILLED)])[-1]
    assert (stopped.outcome, stopped.exit_code, stopped.task) == ("stopped", None, "")


def test_attempts_that_nobody_remembers_keep_their_numbers() -> None:
    """A cluster keeps the last ones only."""
    kept = [event(6, EventKind.RETRIED, next=8, reason="worker[0] was lost"), task(9, EventKind.STARTED)]
    assert [(one.number, one.outcome, one.reason) for one in attempts_of(view(JobState.RUNNING, 7), kept)] == [
        (6, "failed", "worker[0] was lost"),
        (7, "running", ""),
    ]


@given(st.lists(st.sampled_from([*EventKind]), max_size=30), st.sampled_from([*JobState]))
def test_there_is_one_attempt_more_than_retries_and_only_the_last_has_no_end(
    kinds: list[EventKind], state: JobState
) -> None:
    told, retries = [], 0
    for minute, kind in enumerate(kinds):
        retries += kind is EventKind.RETRIED
        told.append(event(minute, kind, next=retries + 1) if kind is EventKind.RETRIED else task(minute, kind))
    found = attempts_of(view(state, retries, 40 if state.ended else None), told)
    assert [one.number for one in found] == list(range(retries + 1))
    assert all(one.ended is not None for one in found[:-1])
    assert (found[-1].ended is not None) == state.ended
    assert all(one.started <= one.ended for one in found[:-1] if one.started is not None and one.ended is not None)
