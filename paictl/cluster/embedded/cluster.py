"""The embedded cluster behind the interface: one class, of which `folder` keeps the file and `jobports` the jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from paictl.cluster.conflicts import moved_on, no_version
from paictl.cluster.embedded import commands
from paictl.cluster.embedded.jobports import WithJobs
from paictl.cluster.interface import ConfigVersion, MachineSpec, NodeChange, Port
from paictl.cluster.maintenance import refuse_other_holds, shown
from paictl.cluster.movetotals import REASON
from paictl.units import Millis, millis_between

if TYPE_CHECKING:
    from paictl.cluster.defrag import DefragPlan, GangPods
    from paictl.cluster.interface import (
        MaintenanceWindow,
        NodeDriver,
        NodeView,
        Protection,
        ReservationView,
        ServiceView,
    )
    from paictl.cluster.maintenance import WindowRequest
    from paictl.cluster.reservations import ReservationRequest
    from paictl.scheduler.defrag import RoomPlan, RoomRequest


class EmbeddedCluster(WithJobs):
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
