"""The cells as every client may see them: frozen values, each made once, from the leaves up.

Everything that shows cells is made from these: HiveD's inspection API and the rows of a replay (`inspect`), and the
pictures of every kind of cluster. They know neither the state nor ids, so they can be sent to another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from paictl.cells.ids import NO_PARENT
from paictl.cells.spec import LEAF_LEVEL
from paictl.frozen import frozen
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.groups import Hold, hold_of
from paictl.scheduler.occupancy import FREE_PRIORITY, CellState

if TYPE_CHECKING:
    from paictl.cells.ids import PhysicalCell, VirtualCell
    from paictl.scheduler.state import State


@frozen
class PhysicalCellStatus:
    """A cell of the cluster and its parts. `job`, `hold` and `reserver` are those of all its leaves, else empty."""

    address: str
    """Full address, for example ``0/worker1/0/3``; cells of two chains may have the same."""
    kind: str
    """The cell type."""
    level: int
    is_node: bool
    state: CellState
    healthy: bool
    """Whether none of its leaves is bad."""
    vc: str = ""
    """The virtual cluster that it serves, or whose job uses it without a guarantee."""
    virtual: str = ""
    """Address of the virtual cell that it is bound to."""
    job: str = ""
    """Its user: the job, or the affinity group where no job is known."""
    hold: Hold = Hold.NONE
    reserver: str = ""
    """The job for which it is kept free, or will be once its user is gone."""
    priority: int = FREE_PRIORITY
    """The highest priority of its leaves, `FREE_PRIORITY` while it is unused."""
    parts: tuple[PhysicalCellStatus, ...] = ()

    @property
    def name(self) -> str:
        """Last part of the address: the node's name, or the device's index."""
        return self.address.rpartition("/")[2]

    def cells(self) -> Iterator[PhysicalCellStatus]:
        """It and all cells below, in order of the configuration."""
        yield self
        for part in self.parts:
            yield from part.cells()

    def leaves(self) -> Iterator[PhysicalCellStatus]:
        """The devices below (itself if it is one), in order of the configuration."""
        return (cell for cell in self.cells() if not cell.parts)

    def nodes(self) -> Iterator[PhysicalCellStatus]:
        """The node-level cells below (itself if it is one)."""
        return (cell for cell in self.cells() if cell.is_node)


@frozen
class VirtualCellStatus:
    """A cell of a promise and its parts; its state and priority are those of the devices that keep it."""

    address: str
    kind: str
    level: int
    is_node: bool
    state: CellState
    priority: int
    job: str
    """Its user; only leaves have one."""
    physical: PhysicalCellStatus | None
    """The cell that it is bound to."""
    parts: tuple[VirtualCellStatus, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether no bad device keeps it from being used."""
        return self.physical is None or self.physical.healthy

    def cells(self) -> Iterator[VirtualCellStatus]:
        """It and all cells below, in order of their addresses."""
        yield self
        for part in self.parts:
            yield from part.cells()


@frozen
class PreassignedStatus:
    """A preassigned cell, the unit of a virtual cluster's quota."""

    cell: VirtualCellStatus
    doomed: bool
    """Whether only bad hardware is left to serve it."""
    pinned: str
    """Its pinned cell id, if it has one."""
    chain: str
    """Name of the chain that it is promised in."""


@frozen
class Inspection:
    """All cells: the top ones in order of the configuration, the preassigned ones by virtual cluster.

    `chains` are the cell types of each chain, from the leaf type up to the chain's own, which is that of its top cells;
    `without_guarantee` the devices that jobs of a virtual cluster use beside its promises.
    """

    chains: Mapping[str, tuple[str, ...]]
    tops: tuple[PhysicalCellStatus, ...]
    vcs: Mapping[str, tuple[PreassignedStatus, ...]]
    without_guarantee: Mapping[str, tuple[PhysicalCellStatus, ...]]
    instances: Mapping[str, int]
    """MIG instances of each GPU, of the chains whose leaf cells are these."""


def _nothing() -> None:
    return None


def inspect(state: State, jobs: Mapping[str, str] | None = None, between: Callable[[], None] = _nothing) -> Inspection:
    """All cells of a state; `jobs` maps groups to the jobs under whose names they are shown.

    `between` is called after each top and each preassigned cell. A caller that shares the state may release its lock
    there: each of these cells is then shown as it was at one instant.
    """
    return _Inspector(state, jobs or {}).all(between)


class _Inspector:
    """One inspection of a state."""

    def __init__(self, state: State, jobs: Mapping[str, str]) -> None:
        self.state = state
        self.jobs = jobs
        self.physical: dict[PhysicalCell, PhysicalCellStatus] = {}
        self.users = {
            leaf: jobs.get(group.name, group.name)
            for group in state.groups.by_name.values()
            for pods in group.virtual or ()
            for row in pods
            for leaf in row
        }

    def all(self, between: Callable[[], None]) -> Inspection:
        state, tree = self.state, self.state.physical
        tops = []
        for cell in (cell for cell in tree.cells() if tree.parent[cell] == NO_PARENT):
            tops.append(self.cell(cell))
            between()
        vcs: dict[str, list[PreassignedStatus]] = {}
        for root, top in state.virtual.preassigned.items():
            bound = state.binding.physical[root]
            doomed = bound != UNBOUND and state.doomed.is_doomed(bound, top.vc)
            chain = tree.chains[state.virtual.chain[root]].name
            status = PreassignedStatus(self.promise(root), doomed, top.pinned_id or "", chain)
            vcs.setdefault(top.vc, []).append(status)
            between()
        extra: dict[str, list[PhysicalCellStatus]] = {}
        for leaf, name in sorted(state.occupancy.user.items()):
            group = state.groups.by_name[name]
            if group.virtual is None:
                extra.setdefault(group.vc, []).append(self.physical[leaf])
        return Inspection(
            {chain.name: chain.types[LEAF_LEVEL:] for chain in tree.chains},
            tuple(tops),
            {name: tuple(vcs.get(name, ())) for name in (*vcs, *sorted(state.vcs - vcs.keys()))},
            {name: tuple(leaves) for name, leaves in extra.items()},
            {chain.name: chain.instances for chain in tree.chains if chain.instances},
        )

    def cell(self, cell: PhysicalCell, above: str = "") -> PhysicalCellStatus:
        state, tree = self.state, self.state.physical
        address = f"{above}/{tree.component[cell]}" if above else tree.component[cell]
        level, twin = tree.level[cell], state.binding.virtual[cell]
        chain = tree.chains[tree.chain[cell]]
        parts = tuple(self.cell(child, address) for child in tree.children(cell))
        user = state.occupancy.user.get(cell, "")
        group = state.groups.by_name[user] if user else None
        reserver = state.occupancy.reserver.get(cell, "")
        vc = state.virtual.vc(twin) if twin != UNBOUND else ""
        status = self.physical[cell] = PhysicalCellStatus(
            address=address,
            kind=chain.types[level],
            level=level,
            is_node=level == chain.node_level,
            state=_together(part.state for part in parts) if parts else state.occupancy.state(cell),
            healthy=not state.counts.bad[cell],
            vc=vc or (group.vc if group else _common(part.vc for part in parts)),
            virtual=state.virtual.address(twin) if twin != UNBOUND else "",
            job=_common(part.job for part in parts) if parts else self.jobs.get(user, user),
            hold=Hold(_common(part.hold for part in parts)) if parts else hold_of(group),
            reserver=_common(part.reserver for part in parts) if parts else self.jobs.get(reserver, reserver),
            priority=(
                max(part.priority for part in parts) if parts else state.occupancy.priority.get(cell, FREE_PRIORITY)
            ),
            parts=parts,
        )
        return status

    def promise(self, cell: VirtualCell) -> VirtualCellStatus:
        state, tree = self.state, self.state.virtual
        level, bound = tree.level[cell], state.binding.physical[cell]
        parts = tuple(self.promise(child) for child in tree.children(cell))
        priority = state.occupancy.virtual_priority.get(cell)
        used = CellState.FREE if priority is None else state.occupancy.state(bound)
        return VirtualCellStatus(
            address=tree.address(cell),
            kind=tree.type_of(cell),
            level=level,
            is_node=level == tree.chains[tree.chain[cell]].node_level,
            state=_together(part.state for part in parts) if parts else used,
            priority=max((part.priority for part in parts), default=FREE_PRIORITY if priority is None else priority),
            job=self.users.get(cell, ""),
            physical=None if bound == UNBOUND else self.physical[bound],
            parts=parts,
        )


def _common(values: Iterable[str]) -> str:
    """The value that all have in common, empty if they differ."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else ""


def _together(states: Iterable[CellState]) -> CellState:
    """State of a cell from those of its parts: Used if one is, else what all of them are, else Free."""
    distinct = set(states)
    if CellState.USED in distinct:
        return CellState.USED
    return distinct.pop() if len(distinct) == 1 else CellState.FREE
