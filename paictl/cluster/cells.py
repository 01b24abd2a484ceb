"""The cells of a picture from the scheduler's state; reads it and changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from paictl.cells import ids
from paictl.cells.spec import LEAF_LEVEL
from paictl.cells.tree import NO_PARENT
from paictl.cluster.picture import CellState, ChainPicture, Hold, PhysicalCell, Promise, VcPicture, VirtualCell
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.groups import Group
from paictl.scheduler.state import State

T = TypeVar("T", bound=str)


def _nothing() -> None:
    return None


def chain_pictures(
    state: State, jobs: Mapping[str, str], between: Callable[[], None] = _nothing
) -> tuple[ChainPicture, ...]:
    """The physical cells, chain by chain; `jobs` maps a group to its job (a group that is not in it is shown itself).

    Cells with parts know what their parts have in common, so each cell is looked at once. `between` is called after
    each top cell: who shares the state may let others change it there.
    """
    tree = state.physical
    tops: dict[int, list[PhysicalCell]] = {index: [] for index in range(len(tree.chains))}
    for cell in tree.cells():
        if tree.parent[cell] == NO_PARENT:
            tops[tree.chain[cell]].append(_physical(state, jobs, cell, ""))
            between()
    return tuple(
        ChainPicture(chain.name, chain.types[LEAF_LEVEL:], tuple(tops[index]))
        for index, chain in enumerate(tree.chains)
    )


def _physical(state: State, jobs: Mapping[str, str], cell: ids.PhysicalCell, above: str) -> PhysicalCell:
    tree = state.physical
    address = f"{above}/{tree.component[cell]}" if above else tree.component[cell]
    level, twin = tree.level[cell], state.binding.virtual[cell]
    chain = tree.chains[tree.chain[cell]]
    parts = tuple(_physical(state, jobs, child, address) for child in tree.children(cell))
    user = state.occupancy.user.get(cell)
    group = None if user is None else state.groups.by_name[user]
    reserver = state.occupancy.reserver.get(cell, "")
    vc = state.virtual.vc(twin) if twin != UNBOUND else ""
    return PhysicalCell(
        address=address,
        kind=chain.types[level],
        level=level,
        is_node=level == chain.node_level,
        state=_together(part.state for part in parts) if parts else CellState(state.occupancy.state(cell)),
        healthy=not state.counts.bad[cell],
        vc=vc or (group.vc if group else _common(part.vc for part in parts)),
        virtual=state.virtual.address(twin) if twin != UNBOUND else "",
        job=_common(part.job for part in parts) if parts else jobs.get(user or "", user or ""),
        hold=Hold(_common(part.hold for part in parts)) if parts else _hold(group),
        reserver=_common(part.reserver for part in parts) if parts else jobs.get(reserver, reserver),
        parts=parts,
    )


def _common(values: Iterable[str]) -> str:
    """What all have in common, empty if they differ."""
    found = set(values)
    return found.pop() if len(found) == 1 else ""


def _together(states: Iterable[CellState]) -> CellState:
    found = set(states)
    if CellState.USED in found:
        return CellState.USED
    return found.pop() if len(found) == 1 else CellState.FREE


def _hold(group: Group | None) -> Hold:
    if group is None:
        return Hold.NONE
    if group.virtual is not None:
        return Hold.GUARANTEED
    return Hold.OPPORTUNISTIC if group.priority < 0 else Hold.LAZY


def vc_pictures(
    state: State, jobs: Mapping[str, str], waiting: Mapping[str, int], between: Callable[[], None] = _nothing
) -> tuple[VcPicture, ...]:
    """The virtual clusters in order of declaration; `waiting` counts the jobs that wait, by VC; `between` as above."""
    extra: Counter[str] = Counter()
    for name in state.occupancy.user.values():
        group = state.groups.by_name[name]
        if group.virtual is None:
            extra[group.vc] += 1
    cells: dict[str, list[VirtualCell]] = {}
    users = dict(_virtual_users(state, jobs))
    for root, top in state.virtual.preassigned.items():
        cells.setdefault(top.vc, []).append(_virtual(state, users, root))
        between()
    cells |= {name: [] for name in sorted(state.vcs - cells.keys())}
    return tuple(VcPicture(name, tuple(own), extra[name], waiting.get(name, 0)) for name, own in cells.items())


def _virtual_users(state: State, jobs: Mapping[str, str]) -> Iterator[tuple[ids.VirtualCell, str]]:
    """(virtual leaf, job) of every leaf that is used with a guarantee."""
    for group in state.groups.by_name.values():
        for pods in group.virtual or ():
            for row in pods:
                yield from ((leaf, jobs.get(group.name, group.name)) for leaf in row if leaf != UNBOUND)


def _virtual(state: State, users: Mapping[ids.VirtualCell, str], root: ids.VirtualCell) -> VirtualCell:
    top, bound = state.virtual.preassigned[root], state.binding.physical[root]
    used = tuple(users.get(leaf, "") for leaf in state.virtual.leaves(root))
    doomed = bound != UNBOUND and state.doomed.is_doomed(bound, top.vc)
    return VirtualCell(
        address=state.virtual.address(root),
        kind=state.virtual.type_of(root),
        level=state.virtual.level[root],
        state=Promise.USED if any(used) else Promise.DOOMED if doomed else Promise.FREE,
        users=used,
        physical=state.physical.address(bound) if bound != UNBOUND else "",
        healthy=bound == UNBOUND or not state.counts.bad[bound],
        pinned=top.pinned_id or "",
    )
