"""A picture of a cluster: everything that a person wants to see at once, frozen, without any rule about it.

Cells say who uses what, virtual clusters what they were promised and what became of it, the timeline what happened to
every task. How it is drawn is the business of `page` and of the commands. Every implementation of a cluster can make
one: the embedded one from the scheduler's state, another from HiveD's inspection API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from paictl.cluster.values import AttemptOutcome, JobView, MaintenanceWindow, NodeView, ReservationView, shown_devices
from paictl.frozen import frozen
from paictl.scheduler.inspection import Inspection, PhysicalCellStatus, PreassignedStatus
from paictl.units import rfc3339

if TYPE_CHECKING:
    from paictl.scheduler.freecells import FreeCells


@frozen
class ChainPicture:
    """The cells of one chain; `types` from the leaf type (level 1) up to the chain's own."""

    name: str
    types: tuple[str, ...]
    cells: tuple[PhysicalCellStatus, ...]
    instances: int = 0
    """MIG instances of each GPU where its leaf cells are these; 0 for whole GPUs."""


class PromiseState(StrEnum):
    """What became of a preassigned cell."""

    FREE = "Free"
    USED = "Used"
    DOOMED = "Doomed"
    """Only bad hardware is left to serve it."""


@frozen
class PromisedCell:
    """A preassigned cell, the unit of a virtual cluster's quota."""

    address: str
    kind: str
    level: int
    state: PromiseState
    users: tuple[str, ...]
    """Job on each of its leaves, empty where none is."""
    physical: str = ""
    """Address of the physical cell that serves it, empty while nothing does."""
    healthy: bool = True
    """Whether the physical cell that serves it is healthy."""
    pinned: str = ""
    """Its pinned cell id."""

    @property
    def used(self) -> int:
        """Leaf cells in use."""
        return len(self.users) - self.users.count("")


@frozen
class VcPicture:
    """A virtual cluster; `extra` counts the leaf cells that its jobs use without a guarantee."""

    name: str
    cells: tuple[PromisedCell, ...]
    extra: int = 0
    waiting: int = 0
    """Jobs that wait."""

    @property
    def quota(self) -> int:
        """Leaf cells promised."""
        return sum(len(cell.users) for cell in self.cells)

    @property
    def used(self) -> int:
        """Promised leaf cells in use."""
        return sum(cell.used for cell in self.cells)

    @property
    def doomed(self) -> int:
        """Preassigned cells that only bad hardware can serve."""
        return sum(cell.state is PromiseState.DOOMED for cell in self.cells)


@frozen
class Attempt:
    """One pod of a task from start to end (None: it runs); `devices` are indices on `node`."""

    start: datetime
    end: datetime | None
    outcome: AttemptOutcome
    node: str
    devices: tuple[int, ...] = ()
    reason: str = ""
    isolation: str = ""
    """What its containers get instead where devices are MIG instances: ``GPU:instance`` of each."""

    @property
    def shown_devices(self) -> str:
        """Its devices as its containers know them."""
        return shown_devices(self.devices, self.isolation)


@frozen
class TaskLine:
    """What happened to a task; `waits` are the spans from wanting devices to getting them (end None: it waits)."""

    role: str
    index: int
    attempts: tuple[Attempt, ...]
    waits: tuple[tuple[datetime, datetime | None], ...]


@frozen
class JobLine:
    """What happened to a job. `notes` are (instant, words): guarantees lost and restarts."""

    key: str
    tasks: tuple[TaskLine, ...]
    notes: tuple[tuple[datetime, str], ...] = ()


@frozen
class NodeMark:
    """A node's condition changed (or it came, or went)."""

    at: datetime
    node: str
    what: str


@frozen
class Timeline:
    """What happened until now: jobs in order of submission, and what befell nodes."""

    jobs: tuple[JobLine, ...] = ()
    marks: tuple[NodeMark, ...] = ()


@frozen
class Picture:
    """A cluster at an instant; `jobs` in order of submission."""

    cluster: str
    now: datetime
    epoch: datetime
    """When the cluster came up."""
    chains: tuple[ChainPicture, ...]
    vcs: tuple[VcPicture, ...]
    nodes: tuple[NodeView, ...]
    jobs: tuple[JobView, ...]
    """Those that have not ended; with history, all."""
    note: str = ""
    """Why the cells may not be what they seem, for instance because nothing schedules."""
    timeline: Timeline | None = None
    """Only with history."""
    windows: tuple[MaintenanceWindow, ...] = ()
    """Maintenance windows that have not ended, those that begin first in front."""
    reservations: tuple[ReservationView, ...] = ()
    """Reservations that are not over, those that begin first in front."""
    free: tuple[FreeCells, ...] = ()
    """How scattered free devices are, chain by chain, the largest cells first (`docs/defragmentation.md`)."""

    def top_cells(self) -> Iterator[PhysicalCellStatus]:
        """The top cells of all chains."""
        for chain in self.chains:
            yield from chain.cells

    def leaves(self) -> Iterator[PhysicalCellStatus]:
        """All devices."""
        for cell in self.top_cells():
            yield from cell.leaves()


def picture_data(picture: Picture) -> dict[str, Any]:
    """The picture as JSON values, every field under its own name; instants as in RFC 3339."""
    data: dict[str, Any] = asdict(picture)
    return _plain(data)  # type: ignore[no-any-return]


def _plain(value: object) -> Any:
    """The value with plain strings, lists and mappings only, as YAML wants them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return rfc3339(value)
    return str(value) if isinstance(value, str) else value


def chain_pictures(inspection: Inspection) -> tuple[ChainPicture, ...]:
    """The physical cells, chain by chain."""
    tops = {name: tuple(top for top in inspection.tops if top.kind == name) for name in inspection.chains}
    return tuple(
        ChainPicture(name, types, tops[name], inspection.instances.get(name, 0))
        for name, types in inspection.chains.items()
    )


def vc_pictures(inspection: Inspection, waiting: Mapping[str, int]) -> tuple[VcPicture, ...]:
    """The virtual clusters in order of declaration; `waiting` counts the jobs that wait, by VC."""
    return tuple(
        VcPicture(
            name, tuple(map(_promise, own)), len(inspection.without_guarantee.get(name, ())), waiting.get(name, 0)
        )
        for name, own in inspection.vcs.items()
    )


def _promise(top: PreassignedStatus) -> PromisedCell:
    cell = top.cell
    users = tuple(part.job for part in cell.cells() if not part.parts)
    return PromisedCell(
        address=cell.address,
        kind=cell.kind,
        level=cell.level,
        state=PromiseState.USED if any(users) else PromiseState.DOOMED if top.doomed else PromiseState.FREE,
        users=users,
        physical=cell.physical.address if cell.physical else "",
        healthy=cell.healthy,
        pinned=top.pinned,
    )
