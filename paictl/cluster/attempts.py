"""The attempts of a job as a whole: when each began and ended, how, and with which exit code; told by the events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from paictl.cluster.values import ENDS, AttemptOutcome, Event, EventKind, JobState, JobView
from paictl.frozen import frozen
from paictl.i18n import text

WAITING: Final = "waiting"
"""The outcome of an attempt that has not begun."""
_EXIT_CODE: Final = re.compile(r"\bexit code (\d{1,3})\b")
_OVER: Final = {
    JobState.SUCCEEDED: AttemptOutcome.FINISHED,
    JobState.FAILED: AttemptOutcome.FAILED,
    JobState.STOPPED: AttemptOutcome.STOPPED,
}
_FALLS: Final = (AttemptOutcome.FAILED, AttemptOutcome.PREEMPTED, AttemptOutcome.LOST)


@frozen
class JobAttempt:
    """One attempt; `number` counts from 0, `outcome` is an `AttemptOutcome` or ``waiting``.

    `task` is the one that ended it, where a task did, as ``role[index]``; `nodes` are those where its tasks ran.
    """

    number: int
    outcome: str
    started: datetime | None = None
    ended: datetime | None = None
    exit_code: int | None = None
    reason: str = ""
    task: str = ""
    nodes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Attempt:
    """An attempt on the way through the events; `fall` is the first end that can have brought it down."""

    number: int = 0
    started: datetime | None = None
    nodes: dict[str, None] = field(default_factory=dict)
    fall: tuple[AttemptOutcome, str, str] | None = None

    def ended(self, at: datetime | None, outcome: AttemptOutcome | None, reason: str) -> JobAttempt:
        """What became of it; without an `outcome` that of its fall."""
        fallen, why, task = self.fall or (AttemptOutcome.FAILED, "", "")
        kind = outcome or fallen
        by_task = kind is fallen and self.fall is not None
        words = reason or (why if by_task else "")
        code = 0 if kind is AttemptOutcome.FINISHED else _exit_code(words) or (_exit_code(why) if by_task else None)
        return JobAttempt(
            self.number, kind.value, self.started, at, code, words, task if by_task else "", tuple(self.nodes)
        )


def attempts_of(job: JobView, events: Iterable[Event]) -> tuple[JobAttempt, ...]:
    """The attempts of a job from its events in order, the first one first; the last one is the present or final one.

    Attempts of which the cluster keeps nothing any more are not among them.
    """
    attempts: list[JobAttempt] = []
    now = _Attempt()
    for event in events:
        if event.kind is EventKind.RETRIED:
            number = int(event.data.get("next", now.number + 2)) - 1
            now.number = number - 1
            attempts.append(now.ended(event.at, None, str(event.data.get("reason", ""))))
            now = _Attempt(number)
        elif "role" in event.data:
            _tell(now, event)
    now.number = job.attempt
    if job.state.ended:
        attempts.append(now.ended(job.ended, _OVER[job.state], job.reason))
    else:
        outcome = AttemptOutcome.RUNNING.value if job.started is not None else WAITING
        attempts.append(JobAttempt(now.number, outcome, job.started, None, None, job.reason, nodes=tuple(now.nodes)))
    return tuple(attempts)


def _tell(attempt: _Attempt, event: Event) -> None:
    if event.kind is EventKind.STARTED:
        attempt.started = attempt.started or event.at
        attempt.nodes[str(event.data.get("node", ""))] = None
    elif ENDS.get(event.kind) in _FALLS and attempt.fall is None:
        task = f"{event.data['role']}[{event.data['index']}]"
        by = event.data.get("by")
        reason = str(event.data.get("reason", "")) if by is None else text("preempted by {job}", job=by)
        attempt.fall = (ENDS[event.kind], reason, task)


def _exit_code(reason: str) -> int | None:
    match = _EXIT_CODE.search(reason)
    return int(match[1]) if match else None
