"""The embedded cluster behind the interface: one class, of which `folder` keeps the file.

Pods are imagined: nothing runs in them and so they write nothing, which is what their output says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from paictl.cluster.conflicts import moved_on, no_version
from paictl.cluster.embedded import commands
from paictl.cluster.embedded.folder import ClusterInFolder
from paictl.cluster.embedded.present import SHOWN, view_from
from paictl.cluster.embedded.store import whole
from paictl.cluster.interface import (
    ClusterError,
    ConfigVersion,
    DeviceTime,
    Event,
    JobRequest,
    JobView,
    MachineSpec,
    NodeChange,
    Port,
    TaskPlace,
    UnsupportedError,
)
from paictl.cluster.jobwords import name_taken
from paictl.cluster.maintenance import refuse_other_holds, shown
from paictl.cluster.movetotals import REASON
from paictl.i18n import text
from paictl.units import Millis, instant, millis_between
from paictl.workload.tags import with_changes

if TYPE_CHECKING:
    import socket

    from paictl.cluster.defrag import DefragPlan, GangPods
    from paictl.cluster.embedded.jobs import LiveJob
    from paictl.cluster.embedded.views import WorldViews
    from paictl.cluster.embedded.world import World
    from paictl.cluster.figures import ClusterFigures
    from paictl.cluster.interface import (
        MaintenanceWindow,
        NodeDriver,
        NodeView,
        PromisedStart,
        Protection,
        ReservationView,
        ServiceView,
    )
    from paictl.cluster.jobpages import JobPage, JobQuery
    from paictl.cluster.maintenance import WindowRequest
    from paictl.cluster.picture import Picture
    from paictl.cluster.reservations import ReservationRequest
    from paictl.cluster.scheduling import Impact, JobExplanation
    from paictl.remote import Pipes
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.workload.lending import LendUse
    from paictl.workload.usage import UsageAmount


class EmbeddedCluster(ClusterInFolder):
    """A cluster in a folder of this machine."""

    lacks: Mapping[Port, str] = MappingProxyType({})
    keeps_data = False
    """Data are where the service is, and go with it."""

    # --- nodes

    def nodes(self) -> Sequence[NodeView]:
        """All nodes by name."""
        with self._look() as views:
            return views.nodes()

    def set_node(self, name: str, change: NodeChange) -> NodeView:
        """Cordon, uncordon, fail or heal a node."""
        return self._ask(commands.SetNode(name, change), lambda views: views.node(name))

    def set_devices(self, name: str, change: NodeChange, devices: Sequence[int]) -> NodeView:
        """Let devices of a node fail, or heal."""
        return self._ask(commands.SetDevices(name, change, tuple(devices)), lambda views: views.node(name))

    def add_node(self, machine: MachineSpec) -> NodeView:
        """A machine joins."""
        return self._ask(commands.AddNode(machine), lambda views: views.node(machine.name))

    def remove_node(self, name: str) -> None:
        """A machine leaves; its pods are lost."""
        self._do(commands.RemoveNode(name))

    # --- maintenance

    def windows(self) -> Sequence[MaintenanceWindow]:
        """The maintenance windows that have not ended."""
        with self._look() as views:
            return views.windows()

    def add_window(self, request: WindowRequest) -> MaintenanceWindow:
        """Add a maintenance window."""
        start = None if request.start is None else millis_between(self.epoch, request.start)
        nodes = tuple(dict.fromkeys(request.nodes))
        command = commands.AddWindow(
            nodes, request.span, start, request.name, request.notice, request.reason, request.hold
        )

        def check() -> None:
            if request.hold:
                world = self._read_world()
                world.advance(self._present.instant)
                refuse_other_holds(self._views(world).windows(), request.beside)

        return self._ask(
            command,
            lambda views: shown(views.world.windows.all[-1:], views.world.now, self.epoch)[0],
            check,
            early=True,
        )

    def remove_window(self, name: str) -> None:
        """Remove a maintenance window."""
        self._do(commands.RemoveWindow(name))

    # --- reservations

    def reservations(self) -> Sequence[ReservationView]:
        """The reservations that are not over."""
        with self._look() as views:
            return views.reservations()

    def add_reservation(self, request: ReservationRequest, *, dry_run: bool = False) -> ReservationView:
        """Add a reservation, or only find out whether that would do."""
        start = None if request.start is None else millis_between(self.epoch, request.start)
        command = commands.AddReservation(
            request.span,
            start,
            request.vc,
            request.cells,
            request.cell_type,
            tuple(dict.fromkeys(request.nodes)),
            request.repeat.value,
            request.name,
            request.reason,
        )
        if dry_run:
            with self._world() as world:
                new = command.reservation(world)
                world.try_reservation(new)
                return self._views(world).reservation(new)
        return self._ask(command, lambda views: views.reservation(views.world.reservations.all[-1]), early=True)

    def remove_reservation(self, name: str) -> None:
        """Remove a reservation."""
        self._do(commands.RemoveReservation(name))

    # --- defragmentation

    def plan_moves(self, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room."""
        with self._questions() as questions:
            return questions.plan_moves(rooms)

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more."""
        with self._questions() as questions:
            return questions.outrun(room, kept, exactly=exactly)

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""
        with self._questions() as questions:
            return questions.gangs()

    def evict_gang(self, gang: GangPods) -> None:
        """Evict all pods of a gang; they start again."""
        self._do(commands.EvictGang(gang.job, gang.group, REASON))

    def note_plan(self, weights: Mapping[str, int], span: Millis) -> None:
        """Keep the weight of the plan that is carried out."""
        self._do(commands.NotePlan(dict(weights), span))

    def note_failure(self, vc: str) -> None:
        """Count a gang that was evicted and has not come back in time."""
        self._do(commands.NoteFailure(vc))

    # --- configuration

    def configuration(self, number: int | None = None) -> ConfigVersion:
        """A version of the configuration, the newest without a number."""
        versions = self.configurations()
        if number is None and versions:
            return versions[-1]
        for version in versions:
            if version.number == number:
                return version
        raise no_version(number, versions[-1].number if versions else 0)

    def configurations(self) -> Sequence[ConfigVersion]:
        """All versions, oldest first."""
        with self._store.reading():
            epoch = self.epoch
            return [pushed.version(epoch) for pushed in self._store.configs()]

    def push(
        self,
        files: Mapping[str, str],
        message: str,
        *,
        base: int | None = None,
        secrets: Mapping[str, str] | None = None,  # noqa: ARG002 - imagined services need no password
    ) -> ConfigVersion:
        """Store a new version; running services go on with what they loaded.

        Raises `ConflictError` if `base` is given and is not the newest version any more.
        """

        def check() -> None:
            newest = self._store.newest_config()
            if base not in (None, newest):
                raise moved_on(newest)

        return self._ask(commands.Push(files, message), lambda views: views.world.pushed[-1].version(self.epoch), check)

    # --- services

    def services(self, *, closely: bool = False) -> Sequence[ServiceView]:  # noqa: ARG002 - all is known at once
        """All services that are there, by name."""
        with self._look() as views:
            return views.services()

    def drift(self, name: str) -> Sequence[str]:  # noqa: ARG002 - whichever it is
        """Nothing, ever: nobody else can change anything."""
        return ()

    def protections(self) -> Sequence[Protection]:
        """Nothing: there are no pods that could do harm."""
        return ()

    def drivers(self) -> Sequence[NodeDriver]:
        """Nothing: no device has a driver."""
        return ()

    def lacking(self) -> Mapping[str, Sequence[str]]:
        """Nothing: no image is needed."""
        return {}

    def note_images(self, images: Collection[str] | None) -> None:
        """Nothing to keep for the same reason."""

    def refresh_service(self, name: str, *, take_over: bool = False) -> None:  # noqa: ARG002
        """Stop and start a service in one transaction."""
        self._do(commands.RestartServices((name,)))

    def set_service(self, name: str, *, running: bool, take_over: bool = False) -> ServiceView:  # noqa: ARG002
        """Start a service (loading the newest configuration) or stop it."""
        return self._ask(commands.SetService(name, running), lambda views: views.service(name))

    def restart_services(self, names: Sequence[str], *, take_over: bool = False) -> None:  # noqa: ARG002
        """Stop services, the last first, and start them again in order, in one transaction."""
        self._do(commands.RestartServices(tuple(names)))

    def losses(self, name: str) -> Sequence[str]:
        """What deleting a service would destroy, as lines for people."""
        with self._world() as world:
            return self._views(world).losses(name)

    def wipe_service(self, name: str, *, with_data: bool = False) -> None:  # noqa: ARG002 - they go with it
        """Stop a service and destroy its data; the command log keeps what was asked, as it does for all commands."""
        self._do(commands.WipeService(name))

    # --- jobs

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take jobs, all or none."""
        from paictl.cluster.admission import refuse_excess, with_account_keys, without_secrets  # late: few take jobs
        from paictl.cluster.storages import refuse_extras  # late, as above

        refuse_extras(requests, self.storages)  # all this before the file is locked for others
        with_account_keys(requests, self.users)  # nobody is let in here, but the same jobs are refused
        refuse_excess(requests)
        command = commands.Submit(tuple(map(without_secrets, requests)))  # neither the log nor the state gets a secret
        keys = [f"{request.user}~{request.data.get('name')}" for request in requests]

        def check() -> None:
            taken = self._store.taken_keys(keys)
            if taken:
                raise name_taken(taken[0])

        def act(views: WorldViews) -> list[JobView]:
            for user in sorted({request.user for request in requests}):
                self._refuse_history(views, user)
                views.world.sharing.refuse_many(user, [key for key in keys if key.startswith(f"{user}~")])
            return [view for key in keys if (view := views.job(key)) is not None]  # each was taken, so it is there

        return self._ask(command, act, check)

    def stop_job(self, key: str) -> None:
        """End a job; nothing to do for one that has ended."""
        with self._world() as world:
            ended = self._job(world, key).status.state.final
        if ended:
            return
        try:
            self._do(commands.StopJob(key))
        except ClusterError:
            with self._world() as world:  # another client may have stopped it since
                if not self._job(world, key).status.state.final:
                    raise

    def tag_job(self, key: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Sequence[str]:
        """Change the tags of a job, ended or not."""

        def act(views: WorldViews) -> Sequence[str]:
            self._refuse_history(views, key.partition("~")[0])
            if (job := views.world.job(key)) is not None:
                return job.tags
            stored = views.stored_job(key)
            tags = with_changes(stored.data.get("tags", ()), add, remove)
            now = {"tags": list(tags)}
            self._store.put_jobs([replace(stored, view={**stored.view, **now}, data={**stored.data, **now})])
            return tags

        return self._ask(commands.TagJob(key, tuple(add), tuple(remove)), act)

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """Jobs in order of submission, without tasks."""
        with self._look() as views:
            pairs, epoch = views.jobs(ended=ended), self.epoch
            if ended:
                pairs += [(number, view_from(row, epoch, tasks=False)) for number, row in self._store.ended_views()]
            return [view for _, view in sorted(pairs, key=lambda pair: pair[0])]

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        with self._look() as views:
            if (view := views.job(key)) is not None:
                return view
            if (row := self._store.job(key)) is not None and SHOWN in row.data:
                with whole():
                    return view_from({**row.view, "tasks": row.data[SHOWN]}, self.epoch)
        with self._world() as world:  # only jobs that earlier versions kept have no views
            return self._views(world).read_job(key)

    def job_data(self, key: str) -> Mapping[str, object]:
        """What a job was submitted with, secrets masked."""
        with self._world() as world:
            return self._job(world, key).data

    def job_page(self, query: JobQuery) -> JobPage:
        """The jobs of a page: views are made of these only, however many jobs there are."""
        with self._world() as world:
            return self._views(world).page(query)

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """Events in order, of one object or of all."""
        with self._look() as views:
            fresh = (event for event in views.events() if subject in (None, event.subject) and event.number > after)
            epoch = self.epoch
            return [happened.event(epoch) for happened in chain(self._store.events(subject, after), fresh)]

    def _job(self, world: World, key: str) -> LiveJob:
        """A job, whether it has ended or not; raises `NoJobError` if there is none."""
        return self._views(world).live_job(key)

    # --- pods

    def output(self, key: str, task: TaskPlace, *, follow: bool = False, lines: int | None = None) -> Iterator[bytes]:  # noqa: ARG002
        """When a task ran and where, and that its pod is imagined."""
        with self._world() as world:
            yield self._views(world).output(self._job(world, key), task)

    def execute(self, key: str, task: TaskPlace, command: Sequence[str], pipes: Pipes) -> int:  # noqa: ARG002
        """Nothing runs in a pod that is imagined."""
        raise UnsupportedError(
            text("pods of this cluster are simulated: {command} cannot run in them", command=command[0]),
            hint=text("see where they are placed: paictl job show {job}", job=key),
        )

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """Nothing listens in a pod that is imagined."""
        with self._world() as world:
            self._views(world).need_task(self._job(world, key), task)
        raise UnsupportedError(
            text("pods of this cluster are simulated: nothing listens on port {port} of {task}", port=port, task=task),
            hint=text("tasks serve on a Kubernetes cluster: --cluster NAME"),
        )

    def ssh_address(self, key: str, task: TaskPlace) -> None:
        """Nothing: no server runs in a pod that is imagined."""

    # --- device time

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

    # --- scheduling

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run."""
        with self._questions() as questions:
            return questions.explain(key)

    def promised_starts(self) -> Sequence[PromisedStart]:
        """The gangs that wait and were promised a start."""
        with self._look() as views:
            return views.promised_starts()

    def foresee(self, request: JobRequest) -> JobExplanation:
        """What would happen to a job that was submitted now."""
        with self._questions() as questions:
            return questions.foresee(request, self.storages)

    def held_devices(self) -> Mapping[tuple[str, str], int]:
        """Devices that gangs hold with a guarantee, by (virtual cluster, user); none without a scheduler."""
        with self._world() as world:
            return dict(world.sharing.held())

    def borrowed_devices(self) -> Mapping[str, int]:
        """Devices that gangs hold without a guarantee, by virtual cluster; none without a scheduler."""
        with self._world() as world:
            return dict(world.sharing.borrowed())

    def lend_use(self) -> LendUse | None:
        """How the promises stand, for lend limits; None without a scheduler."""
        with self._world() as world:
            return world.sharing.lend_use()

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off by other configuration files."""
        with self._questions() as questions:
            return questions.impact(files)

    def picture(self, *, history: bool = False) -> Picture:
        """Cells, virtual clusters, nodes and jobs at one instant; with `history` ended jobs and the timeline, too."""
        from paictl.cluster.embedded.pictures import picture  # late: most commands draw nothing

        with self._world() as world:
            return picture(self._views(world), self._store, self.epoch, history=history)

    def figures(self) -> ClusterFigures:
        """What the scheduler knows now, for Prometheus."""
        with self._questions() as questions:
            return questions.figures(self._amounts)
