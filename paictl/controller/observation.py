"""What has happened to the tasks of a job, from what is seen of its pods and Jobs: never from having watched.

The present pod of a task tells what it is, and how many the task had before. Where there is none, its Job tells whether
it has done with the task; where there is no Job either, the pod was lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

from paictl.cluster.kubernetes.paijob.names import retry_name, work_name
from paictl.cluster.kubernetes.paijob.record import KEPT_REPAIRS, JobRecord, RepairLine, numbers
from paictl.cluster.kubernetes.paijob.summaries import PodSummary, WorkSummary, tries_of
from paictl.workload.job import Job
from paictl.workload.lifecycle import TRANSIENT, JobStatus, PodChange, RunState, TaskRef, TaskStatus, task_policy

_LONG_AGO: Final = 0.0


class PodTransition(NamedTuple):
    """Something that happened to a pod, when (Unix time, 0 if unknown), and why; in the order of tasks."""

    at: float
    position: int
    step: int
    ref: TaskRef
    what: PodChange
    reason: str = ""


class JobObjects:
    """What is there of a job in a status: all of its Jobs and pods, and `tries`, the pods of the status's attempt.

    `sure` says that the API server was asked just now, not what it has told so far.
    """

    def __init__(
        self,
        name: str,
        job: Job,
        status: JobStatus,
        works: Iterable[WorkSummary] = (),
        pods: Iterable[PodSummary] = (),
        *,
        sure: bool = False,
    ) -> None:
        self.name = name
        self.job = job
        self.status = status
        self.works = {work.name: work for work in works}
        self.pods = tuple(pods)
        self.sure = sure
        self.tries = tries_of(self.pods, status.attempt)
        self._done = {w.name: (set(numbers(w.succeeded)), set(numbers(w.failed))) for w in self.present_works()}

    def at(self, status: JobStatus) -> JobObjects:
        """The same, looked at from another status."""
        return JobObjects(self.name, self.job, status, self.works.values(), self.pods, sure=self.sure)

    def present_works(self) -> list[WorkSummary]:
        """The Jobs of the status's attempt."""
        return [work for work in self.works.values() if work.attempt == self.status.attempt]

    def main(self, role: str) -> WorkSummary | None:
        """The Indexed Job of a role, if it is there to stay."""
        work = self.works.get(work_name(self.name, role, self.status.attempt))
        return None if work is None or work.deleting else work

    def own(self, task: TaskStatus) -> WorkSummary | None:
        """The Job of the task's present try alone."""
        name = retry_name(self.name, task.role, self.status.attempt, task.index, task.retries)
        return self.works.get(name) if task.retries else None

    def is_fresh(self, role: str) -> bool:
        """Whether nothing has happened to any task of a role in this attempt."""
        own = (task for task in self.status.tasks if task.role == role)
        return all(task.state is RunState.WAITING and not task.retries for task in own)

    def present(self, task: TaskStatus) -> PodSummary | None:
        """The pod of the task's present try, or of a later one."""
        tries = self.tries.get((task.role, task.index), {})
        newest = max(tries, default=-1)
        return tries[newest] if newest >= task.retries else None

    def of(self, task: TaskStatus) -> PodSummary | None:
        """The pod of the task's present try."""
        return self.tries.get((task.role, task.index), {}).get(task.retries)

    def end_told(self, task: TaskStatus) -> PodChange | None:
        """How the task's present try ended whose pod is gone, by its Job; None if that will make its pod yet.

        A role's Job that has done with a task tells of the try before, if the state machine wants another than
        Kubernetes does: then this try needs a Job of its own, and nothing has happened to it.
        """
        own = self.own(task)
        if own is not None:
            succeeded, failed = self._done[own.name]
            return PodChange.SUCCEEDED if succeeded else PodChange.LOST if failed or own.over else None
        main = self.main(task.role)
        if main is None:
            return None
        succeeded, failed = self._done[main.name]
        ran = task.state is RunState.RUNNING or not task.retries
        if task.index in succeeded and (ran or task_policy(self.job, task.role).limit != -2):
            return PodChange.SUCCEEDED
        return PodChange.LOST if task.index in failed and ran else None

    def is_left(self, task: TaskStatus) -> bool:
        """Whether no Job will make the task's present pod."""
        if self.own(task) is not None:
            return False
        main = self.main(task.role)
        if main is None:
            return True
        succeeded, failed = self._done[main.name]
        return main.over or task.index in succeeded or task.index in failed

    # --- what has happened

    def observe(self) -> tuple[list[PodTransition], list[PodTransition]]:
        """What is news to the status, in order; and the ends of tasks of which neither pod nor Job is there."""
        news: list[PodTransition] = []
        missing: list[PodTransition] = []
        fresh = {role.name: self.is_fresh(role.name) for role in self.job.roles}
        for position, task in enumerate(self.status.tasks):
            if task.state.final:
                continue
            pod = self.present(task)
            if pod is not None:
                news.extend(self._of_pod(task, pod, position))
            elif (end := self.end_told(task)) is not None:
                news.extend(_ended(task, end, position))
            elif self.is_left(task) and (task.state is RunState.RUNNING or not (task.retries or fresh[task.role])):
                missing.extend(_ended(task, PodChange.LOST, position))
        news.sort()
        return news, missing

    def _of_pod(self, task: TaskStatus, pod: PodSummary, position: int) -> Iterator[PodTransition]:
        """Of the present pod and of those that came and went before it without having been seen."""
        tries = self.tries[pod.place]
        failures = pod.failures - task.counted
        ref, step = task.ref, 0
        for number in range(task.retries, pod.retry):
            before = tries.get(number)
            end = before.change if before is not None and before.over else None
            if end is None:
                end = PodChange.FAILED if failures > 0 else PodChange.LOST
            failures -= end not in TRANSIENT
            at = _time(before)
            for step_change in (PodChange.STARTED, end):
                yield PodTransition(at, position, step, ref, step_change, before.reason if before else "")
                step += 1
            ref = replace_incarnation(ref)
        change = pod.change
        if change is not None:
            yield PodTransition(_time(pod, started=True), position, step, ref, PodChange.STARTED)
            if change is not PodChange.STARTED:
                yield PodTransition(
                    max(_time(pod), _time(pod, started=True)), position, step + 1, ref, change, pod.reason
                )


def replace_incarnation(ref: TaskRef) -> TaskRef:
    """The task's next pod."""
    return replace(ref, incarnation=ref.incarnation + 1)


def _ended(task: TaskStatus, end: PodChange, position: int) -> Iterator[PodTransition]:
    yield PodTransition(_LONG_AGO, position, 0, task.ref, PodChange.STARTED)
    yield PodTransition(_LONG_AGO, position, 1, task.ref, end, "its pod is gone" if end in TRANSIENT else "")


def _time(pod: PodSummary | None, *, started: bool = False) -> float:
    at = None if pod is None else pod.started if started else pod.ended
    return _LONG_AGO if at is None else at.timestamp()


def repaired(
    record: JobRecord, before: JobStatus, news: Sequence[PodTransition], objects: JobObjects, now: datetime
) -> tuple[RepairLine, ...]:
    """The repairs of a job that has come from status `before` to that of its record.

    A repair that another attempt or the end of the job has overtaken is left out: nothing waits for it any more.
    """
    after = record.status
    if after.attempt != before.attempt or after.state.final:
        return tuple(line for line in record.repairs if line.back is not None)
    lines = list(record.repairs)
    reasons = {
        (transition.ref.role, transition.ref.index): transition.reason
        for transition in news
        if transition.what is PodChange.LOST
    }
    for was, task in zip(before.tasks, after.tasks, strict=True):
        place = task.role, task.index
        if task.retries > was.retries and place in reasons:
            lines = [line for line in lines if (line.role, line.index) != place or line.back is not None]
            pod = objects.of(was)
            lines.append(RepairLine(*place, now, pod.node if pod is not None else "", reasons[place]))
        elif task.state is RunState.RUNNING and was.state is RunState.WAITING:
            lines = [_back(line, objects.of(task), now) if (line.role, line.index) == place else line for line in lines]
    return tuple(lines[-KEPT_REPAIRS:])


def _back(line: RepairLine, pod: PodSummary | None, now: datetime) -> RepairLine:
    """A repair whose task runs again; one that has been back for long stays as it was."""
    if line.back is not None or pod is None:
        return line
    return replace(line, back=max(pod.started or now, line.lost), node=pod.node)
