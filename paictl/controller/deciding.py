"""What is to be done about one job: pure, from what is seen of it now.

The status is written before anything is done that it asks for, and what it asks for follows from it and from what is
there: whoever is killed in between finds the same to do again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from paictl.cluster.kubernetes.paijob.record import (
    KEPT_TASKS,
    AttemptLine,
    JobRecord,
    LastRun,
    Place,
    with_attempt,
)
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, newest_of
from paictl.controller.observation import JobObjects, PodTransition, repaired
from paictl.frozen import frozen
from paictl.workload import lifecycle
from paictl.workload.lifecycle import JobStatus, PodChange, RunState, TaskStatus
from paictl.workload.runlimits import overran

OVERDUE: Final = timedelta(seconds=30)
"""How long after its deadline a pod is still waited for; then its node does not answer."""
KEPT: Final = 1
"""Attempts before the present one whose ended pods are kept, for their logs."""
PAUSES: Final = (10.0, 300.0)
"""First and longest pause, in seconds, before a pod is made again that a kubelet has rejected (its node may reject the
next one too, and the scheduler may choose it again) or that has soon ended by itself several times."""
LASTED: Final = timedelta(minutes=10)
"""How long an attempt has to last so that the pauses begin with the first again."""
_ENDS: Final = frozenset({PodChange.FAILED, PodChange.PREEMPTED, PodChange.LOST})


@frozen
class JobActions:
    """What is to be done, the record being written: all of it can be done twice.

    `roles` and `tasks` (with the number of the try) are to get Jobs; `suspend` and `delete` are names of Jobs.
    `waits` says whether something has to go first, and `later` in how many seconds to look again.
    """

    roles: tuple[str, ...] = ()
    tasks: tuple[tuple[str, int, int], ...] = ()
    suspend: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    waits: bool = False
    later: float | None = None


def follow(record: JobRecord, objects: JobObjects, now: datetime, *, stopped: bool) -> JobRecord | None:
    """The record after all that is seen of a job in its status; `stopped` is the user's wish.

    None if some tasks are gone without a word, so that the API server has to be asked.
    """
    job, status = objects.job, record.status
    if status.state.final:
        return record
    if stopped:
        return _updated(record, lifecycle.stop(status).status, (), objects, now)
    news, missing = objects.observe()
    after = lifecycle.catch_up(job, status, ((transition.ref, transition.what) for transition in news))
    if missing and not after.state.final and after.attempt == status.attempt:
        if not objects.sure:
            return None
        after = lifecycle.catch_up(job, after, ((transition.ref, transition.what) for transition in missing))
        news += missing
    updated = _updated(record, after, news, objects, now)
    if _seconds_left(updated, now) == 0 and updated.max_run_time is not None:
        ended = _updated(updated, lifecycle.stop(after).status, (), objects, now)
        return replace(ended, reason=overran(updated.max_run_time))
    return updated


def _seconds_left(record: JobRecord, now: datetime) -> float | None:
    """For how long the present attempt may still run; None while it does not, or without a limit."""
    if record.max_run_time is None or record.started is None or record.status.state.final:
        return None
    return max(record.max_run_time / 1000 - (now - record.started).total_seconds(), 0.0)


def _updated(
    record: JobRecord, after: JobStatus, news: Sequence[PodTransition], objects: JobObjects, now: datetime
) -> JobRecord:
    before = record.status
    if after == before:
        return record
    preempted = sum(transition.what is PodChange.PREEMPTED for transition in news)
    reason = next((_reason(transition) for transition in news if transition.what in _ENDS), "")
    started = record.started or _first_start(before, after, objects, now)
    updated = replace(record, status=after, preemptions=record.preemptions + preempted, started=started)
    updated = replace(updated, repairs=repaired(updated, before, news, objects, now))
    if after.attempt > before.attempt:
        runs = dict(_past_runs(before, objects, now)) if len(before.tasks) <= KEPT_TASKS else {}
        line = AttemptLine(before.attempt, started, now, reason, runs)
        return replace(updated, started=None, attempts=with_attempt(record.attempts, line))
    if after.state.final:
        final_reason = reason if after.state is RunState.FAILED else ""
        return replace(updated, ended=now, reason=final_reason, runs=dict(_runs(before, objects, now)))
    return updated


def _reason(transition: PodTransition) -> str:
    task = f"{transition.ref.role}[{transition.ref.index}]"
    return f"{task}: {transition.reason}" if transition.reason else f"{task}: {transition.what.value}"


def _first_start(before: JobStatus, after: JobStatus, objects: JobObjects, now: datetime) -> datetime | None:
    """When the attempt began to run, if it has."""
    if after.state is RunState.WAITING or (before.attempt != after.attempt and before.state is RunState.WAITING):
        return None
    times = [pod.started for pod in objects.pods if pod.attempt == before.attempt and pod.change and pod.started]
    return min(times, default=now)


def _runs(before: JobStatus, objects: JobObjects, now: datetime) -> Iterator[tuple[Place, LastRun]]:
    """Where the tasks of the last attempt ran; those that run still are about to end."""
    for place, pod in _newest(before, objects).items():
        run = pod.run
        yield place, run if pod.over else replace(run, ended=now, reason="the job is over")


def _past_runs(before: JobStatus, objects: JobObjects, now: datetime) -> Iterator[tuple[Place, LastRun]]:
    """How the tasks of an attempt ran after which another comes: what happened to each, or that it ends with it."""
    for place, pod in _newest(before, objects).items():
        run = pod.run
        ended = replace(run, what=str(pod.change or ""))
        yield place, ended if pod.over else replace(run, ended=now, reason="its gang starts again")


def _newest(before: JobStatus, objects: JobObjects) -> dict[Place, PodSummary]:
    """The newest pod of each task in the last attempt that has started."""
    return newest_of((pod for pod in objects.pods if pod.change is not None), before.attempt)


def wanted(record: JobRecord, objects: JobObjects, now: datetime, *, gated: bool = False) -> JobActions:
    """What the record asks for that is not there yet, or is and should not be; `gated`: pods get the gate."""
    job, status = objects.job, record.status
    if status.state.final:
        stop = tuple(work.name for work in objects.works.values() if not (work.suspended or work.over or work.deleting))
        busy = [pod for pod in objects.pods if not _is_gone(pod, now)]
        return JobActions(suspend=stop, waits=bool(stop or busy), later=_later(busy, now))
    old = [work for work in objects.works.values() if work.attempt < status.attempt and not work.deleting]
    forgotten = tuple(work.name for work in old if work.attempt < status.attempt - KEPT)
    stop = tuple(work.name for work in old if not (work.suspended or work.over or work.name in forgotten))
    busy = [pod for pod in objects.pods if pod.attempt < status.attempt and not _is_gone(pod, now)]
    if stop or busy:  # a gang's devices are to be free before it asks for others
        return JobActions(suspend=stop, delete=forgotten, waits=True, later=_later(busy, now))
    objects = objects.at(status)
    roles = tuple(role.name for role in job.roles if objects.main(role.name) is None and objects.is_fresh(role.name))
    tasks = [
        task
        for task in status.tasks
        if task.state is RunState.WAITING and task.retries and objects.present(task) is None and objects.is_left(task)
    ]
    rests = {task.ref: _rest_of_task(task, objects, status.attempt, now) for task in tasks}
    rest = _rest_of_attempt(record, objects, now) if len(roles) == len(job.roles) else 0.0
    due = tuple((task.role, task.index, task.retries) for task in tasks if not rests[task.ref])
    later = min((seconds for seconds in (rest, *rests.values(), _seconds_left(record, now)) if seconds), default=None)
    delete = (*forgotten, *_past_tries(objects), *_of_another_door(objects, gated))
    return JobActions(() if rest else roles, due, delete=delete, later=later)


def _rest_of_attempt(record: JobRecord, objects: JobObjects, now: datetime) -> float:
    """Seconds for which an attempt is put off: a kubelet has rejected a pod of the one before, or it soon failed again.

    One failure costs no time. A job that always fails at once, however often it may be retried, takes devices from
    others for nothing, and keeps the API server busy. If a pod was taken from a gang, others fail because they miss it.
    """
    pods = newest_of(objects.pods, record.status.attempt - 1).values()
    rejected = any(pod.rejected for pod in pods)
    failed = any(pod.change is PodChange.FAILED for pod in pods) and not any(pod.disruption for pod in pods)
    if not record.attempts or not (rejected or failed):
        return 0.0
    lines = takewhile(lambda line: line.ended - (line.started or line.ended) < LASTED, reversed(record.attempts))
    quick = sum(1 for _ in lines)
    tries = quick if rejected else min(quick, record.status.counted) - 1  # what was only preempted is not counted
    return _rest(record.attempts[-1].ended, tries, now, least=int(rejected))


def _rest_of_task(task: TaskStatus, objects: JobObjects, attempt: int, now: datetime) -> float:
    """Seconds for which a task is put off: a kubelet has rejected its last pod, or it soon ended again."""
    for pod in objects.pods:
        is_last = (pod.attempt, pod.place, pod.retry) == (attempt, (task.role, task.index), task.retries - 1)
        if is_last and pod.rejected and pod.ended:
            return _rest(pod.ended, task.retries, now)
        by_itself = pod.over and pod.change not in lifecycle.TRANSIENT
        if is_last and by_itself and pod.ended and pod.ended - (pod.started or pod.ended) < LASTED:
            return _rest(pod.ended, task.retries - 1, now, least=0)
    return 0.0


def _rest(since: datetime, tries: int, now: datetime, *, least: int = 1) -> float:
    if not (tries := max(tries, least)):
        return 0.0
    pause = min(PAUSES[0] * 2.0 ** min(tries - 1, 16), PAUSES[1])
    return max(pause - (now - since).total_seconds(), 0.0)


def _of_another_door(objects: JobObjects, gated: bool) -> Iterator[str]:
    """Jobs to recreate because their pods wait at a door that is no longer served.

    A Job with a pod on a node is kept, and so is a gang if any of its pods is on a node.
    """
    pods = [pod for tries in objects.tries.values() for pod in tries.values() if pod.node and not pod.over]
    if pods and objects.job.gang:
        return
    places, roles = {pod.place for pod in pods}, {pod.role for pod in pods}
    for work in objects.present_works():
        if work.index is None:
            waits = work.role not in roles and objects.is_fresh(work.role)
        else:
            waits = (work.role, work.index) not in places
        if waits and work.gated != gated and not (work.over or work.deleting):
            yield work.name


def _past_tries(objects: JobObjects) -> Iterator[str]:
    """Jobs of single tries before the last two of a task."""
    tries = {(task.role, task.index): task.retries for task in objects.status.tasks}
    for work in objects.present_works():
        if work.index is None or not work.over or work.deleting:
            continue
        if work.retry < tries.get((work.role, work.index), 0) - KEPT:
            yield work.name


def _is_gone(pod: PodSummary, now: datetime) -> bool:
    return pod.over or (pod.deleting is not None and now > pod.deleting + OVERDUE)


def _later(busy: Sequence[PodSummary], now: datetime) -> float | None:
    """When the next pod that does not go is overdue."""
    ends = [(pod.deleting + OVERDUE - now).total_seconds() for pod in busy if pod.deleting is not None]
    return max(min(ends), 0.0) + 1 if ends else None


def closed(record: JobRecord, actions: JobActions) -> JobRecord:
    """The record once a job that has ended holds nothing any more."""
    over = record.status.state.final and not actions.waits
    return replace(record, closed=True) if over and not record.closed else record
