"""The world of the embedded cluster at its present, as the interface shows it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from paictl.cluster.embedded.jobs import LiveJob, TaskRepair, dump_job, load_job
from paictl.cluster.embedded.present import (
    FORM,
    MOST,
    SHOWN,
    dump_node,
    dump_reservation,
    dump_service,
    dump_view,
    view_from,
)
from paictl.cluster.embedded.serialization import dump
from paictl.cluster.embedded.services import CONFIGURATION, CONTROLLER, HISTORIANS, READERS, SCHEDULER, EmbeddedService
from paictl.cluster.embedded.store import Happened, JobRow, Store
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import (
    ClusterError,
    JobState,
    JobView,
    MaintenanceWindow,
    MemberRepair,
    NodeRole,
    NodeView,
    PromisedStart,
    ReservationView,
    ServiceView,
    TaskPlace,
    TaskView,
)
from paictl.cluster.jobpages import JobPage
from paictl.cluster.jobwords import STATES, alike, no_job, refuse_task
from paictl.cluster.maintenance import shown
from paictl.cluster.reservations import shown as shown_reservations
from paictl.cluster.reservations import state_of
from paictl.i18n import listed, text
from paictl.units import Millis, instant, millis_between, rfc3339
from paictl.workload.job import Job
from paictl.workload.lifecycle import TaskStatus
from paictl.workload.windows import Windows

if TYPE_CHECKING:
    from paictl.cluster.jobpages import JobQuery
    from paictl.workload.reservations import Reservation

NO_CELL: Final = "in no cell of the scheduler's configuration, so nothing runs there"


class WorldViews:
    """What there is to see of a world, and of the jobs that ended before, which the store holds."""

    def __init__(self, world: World, store: Store, epoch: datetime) -> None:
        self.world = world
        self._store = store
        self._epoch = epoch

    # --- what `present.Still` says, too

    def jobs(self, *, ended: bool = False) -> list[tuple[int, JobView]]:
        """(number, view without tasks) of the jobs that have not ended, with `ended` also of those that just have."""
        fresh = [*self.world.jobs.values(), *(self.world.ended if ended else ())]
        return [(job.number, view_of(job, self._epoch, tasks=False)) for job in fresh]

    def job(self, key: str) -> JobView | None:
        """One of these with its tasks, None if there is none of that key."""
        job = self.world.job(key)
        return None if job is None else view_of(job, self._epoch)

    def events(self) -> Sequence[Happened]:
        """What the store does not hold yet."""
        return self.world.events

    def nodes(self) -> list[NodeView]:
        """All nodes by name, with the pods that run on them."""
        world, now = self.world, self.world.now
        pods, at_risk, used = self._pods()
        divided, cells, closed = world.divided(), world.dispatcher.nodes, world.windows.active(now)
        kept = Windows((*world.windows, *world.reservations.holds(now))).held(now)
        return [
            NodeView(
                node.machine,
                node.condition,
                instant(self._epoch, node.since),
                used.get(name, 0),
                tuple(pods.get(name, ())),
                f"in maintenance ({closed[name].name})"
                if name in closed
                else f"kept free of new pods ({kept[name].name})"
                if name in kept
                else NO_CELL
                if cells is not None and role is NodeRole.WORKER and name not in cells
                else "",
                node.bad_devices,
                tuple(at_risk.get(name, ())),
                instances=divided.get(name, 0),
            )
            for node in world.machines
            for name, role in [(node.machine.name, node.machine.role)]
        ]

    def _pods(self) -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, int]]:
        """By node: the pods that run there, those of them on broken devices, and how many devices they have."""
        pods: dict[str, list[str]] = {}
        at_risk: dict[str, list[str]] = {}
        used: dict[str, int] = {}
        broken = {node.machine.name: set(node.bad_devices) for node in self.world.machines if node.bad_devices}
        for key, job in self.world.jobs.items():
            for ref, run in job.running():
                name, devices, pod = run.info.node, run.info.devices, f"{key}/{ref.role}[{ref.index}]"
                pods.setdefault(name, []).append(pod)
                if broken.get(name, set()).intersection(devices):
                    at_risk.setdefault(name, []).append(pod)
                used[name] = used.get(name, 0) + len(devices)
        return pods, at_risk, used

    def windows(self) -> tuple[MaintenanceWindow, ...]:
        """The maintenance windows that have not ended."""
        return shown(self.world.windows, self.world.now, self._epoch)

    def reservations(self) -> tuple[ReservationView, ...]:
        """The reservations that are not over."""
        world = self.world
        if not world.reservations:
            return ()

        foresight, kept = world.dispatcher.foresight(world.now, world.windows), world.dispatcher.reserved
        state = {} if foresight is None or kept is None else state_of(kept, foresight)
        return shown_reservations(world.reservations, world.now, self._epoch, state)

    def reservation(self, reservation: Reservation) -> ReservationView:
        """A reservation that was added just now, so that nothing is kept for it yet."""
        return shown_reservations([reservation], self.world.now, self._epoch, {})[0]

    def promised_starts(self) -> Sequence[PromisedStart]:
        """The gangs that wait and were promised a start."""
        return self.world.sharing.promised_starts()

    def services(self) -> list[ServiceView]:
        """All services that are there, by name."""
        return [self._service(service) for service in self.world.services if service.there]

    # --- for one command each

    def node(self, name: str) -> NodeView:
        """A node that there is."""
        return next(view for view in self.nodes() if view.machine.name == name)

    def service(self, name: str) -> ServiceView:
        """A service that there is."""
        return self._service(self.world.services.get(name))

    def _service(self, service: EmbeddedService) -> ServiceView:
        """A service, and why it does not do its work if it does not."""
        world, reasons, newest = self.world, [], self.world.configs.newest
        if not service.running:
            reasons.append("stopped")
        elif service.name in READERS and newest not in (0, service.loaded):
            reasons.append(f"runs with configuration {service.loaded}, the newest is {newest}")
        if service.name == SCHEDULER:
            missing = [name for name in world.dispatcher.nodes or () if name not in world.machines]
            if missing:
                reasons.append(f"its configuration names nodes that do not exist: {listed(missing)}")
        since, running = instant(self._epoch, service.since), service.running
        return ServiceView(service.name, running, running, since, "; ".join(reasons), service.loaded)

    def losses(self, name: str) -> tuple[str, ...]:
        """What deleting a service would destroy."""
        if not self.world.services.get(name).there:
            return ()
        ended, versions = self._store.count_jobs() + len(self.world.ended), sum(1 for _ in self._store.configs())
        lost = {
            CONFIGURATION: (versions, "version of the configuration", "versions of the configuration"),
            CONTROLLER: (len(self.world.jobs), "job that waits or runs", "jobs that wait or run"),
            **dict.fromkeys(HISTORIANS, (ended, "ended job in the history", "ended jobs in the history")),
        }
        count, singular, plural = lost.get(name, (0, "", ""))
        return (f"{count} {singular if count == 1 else plural}",) if count else ()

    # --- jobs that ended long ago as well

    def live_job(self, key: str) -> LiveJob:
        """A job, whether it has ended or not; raises `NoJobError` if there is none."""
        return self.world.job(key) or load_job(self.stored_job(key).data)

    def stored_job(self, key: str) -> JobRow:
        """A job that is not in the world any more, as the store has it; raises `NoJobError` if there is none."""
        if (row := self._store.job(key)) is not None:
            return row
        raise no_job([*self._store.job_keys(), *(job.key for job in self.world.ended), *self.world.jobs], key)

    def read_job(self, key: str) -> JobView:
        """A job with its tasks, by all that is known of it."""
        return view_of(self.live_job(key), self._epoch)

    def need_task(self, job: LiveJob, task: TaskPlace) -> None:
        """Raise `ClusterError` unless a job has a task."""
        refuse_task(job.key, task, [(known.role, known.index) for known in job.status.tasks])

    def output(self, job: LiveJob, task: TaskPlace) -> bytes:
        """When the task's pod ran and where, what it would have done, and that it has not; as comments of a shell."""
        self.need_task(job, task)
        run = job.runs.get((task.role, task.index))
        if run is None:
            raise ClusterError(
                text("task {task} of {job} has no container yet, so there is no output", task=task, job=job.key),
                hint=text(
                    "it has not started, or its pod is gone; why it waits: paictl job explain {job}", job=job.key
                ),
            )
        role = next(role for role in Job.from_mapping(job.data).roles if role.name == task.role)
        lines = [f"# {rfc3339(instant(self._epoch, run.started))} started on {run.info.node}, image {role.image}"]
        lines.append("# this pod is simulated: its commands are not run, and nothing is written")
        lines += [f"#   {line}" for command in role.commands for line in command.splitlines()]
        if run.ended is not None:
            lines.append(f"# {rfc3339(instant(self._epoch, run.ended))} ended{f': {run.reason}' if run.reason else ''}")
        return "".join(f"{line}\n" for line in lines).encode()

    def page(self, query: JobQuery) -> JobPage:
        """A page of the list of jobs: the few that live from memory, the many that ended as rows of the store."""
        live = {job.number: job for job in (*self.world.jobs.values(), *self.world.ended)}
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

        def view(number: int) -> JobView:
            if number in live:
                return view_of(live[number], self._epoch, tasks=False)
            return view_from(stored[number], self._epoch, tasks=False)

        return JobPage([view(number) for number in wanted], len(matches))

    # --- for the store

    def state(self) -> dict[str, Any]:
        """The world itself."""
        return dump(self.world)

    def ended_rows(self) -> Iterator[JobRow]:
        """Jobs that ended, with the view that lists show without reading the job, and the views of its tasks."""
        for job in self.world.ended:
            view = dump_view(view_of(job, self._epoch), self._epoch)
            data = {**dump_job(job), SHOWN: view["tasks"]}
            yield JobRow(job.key, job.number, True, {**view, "tasks": []}, data)

    def written(self, seal: Sequence[int]) -> dict[str, Any] | None:
        """What `Still` reads, until the next thing happens by itself; None of a large world."""
        world, epoch = self.world, self._epoch
        if sum(len(job.status.tasks) for job in world.jobs.values()) + len(world.machines) > MOST:
            return None
        return {
            "form": FORM,
            "seal": seal,
            "until": world.loop.peek(),
            "jobs": [dump_view(view_of(job, epoch), epoch) for job in world.jobs.values()],
            "nodes": [dump_node(view, epoch) for view in self.nodes()],
            "windows": [asdict(window) for window in world.windows],
            "starts": [[start.job, millis_between(epoch, start.at)] for start in self.promised_starts()],
            "reservations": [dump_reservation(view, epoch) for view in self.reservations()],
            "services": [dump_service(view, epoch) for view in self.services()],
        }


def view_of(job: LiveJob, epoch: datetime, *, tasks: bool = True) -> JobView:
    """A job as the interface shows it; without `tasks` the short form of lists."""
    return JobView(
        key=job.key,
        vc=job.job.vc,
        priority=job.job.priority_class,
        state=STATES[job.status.state],
        submitted=instant(epoch, job.submitted),
        devices=job.plan.devices,
        started=_when(epoch, job.started),
        ended=_when(epoch, job.ended),
        number=job.number,
        pod=alike(role.leaf_number for role in job.plan.roles),
        attempt=job.status.attempt,
        preemptions=job.preemptions,
        used=sum(len(run.info.devices) for _, run in job.running()),
        reason=job.stopped_for
        or (f"runs without a guarantee, lazily preempted by {job.demoted_by}" if job.demoted_by else ""),
        tasks=tuple(_task_view(job, task, epoch) for task in job.status.tasks) if tasks else (),
        max_run_time=job.job.max_run_time,
        repairs=tuple(_repair(repair, epoch) for repair in job.repairs),
        tags=job.tags,
    )


def _repair(known: TaskRepair, epoch: datetime) -> MemberRepair:
    return MemberRepair(
        known.role,
        known.index,
        instant(epoch, known.lost),
        known.before,
        known.reason,
        _when(epoch, known.back),
        known.node,
    )


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
