"""What a scheduler knows about itself, as figures at one instant: what Prometheus reads from doors and from servers.

A door fills them from its core, the cluster on this machine from its world; both are exported by the same code
(`doors.metrics.FigureFamilies`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from paictl.cells.spec import LEAF_LEVEL
from paictl.frozen import frozen
from paictl.scheduler.binding import UNBOUND

if TYPE_CHECKING:
    from paictl.cells.chain import Chain
    from paictl.cells.ids import VirtualCell
    from paictl.cluster.movetotals import MoveTotal
    from paictl.scheduler.freecells import FreeCells
    from paictl.scheduler.state import State
    from paictl.workload.budgets import BudgetState
    from paictl.workload.departments import DepartmentUse

CellKey = tuple[str, str, str, str]
"""VC, cell type, level, and state."""
STATES: Final = ("Used", "Free", "Doomed")
"""``Used`` (all or in part), ``Free``, ``Doomed`` (only bad hardware can serve it)."""


@frozen
class SharingFigures:
    """Budgets, limits and what is lent, where there are rules about them."""

    budgets: tuple[BudgetState, ...] = ()
    holders: tuple[tuple[str, str, int, int], ...] = ()
    """Virtual cluster, user, devices held with a guarantee, devices allowed."""
    borrowers: tuple[tuple[str, int, int], ...] = ()
    """Virtual cluster, devices held without a guarantee, devices allowed."""
    lenders: tuple[tuple[str, int, int], ...] = ()
    """Virtual cluster, devices of its promise that others may use now, the most that it lends."""
    lent: Mapping[str, int] = field(default_factory=dict)
    """Device-milliseconds without a guarantee by virtual cluster, decayed."""
    departments: tuple[DepartmentUse, ...] = ()


@frozen
class AheadFigures:
    """What is planned and promised."""

    windows: Mapping[str, int]
    """Maintenance windows by state (``planned``, ``active``)."""
    reserved: Mapping[str, int]
    """Reservations by state, as windows."""
    short: Mapping[str, int]
    """Cells by reservation that will not be free in time."""
    starts: Mapping[str, float]
    """When the first gang in line starts at the latest, by virtual cluster, in seconds since 1970."""
    promised: Mapping[str, int]
    """Waiting gangs with a promised start by virtual cluster."""
    moves: Mapping[str, MoveTotal]
    planned: Mapping[str, int]
    """The weight of the plan of moves that is carried out, in device-seconds by virtual cluster."""


@frozen
class HardwareFigures:
    """Nodes and devices, and what bad ones put at risk."""

    nodes: int
    bad_nodes: int
    bad_devices: int
    at_risk: Mapping[str, int]
    """Preassigned cells by virtual cluster that only bad hardware can serve."""


@frozen
class SchedulerFigures:
    """What a scheduler knows, at one instant."""

    waiting: Mapping[str, int]
    """Pods that wait, by reason."""
    holding: Mapping[str, int]
    """Pods that hold devices, by state (``assumed``, ``bound``)."""
    sharing: SharingFigures
    ahead: AheadFigures
    hardware: HardwareFigures


@frozen
class CellCounts:
    """Cells, which take long to count."""

    promised: Counter[CellKey]
    free: tuple[FreeCells, ...]


@frozen
class ClusterFigures:
    """What a cluster says of its scheduler; counters count since the cluster came up, or midnight UTC."""

    scheduler: SchedulerFigures | None
    """None while the scheduler is stopped."""
    cells: CellCounts | None
    device_time: Mapping[tuple[str, str], int]
    """Device-milliseconds since midnight UTC by virtual cluster and kind."""
    preempted: int
    """Pods that were preempted."""
    repaired: int
    """Pods that took the place of a lost one in a gang that runs."""


def cells_at_risk(state: State) -> Counter[str]:
    """Preassigned cells by VC whose promise only bad hardware could keep; VCs without any count 0."""
    at_risk = Counter[str](dict.fromkeys(state.vcs, 0))
    for (vc, _, _), ranks in state.doomed.cells.items():
        at_risk[vc] += ranks.bit_count()
    return at_risk


def count_cells(state: State, give_way: Callable[[], None] = lambda: None) -> Counter[CellKey]:
    """Cells of virtual clusters, from preassigned cells down to leaves.

    `give_way` is called in between, often. What is unused, or used as a whole, is not walked.
    """
    cells: Counter[CellKey] = Counter()
    for root, top in state.virtual.preassigned.items():
        chain = state.virtual.chains[state.virtual.chain[root]]
        for level, word, number in _below(state, chain, root, _idle(state, root, top.vc), give_way):
            cells[top.vc, chain.types[level], str(level), word] += number
    return cells


def _idle(state: State, root: VirtualCell, vc: str) -> str:
    """What an unused preassigned cell is."""
    bound = state.binding.physical[root]
    return "Doomed" if bound != UNBOUND and state.doomed.is_doomed(bound, vc) else "Free"


def _below(
    state: State, chain: Chain, root: VirtualCell, idle: str, give_way: Callable[[], None]
) -> Iterator[tuple[int, str, int]]:
    """Level, state and number of a cell and all below it."""
    tree, used = state.virtual, state.counts.used
    rest = [root]
    while rest:
        give_way()
        cell = rest.pop()
        top, busy = tree.level[cell], used[cell]
        if 0 < busy < chain.leaves[top]:
            yield top, "Used", 1
            rest += tree.children(cell)
        else:
            word = "Used" if busy else idle if cell == root else "Free"
            yield from ((level, word, chain.leaves[top] // chain.leaves[level]) for level in range(LEAF_LEVEL, top + 1))
