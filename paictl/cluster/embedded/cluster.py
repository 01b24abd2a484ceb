"""The embedded cluster behind the interface.

What was written down answers who only looks, as long as nothing has happened since (`still`); for all else the cluster
comes to life (`live`), which loads the scheduler and everything around it. Most short commands never need that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from paictl.cluster.configured import no_version
from paictl.cluster.embedded.clock import Clock, Present, wall_time
from paictl.cluster.embedded.still import SHOWN, Still, view_from
from paictl.cluster.embedded.store import Store, whole
from paictl.cluster.interface import About, ConfigVersion, Event, JobRequest, JobView, MachineSpec, NodeChange, Port
from paictl.units import Millis, instant

if TYPE_CHECKING:
    import socket

    from paictl.cluster.defrag import DefragPlan, GangPods
    from paictl.cluster.embedded.commands import BringUp, Line, LoggedCommand
    from paictl.cluster.embedded.live import Live
    from paictl.cluster.embedded.sidefiles import EmbeddedStorages, EmbeddedTemplates, EmbeddedUsers
    from paictl.cluster.figures import ClusterFigures
    from paictl.cluster.interface import (
        DeviceTime,
        MaintenanceWindow,
        NodeDriver,
        NodeView,
        PromisedStart,
        Protection,
        ReservationView,
        ServiceView,
        TaskPlace,
    )
    from paictl.cluster.jobpages import JobPage, JobQuery
    from paictl.cluster.maintenance import WindowRequest
    from paictl.cluster.picture import Picture
    from paictl.cluster.reservations import ReservationRequest
    from paictl.cluster.scheduling import Impact, JobExplanation
    from paictl.cluster.storages import Credentials, Storage
    from paictl.cluster.templates import TemplateLibrary
    from paictl.remote import Pipes
    from paictl.scheduler.defrag import RoomPlan, RoomRequest
    from paictl.workload.lending import LendUse


class EmbeddedCluster:
    """A cluster in a folder of this machine. `wall` gives Unix time in seconds (tests have their own)."""

    lacks: Mapping[Port, str] = MappingProxyType({})
    keeps_data = False
    """Data are where the service is, and go with it."""

    def __init__(self, store: Store, wall: Callable[[], float] = wall_time) -> None:
        self._store = store
        self._present = Present(store, wall)
        self._alive: Live | None = None

    @property
    def _live(self) -> Live:
        """The cluster at work, from the first request on that needs it."""
        if self._alive is None:
            from paictl.cluster.embedded.live import Live  # late: most of what a command could load

            self._alive = Live(self._store, self._present)
        return self._alive

    @contextmanager
    def _still(self) -> Iterator[Still | None]:
        """What was written down, in one view of the file; None where that does not hold, or the world is at hand."""
        if self._alive is not None:
            yield None
            return
        with self._store.reading():
            yield Still.of(self._store, self._present)

    # --- life

    @classmethod
    def up(
        cls, folder: Path, command: BringUp, then: Iterable[LoggedCommand] = (), *,
        clock: tuple[float, bool] | None = None, wall: Callable[[], float] = wall_time,
    ) -> EmbeddedCluster:  # fmt: skip
        """Bring a cluster up; `clock` is (speed, run out), as fast as time passes by default.

        Where a beginning was planned for the folder, it begins then, and unless a clock is given that one stands.
        The cluster begins with the commands in `then` carried out, or does not begin. Raises `ConflictError` if one is
        up in the folder.
        """
        from paictl.cluster.embedded.live import Live

        return cls(Live.up(folder, command, then, clock, wall), wall)

    @classmethod
    def at(cls, folder: Path, wall: Callable[[], float] = wall_time) -> EmbeddedCluster:
        """The cluster in a folder; raises `UnreachableError` if none is up."""
        return cls(Store.open(folder), wall)

    def down(self) -> None:
        """Take the cluster down and forget everything."""
        self._store.close()
        Store.remove(self._store.folder)

    @staticmethod
    def remove(folder: Path) -> None:
        """Remove a cluster that cannot be opened any more."""
        Store.remove(folder)

    @property
    def name(self) -> str:
        """The cluster's id."""
        return str(self._store.meta("name"))

    def about(self) -> About:
        """Where it lives; its software is this program."""
        return About("embedded", str(self._store.folder))

    @property
    def users(self) -> EmbeddedUsers:
        """Accounts and tokens, in a file of their own."""
        from paictl.cluster.embedded.sidefiles import EmbeddedUsers  # late: few commands are about users

        return EmbeddedUsers(self._store.folder)

    # --- time

    @property
    def epoch(self) -> datetime:
        """When the cluster came up."""
        return self._present.epoch

    @property
    def clock(self) -> Clock:
        """The clock as the last command left it."""
        return self._present.clock

    @property
    def now(self) -> datetime:
        """The present instant."""
        return instant(self.epoch, self.present)

    @property
    def present(self) -> Millis:
        """The present on the cluster's own clock."""
        return self._present.instant

    @property
    def pace(self) -> float | None:
        """How many times faster than the wall clock it goes; None where it runs out after every command."""
        clock = self.clock
        return None if clock.run_out else clock.speed

    def tick(self, span: Millis | None) -> datetime:
        """Advance the clock by hand: by a span, or (None) until nothing more will happen; returns the new instant."""
        return self._live.tick(span)

    def set_speed(self, speed: float, *, run_out: bool) -> None:
        """Let the clock run at another speed from now on."""
        with self._store.writing():
            self._present.set_speed(speed, run_out=run_out)
            self._alive = None

    # --- nodes

    def nodes(self) -> Sequence[NodeView]:
        """All nodes by name."""
        with self._still() as still:
            if still is not None:
                return still.nodes()
        return self._live.nodes()

    def set_node(self, name: str, change: NodeChange) -> NodeView:
        """Cordon, uncordon, fail or heal a node."""
        return self._live.set_node(name, change)

    def set_devices(self, name: str, change: NodeChange, devices: Sequence[int]) -> NodeView:
        """Let devices of a node fail, or heal."""
        return self._live.set_devices(name, change, devices)

    def add_node(self, machine: MachineSpec) -> NodeView:
        """A machine joins."""
        return self._live.add_node(machine)

    def remove_node(self, name: str) -> None:
        """A machine leaves; its pods are lost."""
        self._live.remove_node(name)

    # --- maintenance

    def windows(self) -> Sequence[MaintenanceWindow]:
        """The maintenance windows that have not ended."""
        with self._still() as still:
            if still is not None:
                return still.windows(self.present)
        return self._live.windows()

    def add_window(self, request: WindowRequest) -> MaintenanceWindow:
        """Add a maintenance window."""
        return self._live.add_window(request)

    def remove_window(self, name: str) -> None:
        """Remove a maintenance window."""
        self._live.remove_window(name)

    # --- reservations

    def reservations(self) -> Sequence[ReservationView]:
        """The reservations that are not over."""
        with self._still() as still:
            if still is not None:
                return still.reservations()
        return self._live.reservations()

    def add_reservation(self, request: ReservationRequest, *, dry_run: bool = False) -> ReservationView:
        """Add a reservation, or only find out whether that would do."""
        return self._live.add_reservation(request, dry_run=dry_run)

    def remove_reservation(self, name: str) -> None:
        """Remove a reservation."""
        self._live.remove_reservation(name)

    # --- storages

    def storages(self) -> Sequence[Storage]:
        """All storages by name."""
        return self._storages.read()

    def add_storage(self, storage: Storage, credentials: Credentials | None = None) -> None:  # noqa: ARG002
        """Add a storage; nothing is mounted here, so credentials are not kept."""
        self._storages.add(storage)

    def grant_storage(self, name: str, add: Sequence[str], revoke: Sequence[str]) -> Storage:
        """Change which virtual clusters may use a storage."""
        return self._storages.grant(name, add, revoke)

    def remove_storage(self, name: str) -> None:
        """Remove a storage from the list."""
        self._storages.remove(name)

    @property
    def _storages(self) -> EmbeddedStorages:
        from paictl.cluster.embedded.sidefiles import EmbeddedStorages  # late: few commands are about storages

        return EmbeddedStorages(self._store.folder)

    # --- job templates

    def template_libraries(self) -> Sequence[TemplateLibrary]:
        """All libraries of job templates by name."""
        return self._templates.read()

    def put_template_library(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library, or replace the one of its name."""
        self._templates.put(library, new=new)

    def remove_template_library(self, name: str) -> None:
        """Remove a library."""
        self._templates.remove(name)

    @property
    def _templates(self) -> EmbeddedTemplates:
        from paictl.cluster.embedded.sidefiles import EmbeddedTemplates  # late: few commands are about templates

        return EmbeddedTemplates(self._store.folder)

    # --- jobs

    def submit(self, requests: Sequence[JobRequest]) -> Sequence[JobView]:
        """Take jobs, all or none."""
        from paictl.cluster.storages import refuse_extras  # late: who only looks takes nothing
        from paictl.cluster.taking import with_account_keys

        refuse_extras(requests, self.storages)
        with_account_keys(requests, self.users)  # nobody is let in here, but the same jobs are refused
        return self._live.submit(requests)

    def stop_job(self, key: str) -> None:
        """End a job; nothing to do for one that has ended."""
        self._live.stop_job(key)

    def tag_job(self, key: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Sequence[str]:
        """Change the tags of a job, ended or not."""
        return self._live.tag_job(key, add, remove)

    def jobs(self, *, ended: bool = True) -> Sequence[JobView]:
        """Jobs in order of submission, without tasks."""
        with self._still() as still:
            if still is not None:
                pairs, epoch = still.jobs(), self.epoch
                if ended:
                    rows = self._store.ended_views()
                    pairs += [(number, view_from(row, epoch, tasks=False)) for number, row in rows]
                return [view for _, view in sorted(pairs, key=lambda pair: pair[0])]
        return self._live.jobs(ended=ended)

    def job(self, key: str) -> JobView:
        """One job with its tasks."""
        with self._still() as still:
            if still is not None and (view := still.job(key)) is not None:
                return view
            if still is not None and (row := self._store.job(key)) is not None and SHOWN in row.data:
                with whole():
                    return view_from({**row.view, "tasks": row.data[SHOWN]}, self.epoch)
        return self._live.job(key)

    def job_data(self, key: str) -> Mapping[str, object]:
        """What a job was submitted with, secrets masked."""
        return self._live.job_data(key)

    def job_page(self, query: JobQuery) -> JobPage:
        """The jobs of a page: views are made of these only, however many jobs there are."""
        return self._live.job_page(query)

    def output(self, key: str, task: TaskPlace, *, follow: bool = False, lines: int | None = None) -> Iterator[bytes]:
        """When a task ran and where, and that its pod is imagined."""
        return self._live.output(key, task, follow=follow, lines=lines)

    def execute(self, key: str, task: TaskPlace, command: Sequence[str], pipes: Pipes) -> int:
        """Nothing runs in a pod that is imagined."""
        return self._live.execute(key, task, command, pipes)

    def dial(self, key: str, task: TaskPlace, port: int) -> socket.socket:
        """Nothing listens in a pod that is imagined."""
        return self._live.dial(key, task, port)

    def ssh_address(self, key: str, task: TaskPlace) -> None:
        """Nothing: no server runs in a pod that is imagined."""

    def events(self, subject: str | None = None, after: int = 0) -> Sequence[Event]:
        """Events in order, of one object or of all."""
        with self._still() as still:
            if still is not None:
                epoch = self.epoch
                return [happened.event(epoch) for happened in self._store.events(subject, after)]
        return self._live.events(subject, after)

    def usage(self, start: datetime, end: datetime) -> DeviceTime:
        """Spans of device time that reach into a window."""
        return self._live.usage(start, end)

    def figures(self) -> ClusterFigures:
        """What the scheduler knows now, for Prometheus."""
        return self._live.figures()

    # --- defragmentation

    def plan_moves(self, rooms: Sequence[RoomRequest]) -> DefragPlan:
        """The moves that make room."""
        return self._live.plan_moves(rooms)

    def outrun(self, room: RoomPlan, kept: Sequence[str], *, exactly: bool) -> str:
        """Why the moves of a room would not go as planned any more."""
        return self._live.outrun(room, kept, exactly=exactly)

    def gangs(self) -> Sequence[GangPods]:
        """The gangs that run."""
        return self._live.gangs()

    def evict_gang(self, gang: GangPods) -> None:
        """Evict all pods of a gang; they start again."""
        self._live.evict_gang(gang)

    def note_plan(self, weights: Mapping[str, int], span: Millis) -> None:
        """Keep the weight of the plan that is carried out."""
        self._live.note_plan(weights, span)

    def note_failure(self, vc: str) -> None:
        """Count a gang that was evicted and has not come back in time."""
        self._live.note_failure(vc)

    # --- scheduling

    def explain(self, key: str) -> JobExplanation:
        """Why a job waits, and what would let it run."""
        return self._live.explain(key)

    def promised_starts(self) -> Sequence[PromisedStart]:
        """The gangs that wait and were promised a start."""
        with self._still() as still:
            if still is not None:
                return still.promised_starts()
        return self._live.promised_starts()

    def foresee(self, request: JobRequest) -> JobExplanation:
        """What would become of a job that was submitted now."""
        from paictl.cluster.storages import refuse_extras  # late, as above

        refuse_extras([request], self.storages)
        return self._live.foresee(request)

    def held_devices(self) -> Mapping[tuple[str, str], int]:
        """Devices that gangs hold with a guarantee, by (virtual cluster, user)."""
        return self._live.held_devices()

    def borrowed_devices(self) -> Mapping[str, int]:
        """Devices that gangs hold without a guarantee, by virtual cluster."""
        return self._live.borrowed_devices()

    def lend_use(self) -> LendUse | None:
        """How the promises stand, for lend limits."""
        return self._live.lend_use()

    def impact(self, files: Mapping[str, str]) -> Sequence[Impact]:
        """The jobs that would be worse off by other configuration files."""
        return self._live.impact(files)

    def picture(self, *, history: bool = False) -> Picture:
        """Cells, virtual clusters, nodes and jobs at one instant; with `history` ended jobs and the timeline, too."""
        return self._live.picture(history=history)

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
        self, files: Mapping[str, str], message: str, *, base: int | None = None,
        secrets: Mapping[str, str] | None = None,  # noqa: ARG002 - imagined services need no password
    ) -> ConfigVersion:  # fmt: skip
        """Store a new version; running services go on with what they loaded.

        Raises `ConflictError` if `base` is given and is not the newest version any more.
        """
        return self._live.push(files, message, base)

    # --- services

    def services(self, *, closely: bool = False) -> Sequence[ServiceView]:  # noqa: ARG002 - all is known at once
        """All services that are there, by name."""
        with self._still() as still:
            if still is not None:
                return still.services()
        return self._live.services()

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
        self._live.restart_services([name])

    def set_service(self, name: str, *, running: bool, take_over: bool = False) -> ServiceView:  # noqa: ARG002
        """Start a service (loading the newest configuration) or stop it."""
        return self._live.set_service(name, running=running)

    def restart_services(self, names: Sequence[str], *, take_over: bool = False) -> None:  # noqa: ARG002
        """Stop services, the last first, and start them again in order, in one transaction."""
        self._live.restart_services(names)

    def losses(self, name: str) -> Sequence[str]:
        """What deleting a service would destroy, as lines for people."""
        return self._live.losses(name)

    def wipe_service(self, name: str, *, with_data: bool = False) -> None:  # noqa: ARG002 - they go with it
        """Stop a service and destroy its data; the command log keeps what was asked, as it does for all commands."""
        self._live.wipe_service(name)

    # --- what is stored

    def replayed(self) -> dict[str, Any]:
        """The state computed anew from the command log alone; equal to the stored one, or there is a bug."""
        return self._live.replayed(self.log())

    def log(self) -> list[tuple[Millis, Line]]:
        """(instant, line) of everything that changed the cluster, in order; `commands.replay` reads it."""
        with self._store.reading():
            return list(self._store.log())

    def stored(self) -> dict[str, Any]:
        """The state as stored."""
        with self._store.reading():
            return self._store.state()
