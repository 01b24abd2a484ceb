"""Jobs, nodes and services of the embedded cluster, as the interface shows them.

Pages of the list of jobs, too: the few that live from memory, the many that ended as rows of the store.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol

from paictl.cluster.embedded.jobs import LiveJob, TaskRepair, dump_job
from paictl.cluster.embedded.services import CONFIGURATION, CONTROLLER, HISTORIANS, READERS, SCHEDULER, EmbeddedService
from paictl.cluster.embedded.still import SHOWN, dump_view, view_from
from paictl.cluster.embedded.store import JobRow, Store
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import (
    JobState,
    JobView,
    MemberRepair,
    NodeRole,
    NodeView,
    ReservationView,
    ServiceView,
    TaskView,
)
from paictl.cluster.jobwords import STATES, alike
from paictl.i18n import listed
from paictl.units import Millis, instant
from paictl.workload.lifecycle import TaskStatus
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.jobpages import JobPage, JobQuery

NO_CELL: Final = "in no cell of the scheduler's configuration, so nothing runs there"


def node_views(world: World, epoch: datetime) -> list[NodeView]:
    """All nodes with the pods that run on them."""
    pods: dict[str, list[str]] = {}
    at_risk: dict[str, list[str]] = {}
    broken = {node.machine.name: set(node.bad_devices) for node in world.machines if node.bad_devices}
    used: dict[str, int] = {}
    for key, job in world.jobs.items():
        for ref, run in job.running():
            pod = f"{key}/{ref.role}[{ref.index}]"
            pods.setdefault(run.info.node, []).append(pod)
            if broken.get(run.info.node, set()).intersection(run.info.devices):
                at_risk.setdefault(run.info.node, []).append(pod)
            used[run.info.node] = used.get(run.info.node, 0) + len(run.info.devices)
    divided = world.divided()
    cells, closed, kept = (
        world.dispatcher.nodes,
        world.windows.active(world.now),
        Windows((*world.windows, *world.reservations.holds(world.now))).held(world.now),
    )
    return [
        NodeView(
            node.machine, node.condition, instant(epoch, node.since), used.get(name, 0), tuple(pods.get(name, ())),
            f"in maintenance ({closed[name].name})" if name in closed
            else f"kept free of new pods ({kept[name].name})" if name in kept
            else NO_CELL if cells is not None and node.machine.role is NodeRole.WORKER and name not in cells else "",
            node.bad_devices, tuple(at_risk.get(name, ())), instances=divided.get(name, 0),
        )
        for node in world.machines
        for name in [node.machine.name]
    ]  # fmt: skip


def reservation_views(world: World, epoch: datetime) -> tuple[ReservationView, ...]:
    """The reservations that are not over."""
    if not world.reservations:
        return ()
    from paictl.cluster.reservations import shown as shown_reservations  # late: most clusters have none
    from paictl.cluster.reservations import state_of

    foresight, kept = world.dispatcher.foresight(world.now, world.windows), world.dispatcher.reserved
    state = {} if foresight is None or kept is None else state_of(kept, foresight)
    return shown_reservations(world.reservations, world.now, epoch, state)


def service_view(world: World, service: EmbeddedService, epoch: datetime) -> ServiceView:
    """A service, and why it does not do its work if it does not."""
    reasons, newest = [], world.configs.newest
    if not service.running:
        reasons.append("stopped")
    elif service.name in READERS and newest not in (0, service.loaded):
        reasons.append(f"runs by configuration {service.loaded}, the newest is {newest}")
    if service.name == SCHEDULER:
        missing = [name for name in world.dispatcher.nodes or () if name not in world.machines]
        if missing:
            reasons.append(f"its configuration names nodes that are not there: {listed(missing)}")
    since, running = instant(epoch, service.since), service.running
    return ServiceView(service.name, running, running, since, "; ".join(reasons), service.loaded)


def losses_of(world: World, name: str, ended: int, versions: int) -> tuple[str, ...]:
    """What deleting a service would destroy; `ended` counts jobs in the history, `versions` those pushed."""
    if not world.services.get(name).there:
        return ()
    lost = {
        CONFIGURATION: (versions, "version of the configuration", "versions of the configuration"),
        CONTROLLER: (len(world.jobs), "job that waits or runs", "jobs that wait or run"),
        **dict.fromkeys(HISTORIANS, (ended, "ended job in the history", "ended jobs in the history")),
    }
    count, singular, plural = lost.get(name, (0, "", ""))
    return (f"{count} {singular if count == 1 else plural}",) if count else ()


def view_of(job: LiveJob, epoch: datetime, *, tasks: bool = True) -> JobView:
    """A job as the interface shows it; without `tasks` the short form of lists."""
    return JobView(
        key=job.key,
        vc=job.job.vc,
        priority=job.job.priority_class,
        state=STATES[job.status.state],
        submitted=instant(epoch, job.submitted),
        devices=sum(group.leaves for group in job.plan.groups.values()),
        started=_when(epoch, job.started),
        ended=_when(epoch, job.ended),
        number=job.number,
        pod=alike(pod.leaf_number for pod in job.plan.pods),
        attempt=job.status.attempt,
        preemptions=job.preemptions,
        used=sum(len(run.info.devices) for _, run in job.running()),
        reason=job.stopped_for
        or (f"runs without guarantee, lazily preempted by {job.demoted_by}" if job.demoted_by else ""),
        tasks=tuple(_task_view(job, task, epoch) for task in job.status.tasks) if tasks else (),
        max_run_time=job.job.max_run_time,
        repairs=tuple(_repair(repair, epoch) for repair in job.repairs),
        tags=job.tags,
    )


def _repair(known: TaskRepair, epoch: datetime) -> MemberRepair:
    return MemberRepair(
        known.role, known.index, instant(epoch, known.lost), known.before, known.reason, _when(epoch, known.back),
        known.node,
    )  # fmt: skip


def _task_view(job: LiveJob, task: TaskStatus, epoch: datetime) -> TaskView:
    run = job.current(task)
    pod = job.pod(task.ref)
    return TaskView(
        role=task.role,
        index=task.index,
        state=STATES[task.state].value,
        attempt=task.incarnation,
        pod=pod.name,
        node=run.info.node if run else "",
        devices=run.info.devices if run else (),
        started=_when(epoch, run.started) if run else None,
        ended=_when(epoch, run.ended) if run else None,
        reason=run.reason if run else "",
        isolation=run.isolation if run else "",
    )


def _when(epoch: datetime, at: Millis | None) -> datetime | None:
    return None if at is None else instant(epoch, at)


# --- pages of the list of jobs


class InFolder(Protocol):
    """What pages are made of: the cluster that `WithPages` is mixed into."""

    _store: Store

    def _world(self) -> AbstractContextManager[World]:
        """The cluster as it is now."""

    def _job(self, world: World, key: str) -> LiveJob:
        """A job; raises `ClusterError` if there is none."""

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""


class WithPages:
    """What a cluster in a folder adds to its port of jobs."""

    def job_data(self: InFolder, key: str) -> Mapping[str, object]:
        """What a job was submitted with, secrets masked."""
        with self._world() as world:
            return self._job(world, key).data

    def job_page(self: InFolder, query: JobQuery) -> JobPage:
        """The jobs of a page: views are made of these only, however many jobs there are."""
        from paictl.cluster.jobpages import JobPage  # late: most commands ask for no page

        with self._world() as world:
            live = {job.number: job for job in (*world.jobs.values(), *world.ended)}
            matches = []
            for number, job in live.items():
                about = job.key, job.job.vc, STATES[job.status.state]
                if query.keeps(*about, job.tags):
                    matches.append((query.place(*about, job.ended), number))
            for number, key, vc, state, ended, tags in self._store.ended_index(query.users):
                about = key, vc, JobState(state)
                if query.keeps(*about, json.loads(tags) if tags else ()):
                    matches.append((query.place(*about, ended), number))
            matches.sort(reverse=query.descending)
            wanted = [number for _, number in matches[query.offset : query.offset + query.limit]]
            stored = dict(self._store.views_of(number for number in wanted if number not in live))
            epoch = self.epoch

            def view(number: int) -> JobView:
                if number in live:
                    return view_of(live[number], epoch, tasks=False)
                return view_from(stored[number], epoch, tasks=False)

            return JobPage([view(number) for number in wanted], len(matches))


def row_of(job: LiveJob, epoch: datetime) -> JobRow:
    """A job that has ended, with the view that lists show without reading the job, and the views of its tasks."""
    view = dump_view(view_of(job, epoch), epoch)
    return JobRow(job.key, job.number, True, {**view, "tasks": []}, {**dump_job(job), SHOWN: view["tasks"]})
