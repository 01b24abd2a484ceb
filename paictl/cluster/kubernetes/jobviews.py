"""Jobs of Kubernetes as the interface shows them: the record says how tasks are, pods say where they run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from paictl.cluster.jobwords import STATES, alike
from paictl.cluster.kubernetes.paijob.record import JobRecord, LastRun, Place
from paictl.cluster.kubernetes.paijob.resource import PaiJob
from paictl.cluster.kubernetes.paijob.seen import PodSeen
from paictl.cluster.values import JobState, JobView, MemberRepair, TaskView
from paictl.workload.lifecycle import RunState, TaskStatus

NOT_SEEN: Final = "the job controller has not handled it yet: paictl service status -n frameworkcontroller"
DAMAGED: Final = "its status cannot be read: it was edited by hand or written by a newer paictl"


def in_order(jobs: Iterable[PaiJob]) -> list[PaiJob]:
    """Jobs in order of submission."""
    return sorted(jobs, key=lambda one: (one.submitted, one.order))


def has_ended(pai: PaiJob) -> bool:
    """Whether the view of a job would say that it has ended."""
    return pai.stopped if pai.record is None else pai.record.status.state.final


def view_of(pai: PaiJob, pods: Iterable[PodSeen], number: int = 0, *, tasks: bool = True) -> JobView:
    """A job; `pods` are those of it that are there, `number` its place in the order of submission."""
    record = pai.record
    present = present_pods(pai, pods)
    known = JobView(
        key=pai.key, vc=pai.vc, priority=pai.priority, state=JobState.WAITING, submitted=pai.submitted,
        devices=pai.asked, number=number, pod=alike(pai.sizes), reason=DAMAGED if pai.damaged else NOT_SEEN,
    )  # fmt: skip
    if record is None:
        return replace(known, state=JobState.STOPPED, reason="") if pai.stopped else known
    return replace(
        known,
        state=STATES[record.status.state],
        started=record.started,
        ended=record.ended,
        attempt=record.status.attempt,
        preemptions=record.preemptions,
        used=sum(len(pod.devices) for pod in present.values() if pod.node and not pod.over),
        reason=record.reason,
        tasks=tuple(_tasks(record, present)) if tasks else (),
        max_run_time=record.max_run_time,
        repairs=tuple(
            MemberRepair(one.role, one.index, one.lost, one.before, one.reason, one.back, one.node)
            for one in record.repairs
        ),
    )


def present_pods(pai: PaiJob, pods: Iterable[PodSeen]) -> Mapping[Place, PodSeen]:
    """The newest pod of each task in the present attempt."""
    attempt = pai.record.status.attempt if pai.record is not None else 0
    found: dict[Place, PodSeen] = {}
    for pod in pods:
        if pod.owner == pai.uid and pod.attempt == attempt:
            known = found.get(pod.place)
            if known is None or (pod.retry, known.over) > (known.retry, pod.over):
                found[pod.place] = pod
    return found


def _tasks(record: JobRecord, present: Mapping[Place, PodSeen]) -> Iterator[TaskView]:
    for task in record.status.tasks:
        place = (task.role, task.index)
        pod = present.get(place)
        run = record.runs.get(place) or (pod.run if pod is not None else LastRun(""))
        yield _task(task, run, pod)


def _task(task: TaskStatus, run: LastRun, pod: PodSeen | None) -> TaskView:
    waits = task.state is RunState.WAITING
    return TaskView(
        role=task.role,
        index=task.index,
        state=STATES[task.state].value,
        attempt=task.incarnation,
        pod=pod.name if pod else "",
        node=run.node,
        devices=run.devices,
        started=None if waits else run.started,
        ended=None if waits else run.ended,
        reason=(pod.reason if pod else "") if waits else run.reason,
    )
