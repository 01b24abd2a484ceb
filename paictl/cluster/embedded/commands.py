"""What can be asked of an embedded cluster: one dataclass a command, each with its line in the log.

The log is the truth: what a command did follows from its words, the instant at which it came and what came before. So a
command holds everything it needs and nothing that can be computed. The lines are JSON; reports of labs keep them, so
their form is never changed, only added to.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from paictl.cluster.embedded.present import END, machine_from
from paictl.cluster.interface import ClusterError, Event, JobRequest, MachineSpec, NodeChange
from paictl.cluster.movetotals import REASON, with_failure, with_move, with_plan
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import Millis, from_unix
from paictl.workload.reservations import Repeat, Reservation, cell_shape
from paictl.workload.windows import Window

if TYPE_CHECKING:
    from paictl.cluster.embedded.world import World

Line = Mapping[str, Any]
"""A command as it stands in the log; `do` says which one it is."""


class LoggedCommand(ABC):
    """Something that was asked at an instant."""

    do: ClassVar[str]
    """Its name in the log."""

    @abstractmethod
    def act(self, world: World) -> object:
        """Carry it out in a world that has come to its instant."""

    def fields(self) -> dict[str, Any]:
        """What the log says beside its name, as JSON values: its fields, unless a command says otherwise."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}  # type: ignore[arg-type]

    @classmethod
    def of(cls, line: Line) -> Self:
        """The inverse of `line`; a field that lines of earlier versions do not have keeps its default."""
        return cls(**_values({field.name: line[field.name] for field in dataclasses.fields(cls) if field.name in line}))  # type: ignore[arg-type]

    def line(self) -> dict[str, Any]:
        """The command as it stands in the log."""
        return {"do": self.do, **self.fields()}


def _plain(value: object) -> object:
    """A field as a JSON value."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return asdict(value) if isinstance(value, MachineSpec | JobRequest) else value


def _values(line: Line) -> dict[str, Any]:
    """The fields of a value by what the log says of them: a list there was a tuple."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in line.items()}


@frozen
class BringUp(LoggedCommand):
    """The first command of every log: it makes the world, so that there is none in which it could act."""

    do: ClassVar[str] = "up"
    name: str
    services: tuple[str, ...]
    machines: tuple[MachineSpec, ...]

    def begin(self) -> World:
        """The cluster at instant 0."""
        from paictl.cluster.embedded.world import World  # late: who only looks loads the commands and makes no world

        world = World(self.name, self.services)
        for machine in self.machines:
            world.add_node(machine)
        return world

    def act(self, world: World) -> None:
        """A world comes up once."""
        raise ValueError(text("{name} is already up", name=world.name))

    @classmethod
    def of(cls, line: Line) -> Self:
        """From the log."""
        return cls(line["name"], tuple(line["services"]), tuple(map(machine_from, line["machines"])))


@frozen
class Submit(LoggedCommand):
    """Take jobs, all or none."""

    do: ClassVar[str] = "submit"
    requests: tuple[JobRequest, ...]

    def act(self, world: World) -> object:
        """The jobs that were taken."""
        return world.submit(self.requests)

    def fields(self) -> dict[str, Any]:
        """The requests."""
        return {"jobs": [asdict(request) for request in self.requests]}

    @classmethod
    def of(cls, line: Line) -> Self:
        """From the log."""
        return cls(tuple(JobRequest(**_values(job)) for job in line["jobs"]))


@frozen
class StopJob(LoggedCommand):
    """End a job."""

    do: ClassVar[str] = "stop-job"
    key: str

    def act(self, world: World) -> None:
        """Stop it."""
        world.stop_job(self.key)


@frozen
class TagJob(LoggedCommand):
    """Change the tags of a job; of one that is stored as ended, the caller changes what is stored."""

    do: ClassVar[str] = "tag-job"
    key: str
    add: tuple[str, ...]
    remove: tuple[str, ...]

    def act(self, world: World) -> None:
        """Change them."""
        world.tag_job(self.key, self.add, self.remove)


@frozen
class SetNode(LoggedCommand):
    """Change how a node is."""

    do: ClassVar[str] = "set-node"
    name: str
    change: NodeChange

    def act(self, world: World) -> object:
        """The node as it is then."""
        return world.set_node(self.name, self.change)

    @classmethod
    def of(cls, line: Line) -> Self:
        """From the log."""
        return cls(line["name"], NodeChange(line["change"]))


@frozen
class SetDevices(LoggedCommand):
    """Let devices of a node break, or mend them."""

    do: ClassVar[str] = "set-devices"
    name: str
    change: NodeChange
    devices: tuple[int, ...]

    def act(self, world: World) -> object:
        """The node as it is then."""
        return world.set_devices(self.name, self.change, self.devices)

    @classmethod
    def of(cls, line: Line) -> Self:
        """From the log."""
        return cls(line["name"], NodeChange(line["change"]), tuple(line["devices"]))


@frozen
class AddWindow(LoggedCommand):
    """Add a maintenance window; `start` None: now."""

    do: ClassVar[str] = "add-window"
    nodes: tuple[str, ...]
    span: Millis
    start: Millis | None
    name: str
    notice: Millis
    reason: str
    hold: bool = False

    def fields(self) -> dict[str, Any]:
        """What a window that only keeps nodes free says more than others."""
        values = LoggedCommand.fields(self)  # not super(): a frozen class is made anew
        return values if self.hold else {key: value for key, value in values.items() if key != "hold"}

    def act(self, world: World) -> object:
        """The window."""
        start, name = self.start, self.name or world.windows.free_name(hold=self.hold)
        start = world.now if start is None else start
        end = Millis(start + self.span)
        return world.add_window(Window(name, self.nodes, start, end, self.notice, self.reason, self.hold))


@frozen
class EvictGang(LoggedCommand):
    """Evict the pods of one group of a job, or of all of them; they start again."""

    do: ClassVar[str] = "evict-gang"
    job: str
    group: str
    """Empty: the whole job."""
    reason: str

    def act(self, world: World) -> None:
        """Evict them, and count a move for defragmentation."""
        from paictl.cluster.embedded.analysis import gangs_in  # late: few commands move gangs

        job = world.jobs.get(self.job)
        moved = () if job is None or self.reason != REASON else gangs_in(world, job)
        world.evict_gang(self.job, self.group, self.reason)
        for gang in moved:
            if not self.group or gang.group == self.group:
                world.moves = with_move(world.moves, gang)


@frozen
class NotePlan(LoggedCommand):
    """A plan of moves of these weights by virtual cluster is carried out; empty: none is any more."""

    do: ClassVar[str] = "note-plan"
    weights: Mapping[str, int]
    span: Millis

    def act(self, world: World) -> None:
        """Keep it."""
        world.moves = with_plan(world.moves, self.weights, Millis(world.now + self.span))


@frozen
class NoteFailure(LoggedCommand):
    """A gang of a virtual cluster was evicted for a plan and has not come back in time."""

    do: ClassVar[str] = "note-failed-move"
    vc: str

    def act(self, world: World) -> None:
        """Count it."""
        world.moves = with_failure(world.moves, self.vc)


@frozen
class RemoveWindow(LoggedCommand):
    """Remove a maintenance window."""

    do: ClassVar[str] = "remove-window"
    name: str

    def act(self, world: World) -> None:
        """Remove it."""
        world.remove_window(self.name)


@frozen
class AddReservation(LoggedCommand):
    """Add a reservation; `start` None: now. With a `vc` cells of its promise, else nodes of the free pool."""

    do: ClassVar[str] = "add-reservation"
    span: Millis
    start: Millis | None
    vc: str
    cells: int
    cell_type: str
    nodes: tuple[str, ...]
    repeat: str
    name: str
    reason: str

    def reservation(self, world: World) -> Reservation:
        """The reservation in a world; raises `ReservationError` for a cell type that there is none of."""
        start = world.now if self.start is None else self.start
        leaf_type, leaves = cell_shape(world.spec(), self.cell_type) if self.vc and self.cell_type else ("", 0)
        return Reservation(
            self.name or world.reservations.free_name(),
            start,
            Millis(start + self.span),
            self.vc,
            self.cells,
            self.cell_type,
            leaf_type,
            leaves,
            self.nodes,
            Repeat(self.repeat),
            self.reason,
        )

    def act(self, world: World) -> object:
        """The reservation."""
        return world.add_reservation(self.reservation(world))


@frozen
class RemoveReservation(LoggedCommand):
    """Remove a reservation."""

    do: ClassVar[str] = "remove-reservation"
    name: str

    def act(self, world: World) -> None:
        """Remove it."""
        world.remove_reservation(self.name)


@frozen
class AddNode(LoggedCommand):
    """A machine joins."""

    do: ClassVar[str] = "add-node"
    machine: MachineSpec

    def act(self, world: World) -> None:
        """Let it join."""
        world.add_node(self.machine)

    @classmethod
    def of(cls, line: Line) -> Self:
        """From the log."""
        return cls(machine_from(line["machine"]))


@frozen
class RemoveNode(LoggedCommand):
    """A machine leaves."""

    do: ClassVar[str] = "remove-node"
    name: str

    def act(self, world: World) -> None:
        """Let it leave."""
        world.remove_node(self.name)


@frozen
class Push(LoggedCommand):
    """A new version of the configuration, secrets sealed already."""

    do: ClassVar[str] = "push"
    files: Mapping[str, str]
    message: str

    def act(self, world: World) -> object:
        """The version."""
        return world.push(self.files, self.message)


@frozen
class SetService(LoggedCommand):
    """Start or stop a service."""

    do: ClassVar[str] = "set-service"
    name: str
    running: bool

    def act(self, world: World) -> object:
        """The service as it is then."""
        return world.set_service(self.name, running=self.running)


@frozen
class RestartServices(LoggedCommand):
    """Stop services, the last first, and start them again in order."""

    do: ClassVar[str] = "restart-services"
    names: tuple[str, ...]

    def act(self, world: World) -> None:
        """Restart them."""
        world.restart_services(self.names)


@frozen
class WipeService(LoggedCommand):
    """Delete a service with its data."""

    do: ClassVar[str] = "wipe-service"
    name: str

    def act(self, world: World) -> None:
        """Delete it."""
        world.wipe_service(self.name)


@frozen
class Tick(LoggedCommand):
    """Nothing but time passes."""

    do: ClassVar[str] = "tick"
    span: Millis

    def act(self, world: World) -> None:
        """Let it pass. Raises `ClusterError` where that would be beyond the end of time."""
        if world.now + self.span > world.end:
            raise ClusterError(text("the clock of this cluster ends in the year {year}", year=END.year))
        world.advance(Millis(world.now + self.span))


@frozen
class RunOut(LoggedCommand):
    """Time passes until nothing more will happen."""

    do: ClassVar[str] = "run-out"

    def act(self, world: World) -> None:
        """Let it pass."""
        world.advance(None)


_KINDS: Final[tuple[type[LoggedCommand], ...]] = (
    BringUp,
    Submit,
    StopJob,
    TagJob,
    SetNode,
    SetDevices,
    AddNode,
    RemoveNode,
    Push,
    SetService,
    RestartServices,
    WipeService,
    Tick,
    RunOut,
    AddWindow,
    RemoveWindow,
    EvictGang,
    NotePlan,
    NoteFailure,
    AddReservation,
    RemoveReservation,
)
_READERS: Final[Mapping[str, Callable[[Line], LoggedCommand]]] = {kind.do: kind.of for kind in _KINDS}


_ORIGIN: Final = Millis(0)


def read(line: Line) -> LoggedCommand:
    """The command of a line of the log; raises `KeyError`, `TypeError` or `ValueError` for what is none."""
    return _READERS[line["do"]](line)


def bring_up(
    name: str, services: Sequence[str], machines: Sequence[MachineSpec], files: Mapping[str, str]
) -> tuple[BringUp, list[LoggedCommand]]:
    """The commands of a new cluster whose services, given in start order, run by the configuration in `files`."""
    start = [SetService(service, True) for service in services]
    return BringUp(name, tuple(services), tuple(machines)), [Push(files, "at start"), *start]


def apply(world: World, at: Millis, command: LoggedCommand) -> object:
    """Let time pass until `at` and carry a command out; what it returns is the command's."""
    world.advance(at)
    answer = command.act(world)
    world.dispatcher.come_to_rest()
    return answer


def replay(log: Sequence[tuple[Millis, Line]], epoch: Millis = _ORIGIN) -> World:
    """The cluster, with all its events, that a log of (instant, line) makes; the first line is that of `BringUp`.

    `epoch` is the Unix time of instant 0, on which budgets of months depend.
    """
    world = BringUp.of(log[0][1]).begin()
    world.epoch = epoch
    for at, line in log[1:]:
        apply(world, at, read(line))
    return world


def replayed_events(log: Sequence[tuple[Millis, Line]], epoch: Millis, until: Millis) -> list[Event]:
    """All events of a `Recorded` cluster that began at `epoch` (Unix time), computed anew up to an instant of its own.

    Raises `KeyError`, `TypeError`, `ValueError` or `PaictlError` if it is not such a log.
    """
    world = replay(log, epoch)
    world.advance(max(until, world.now))
    start = from_unix(epoch / 1000)
    return [happened.event(start) for happened in world.events]
