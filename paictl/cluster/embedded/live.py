"""The embedded cluster at work: every request loads the world, lets time pass, acts and stores it.

Loaded only when something is to be decided, done or computed: `cluster` answers from what was written down if it can.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from paictl.cluster.configured import moved_on
from paictl.cluster.embedded import commands, still, written
from paictl.cluster.embedded.clock import Present, planned_beginning, wall_time
from paictl.cluster.embedded.commands import BringUp, Line, LoggedCommand, RunOut, Submit, Tick
from paictl.cluster.embedded.jobs import LiveJob, load_job
from paictl.cluster.embedded.pods import ImaginedPods
from paictl.cluster.embedded.records import HistoryKind
from paictl.cluster.embedded.still import dump_node, dump_reservation, dump_service, dump_view, view_from
from paictl.cluster.embedded.store import Store, whole
from paictl.cluster.embedded.views import (
    WithPages,
    losses_of,
    node_views,
    reservation_views,
    row_of,
    service_view,
    view_of,
)
from paictl.cluster.embedded.world import World
from paictl.cluster.interface import (
    ClusterError,
    ConfigVersion,
    DeviceTime,
    Event,
    EventKind,
    JobRequest,
    JobView,
    MachineSpec,
    NodeChange,
)
from paictl.cluster.jobwords import name_taken, no_job
from paictl.cluster.maintenance import refuse_other_holds, shown
from paictl.cluster.movetotals import REASON
from paictl.units import Millis, instant, millis_between, unix_millis
from paictl.workload.budgets import MonthUse, month_of
from paictl.workload.lending import lend_use
from paictl.workload.tags import with_changes

if TYPE_CHECKING:
    from paictl.cluster.defrag import DefragPlan, GangPods
    from paictl.cluster.figures import ClusterFigures
    from paictl.cluster.interface import MaintenanceWindow, NodeView, PromisedStart, ReservationView, ServiceView
    from paictl.cluster.maintenance import WindowRequest
    from paictl.cluster.picture import Picture
    from paictl.cluster.reservations import ReservationRequest
    from paictl.cluster.scheduling import Impact, JobExplanation
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.workload.lending import LendUse
    from paictl.workload.usage import UsageAmount

Given = TypeVar("Given")


class Live(WithPages, ImaginedPods):
    """The ports of the cluster in a store, as `EmbeddedCluster` answers them."""

    def __init__(self, store: Store, present: Present) -> None:
        self._store = store
        self._present = present
        self._seen: tuple[int, World] | None = None
        """Version of the file, and the world that was read from it: answers in a row need not read it again."""

    @classmethod
    def up(
        cls, folder: Path, command: BringUp, then: Iterable[LoggedCommand], clock: tuple[float, bool] | None,
        wall: Callable[[], float] = wall_time,
    ) -> Store:  # fmt: skip
        """Bring a cluster up, with the commands in `then` carried out, or not at all; as `EmbeddedCluster.up`."""
        world = command.begin()
        planned = planned_beginning(folder)
        start = wall() if planned is None else planned
        speed, run_out = clock or ((1.0, False) if planned is None else (0.0, False))

        def fill(store: Store) -> None:
            store.set_meta("name", world.name)
            present = Present(store, wall)
            present.begin(start, speed, run_out=run_out)
            world.epoch = unix_millis(present.epoch)
            store.append_log(Millis(0), command.line())
            for further in then:
                commands.apply(world, Millis(0), further)
                store.append_log(Millis(0), further.line())
            cls(store, present)._keep(world)

        return Store.create(folder, fill)

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""
        return self._present.epoch

    def tick(self, span: Millis | None) -> datetime:
        """Advance the clock by hand."""
        command: LoggedCommand = RunOut() if span is None else Tick(span)
        return instant(self.epoch, self._write(command, lambda world: world.now))

    # --- nodes

    def nodes(self) -> Sequence[NodeView]:
        """All nodes by name."""
        with self._world() as world:
            return node_views(world, self.epoch)

    def set_node(self, name: str, change: NodeChange) -> NodeView:
        """Cordon, uncordon, fail or heal a node."""
        return self._write(
            commands.SetNode(name, change), lambda world: _node_named(node_views(world, self.epoch), name)
        )

    def set_devices(self, name: str, change: NodeChange, devices: Sequence[int]) -> NodeView:
        """Let devices of a node fail, or heal."""
        command = commands.SetDevices(name, change, tuple(devices))
        return self._write(command, lambda world: _node_named(node_views(world, self.epoch), name))

    def add_node(self, machine: MachineSpec) -> NodeView:
        """A machine joins."""
        return self._write(
            commands.AddNode(machine), lambda world: _node_named(node_views(world, self.epoch), machine.name)
        )

    def remove_node(self, name: str) -> None:
        """A machine leaves; its pods are lost."""
        self._write(commands.RemoveNode(name), lambda _: None)

    # --- maintenance

    def windows(self) -> Sequence[MaintenanceWindow]:
        """The maintenance windows that have not ended."""
        with self._world() as world:
            return shown(world.windows, world.now, self.epoch)

    def add_window(self, request: WindowRequest) -> MaintenanceWindow:
        """Add a maintenance window."""
        start = None if request.start is None else millis_between(self.epoch, request.start)
        nodes = tuple(dict.fromkeys(request.nodes))
        command = commands.AddWindow(nodes, request.span, start, request.name, request.notice, request.reason,
                                     request.hold)  # fmt: skip

        def check() -> None:
            if request.hold:
                world = self._read_world()
                world.advance(self._present.instant)
                refuse_other_holds(shown(world.windows, world.now, self.epoch), request.beside)

        def added(world: World) -> MaintenanceWindow:
            return shown(world.windows.all[-1:], world.now, self.epoch)[0]

        return self._write(command, added, check, early=True)

    def remove_window(self, name: str) -> None:
        """Remove a maintenance window."""
        self._write(commands.RemoveWindow(name), lambda _: None)

    # --- reservations

    def reservations(self) -> Sequence[ReservationView]:
        """The reservations that are not over."""
        with self._world() as world:
            return reservation_views(world, self.epoch)

    def add_reservation(self, request: ReservationRequest, *, dry_run: bool) -> ReservationView:
        """Add a reservation, or only find out whether that would do."""
        from paictl.cluster.reservations import shown as shown_reservations

        start = None if request.start is None else millis_between(self.epoch, request.start)
        command = commands.AddReservation(
            request.span, start, request.vc, request.cells, request.cell_type, tuple(dict.fromkeys(request.nodes)),
            request.repeat.value, request.name, request.reason,
        )  # fmt: skip
        if dry_run:
            with self._world() as world:
                new = command.reservation(world)
                world.try_reservation(new)
                return shown_reservations([new], world.now, self.epoch, {})[0]

        def added(world: World) -> ReservationView:
            return shown_reservations(world.reservations.all[-1:], world.now, self.epoch, {})[0]

        return self._write(command, added, early=True)

    def remove_reservation(self, name: str) -> None:
        """Remove a reservation."""
        self._write(commands.RemoveReservation(name), lambda _: None)

    # --- defragmentation

    def plan_moves(self, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room."""
        from paictl.cluster.defrag import planned_moves  # late, as below: only this request needs it
        from paictl.cluster.embedded.analysis import scene_of

        with self._world() as world:
            return planned_moves(world.name, scene_of(world), rooms)

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more."""
        from paictl.cluster.defrag import outrun
        from paictl.cluster.embedded.analysis import scene_of

        with self._world() as world:
            return outrun(scene_of(world), room, kept, exactly=exactly) or ""

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""
        from paictl.cluster.embedded.analysis import gangs_of

        with self._world() as world:
            return gangs_of(world)

    def evict_gang(self, gang: GangPods) -> None:
        """Evict all pods of a gang."""
        self._write(commands.EvictGang(gang.job, gang.group, REASON), lambda _: None)

    def note_plan(self, weights: Mapping[str, int], span: Millis) -> None:
        """Keep the weight of the plan that is carried out."""
        self._write(commands.NotePlan(dict(weights), span), lambda _: None)

    def note_failure(self, vc: str) -> None:
        """Count a gang that was evicted and has not come back in time."""
        self._write(commands.NoteFailure(vc), lambda _: None)

    # --- jobs

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take jobs, all or none."""
        from paictl.cluster.taking import refuse_excess  # late, as below: only this request needs it

        refuse_excess(requests)  # before the file is locked for others
        keys = [f"{request.user}~{request.data.get('name')}" for request in requests]

        def check() -> None:
            taken = self._store.taken_keys(keys)
            if taken:
                raise name_taken(taken[0])

        def act(world: World) -> list[JobView]:
            ended = {job.key: job for job in world.ended}
            return [view_of(world.jobs.get(key) or ended[key], self.epoch) for key in keys]

        return self._write(Submit.hiding(requests), act, check)

    def stop_job(self, key: str) -> None:
        """End a job; nothing to do for one that has ended."""
        with self._world() as world:
            ended = self._job(world, key).status.state.final
        if ended:
            return
        try:
            self._write(commands.StopJob(key), lambda _: None)
        except ClusterError:
            with self._world() as world:  # another client may have stopped it since
                if not self._job(world, key).status.state.final:
                    raise

    def tag_job(self, key: str, add: Sequence[str], remove: Sequence[str]) -> Sequence[str]:
        """Change the tags of a job, ended or not."""

        def act(world: World) -> Sequence[str]:
            for job in (*world.jobs.values(), *world.ended):
                if job.key == key:
                    return job.tags
            if (stored := self._store.job(key)) is None:
                raise no_job([*self._store.job_keys(), *(job.key for job in world.ended), *world.jobs], key)
            tags = with_changes(stored.data.get("tags", ()), add, remove)
            now = {"tags": list(tags)}
            self._store.put_jobs([replace(stored, view={**stored.view, **now}, data={**stored.data, **now})])
            return tags

        return self._write(commands.TagJob(key, tuple(add), tuple(remove)), act)

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """Jobs in order of submission, without tasks."""
        with self._world() as world:
            fresh = [*world.jobs.values(), *(world.ended if ended else ())]
            pairs = [(job.number, view_of(job, self.epoch, tasks=False)) for job in fresh]
            if ended:
                pairs += [
                    (number, view_from(view, self.epoch, tasks=False)) for number, view in self._store.ended_views()
                ]
            return [view for _, view in sorted(pairs, key=lambda pair: pair[0])]

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        with self._world() as world:
            return view_of(self._job(world, key), self.epoch)

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run."""
        from paictl.cluster.embedded.analysis import explain_job

        with self._world() as world:
            return explain_job(world, self._job(world, key), self.epoch)

    def promised_starts(self) -> Sequence[PromisedStart]:
        """The gangs that wait and were promised a start."""
        with self._world() as world:
            return world.sharing.promised_starts()

    def foresee(self, request: JobRequest) -> JobExplanation:
        """What would become of a job that was submitted now."""
        from paictl.cluster.embedded.analysis import foresee_job

        with self._world() as world:
            return foresee_job(world, request, self.epoch)

    def held_devices(self) -> Mapping[tuple[str, str], int]:
        """Devices that gangs hold with a guarantee, by (virtual cluster, user); none without a scheduler."""
        with self._world() as world:
            return dict(world.sharing.held())

    def borrowed_devices(self) -> Mapping[str, int]:
        """Devices that gangs hold without a guarantee, by virtual cluster; none without a scheduler."""
        with self._world() as world:
            return dict(world.sharing.borrowed())

    def lend_use(self) -> LendUse | None:
        """How the promises stand; None without a scheduler."""
        with self._world() as world:
            engine = world.dispatcher.engine
            return None if engine is None else lend_use(engine.state)

    def _job(self, world: World, key: str) -> LiveJob:
        for job in [*world.jobs.values(), *world.ended]:
            if job.key == key:
                return job
        row = self._store.job(key)
        if row is not None:
            return load_job(row.data)
        raise no_job([*self._store.job_keys(), *(job.key for job in world.ended), *world.jobs], key)

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off by other configuration files."""
        from paictl.cluster.embedded.analysis import impact_of

        with self._world() as world:
            return list(impact_of(world, files))

    def picture(self, *, history: bool = False) -> Picture:
        """Cells, virtual clusters, nodes and jobs at one instant; with `history` ended jobs and the timeline, too."""
        from paictl.cluster.embedded.pictures import picture

        with self._world() as world:
            epoch, nodes = self.epoch, node_views(world, self.epoch)
            if not history:
                return picture(world, epoch, nodes)
            ended = [*(load_job(row.data) for row in self._store.ended_jobs()), *world.ended]
            events = [happened.event(epoch) for happened in (*self._store.events(), *world.events)]
            return picture(world, epoch, nodes, ended, events)

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """Events in order, of one object or of all."""
        with self._world() as world:
            fresh = [event for event in world.events if subject in (None, event.subject) and event.number > after]
            epoch = self.epoch
            return [happened.event(epoch) for happened in (*self._store.events(subject, after), *fresh)]

    def usage(self, start: datetime, end: datetime) -> DeviceTime:
        """The device time of a window, up to the present."""
        with self._world() as world:
            epoch = self.epoch
            first, last = millis_between(epoch, start), Millis(min(millis_between(epoch, end), world.now))
            return DeviceTime(
                tuple(self._amounts(world, first, last)), instant(epoch, last), instant(epoch, world.usage.since)
            )

    def _amounts(self, world: World, first: Millis, last: Millis) -> Iterator[UsageAmount]:
        """The device time of a window up to the present."""
        ledger = world.usage
        for span in chain(self._store.usage(first, last), ledger.closed, ledger.open_spans(world.now)):
            yield from span.amounts(first, last)

    def figures(self) -> ClusterFigures:
        """What the scheduler knows now."""
        from paictl.cluster.embedded.analysis import day_of, scheduler_figures
        from paictl.cluster.figures import ClusterFigures

        with self._world() as world:
            engine = world.dispatcher.engine
            seen, cells = (None, None) if engine is None else scheduler_figures(world, engine)
            spent: Counter[tuple[str, str]] = Counter()
            for amount in self._amounts(world, day_of(world), world.now):
                spent[amount.vc, amount.kind.value] += amount.amount
            fresh = Counter(event.kind for event in world.events)
            preempted, repaired = (
                fresh[kind] + self._store.count_events(kind) for kind in (EventKind.PREEMPTED, EventKind.REPAIRED)
            )
            return ClusterFigures(seen, cells, spent, preempted, repaired)

    # --- configuration and services

    def push(self, files: Mapping[str, str], message: str, base: int | None) -> ConfigVersion:
        """Store a new version, made from version `base` if given."""

        def check() -> None:
            newest = self._store.newest_config()
            if base not in (None, newest):
                raise moved_on(newest)

        return self._write(commands.Push(files, message), lambda world: world.pushed[-1].version(self.epoch), check)

    def services(self) -> Sequence[ServiceView]:
        """All services that are there, by name."""
        with self._world() as world:
            return [service_view(world, service, self.epoch) for service in world.services if service.there]

    def set_service(self, name: str, *, running: bool) -> ServiceView:
        """Start a service (loading the newest configuration) or stop it."""
        return self._write(
            commands.SetService(name, running), lambda world: service_view(world, world.services.get(name), self.epoch)
        )

    def restart_services(self, names: Sequence[str]) -> None:
        """Stop services, the last first, and start them again in order, in one transaction."""
        self._write(commands.RestartServices(tuple(names)), lambda _: None)

    def losses(self, name: str) -> Sequence[str]:
        """What deleting a service would destroy, as lines for people."""
        with self._world() as world:
            ended, versions = self._store.count_jobs() + len(world.ended), sum(1 for _ in self._store.configs())
            return losses_of(world, name, ended, versions)

    def wipe_service(self, name: str) -> None:
        """Stop a service and destroy its data; the command log keeps what was asked, as it does for all commands."""
        self._write(commands.WipeService(name), lambda _: None)

    # --- the way to the disk and back

    @contextmanager
    def _world(self) -> Iterator[World]:
        """The cluster as it is now, for looking at it only."""
        with self._store.reading():
            version = self._store.version()
            if self._seen is None or self._seen[0] != version:
                self._seen = version, self._read_world()
            world = self._seen[1]
            world.advance(self._present.instant)
            yield world

    def _write(
        self, command: LoggedCommand, answer: Callable[[World], Given], check: Callable[[], None] = lambda: None, *,
        early: bool = False,
    ) -> Given:  # fmt: skip
        """Carry a command out in one transaction; `answer` is asked before the state is stored.

        `early` before a clock that runs out does: afterwards what was added may be over.
        """
        self._seen = None
        with self._store.writing():
            check()
            world = self._read_world()
            at = self._present.instant
            commands.apply(world, at, command)
            self._store.append_log(at, command.line())
            given = answer(world) if early else None
            if self._present.clock.run_out and not isinstance(command, RunOut):
                world.advance(None)
                self._store.append_log(world.now, RunOut().line())
            if given is None:
                given = answer(world)
            self._keep(world)
        return given

    def _read_world(self) -> World:
        """The world as it was stored; raises `ClusterError` for one that cannot have been stored so."""
        state = self._store.state()
        with whole():
            world = written.load(state)
        world.epoch = unix_millis(self.epoch)
        if world.sharing.month is None:
            world.sharing.month = self._month_of_accounts(world)
        return world

    def _month_of_accounts(self, world: World) -> MonthUse:
        """The month's use of a cluster of an earlier version, which did not note it."""
        start = Millis(month_of(Millis(world.epoch + world.now)) - world.epoch)
        use = MonthUse()
        for span in self._store.usage(start, world.now):
            use.add(span, world.epoch)
        return use

    def _keep(self, world: World) -> None:
        """Store the state and what is new; the clock goes on from its instant."""
        if HistoryKind.JOBS in world.wiped:
            self._store.forget_jobs()
        if HistoryKind.CONFIGURATIONS in world.wiped:
            self._store.forget_configs()
        self._store.append_events(world.events)
        self._store.append_usage(world.usage.closed)
        self._store.put_jobs(row_of(job, self.epoch) for job in world.ended)
        for version in world.pushed:
            self._store.put_config(version.number, version.at, version.message, version.files)
        self._store.set_state(written.dump(world))
        self._present.go_on(world.now)
        self._store.set_meta(still.KEY, self._to_see(world))

    def _to_see(self, world: World) -> dict[str, Any] | None:
        """What `still.Still` says of the world, until the next thing happens by itself; None of a large one."""
        if sum(len(job.status.tasks) for job in world.jobs.values()) + len(world.machines) > still.MOST:
            return None
        epoch, there = self.epoch, [service for service in world.services if service.there]
        return {
            "form": still.FORM,
            "seal": self._store.seal(),
            "until": world.loop.peek(),
            "jobs": [dump_view(view_of(job, epoch), epoch) for job in world.jobs.values()],
            "nodes": [dump_node(view, epoch) for view in node_views(world, epoch)],
            "windows": [asdict(window) for window in world.windows],
            "starts": [[start.job, millis_between(epoch, start.at)] for start in world.sharing.promised_starts()],
            "reservations": [dump_reservation(view, epoch) for view in reservation_views(world, epoch)],
            "services": [dump_service(service_view(world, service, epoch), epoch) for service in there],
        }

    def replayed(self, log: Sequence[tuple[Millis, Line]]) -> dict[str, Any]:
        """The state computed anew from a command log alone."""
        dumped: dict[str, Any] = json.loads(json.dumps(written.dump(commands.replay(log, unix_millis(self.epoch)))))
        return dumped


def _node_named(views: Sequence[NodeView], name: str) -> NodeView:
    return next(view for view in views if view.machine.name == name)
