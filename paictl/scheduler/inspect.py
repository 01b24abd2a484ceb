"""The state as HiveD's inspection API shows it; every function walks what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paictl.cells.spec import LEAF_LEVEL
from paictl.cells.tree import NO_PARENT
from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.occupancy import FREE_PRIORITY, LeafState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from paictl.cells.ids import C, PhysicalCell, VirtualCell
    from paictl.scheduler.decision import Placed
    from paictl.scheduler.groups import Group
    from paictl.scheduler.state import State

Json = dict[str, Any]


def group_status(state: State, group: Group) -> Json:
    """`GET /v1/inspect/affinitygroups/NAME`."""
    status: Json = {"vc": group.vc, "priority": group.priority, "state": str(group.state)}
    physical: dict[str, list[int]] = {}
    for leaf in group.leaves():
        physical.setdefault(state.physical.node_name(leaf), []).append(state.physical.device(leaf))
    if physical:
        status["physicalPlacement"] = {node: sorted(devices) for node, devices in sorted(physical.items())}
    if group.virtual is not None:
        virtual: dict[str, list[str]] = {}
        for pods in group.virtual:
            for twin in (twin for row in pods for twin in row if twin != UNBOUND):
                root = state.virtual.address(state.virtual.root[twin])
                virtual.setdefault(root, []).append(state.virtual.address(twin))
        if virtual:
            status["virtualPlacement"] = virtual
    uids = sorted(uid for row in group.pods for uid in row if uid)
    if uids:
        status["allocatedPods"] = uids
    if group.preempting:
        status["preemptingPods"] = sorted(group.preempting)
    if group.preemptor is not None:
        status["lazyPreemptionStatus"] = {"preemptor": group.preemptor, "preemptionTime": group.preempted_at}
    return {"metadata": {"name": group.name}, "status": status}


def group_record(state: State, group: Group) -> Json:
    """A group with the addresses of all its leaves, by leaf cells per pod."""

    def addresses(placed: Placed[C], address: Callable[[C], str]) -> Json:
        return {
            str(size): [[address(leaf) if leaf >= 0 else "" for leaf in row] for row in pods]
            for (size, _), pods in zip(group.members, placed, strict=True)
        }

    return {
        "name": group.name,
        "vc": group.vc,
        "priority": group.priority,
        "state": str(group.state),
        "lazyPreemptor": group.preemptor,
        "allocated": {str(size): list(pods) for (size, _), pods in zip(group.members, group.pods, strict=True)},
        "preempting": sorted(group.preempting),
        "physical": addresses(group.physical, state.physical.address),
        "virtual": addresses(group.virtual, state.virtual.address) if group.virtual else None,
    }


def _states(state: State, leaves: Iterator[PhysicalCell]) -> str:
    """State of a cell from those of its leaves: Used if one is, else what all of them are, else Free."""
    found = {state.occupancy.state(leaf) for leaf in leaves}
    return str(LeafState.USED if LeafState.USED in found else found.pop() if len(found) == 1 else LeafState.FREE)


def physical_priority(state: State, cell: PhysicalCell) -> int:
    """Highest priority of a physical cell's leaves."""
    priority = state.occupancy.priority
    return max(priority.get(leaf, FREE_PRIORITY) for leaf in state.physical.leaves(cell))


def virtual_priority(state: State, cell: VirtualCell) -> int:
    """Highest priority of a virtual cell's leaves."""
    if not state.counts.used[cell]:
        return FREE_PRIORITY
    priority = state.occupancy.virtual_priority
    return max(priority.get(leaf, FREE_PRIORITY) for leaf in state.virtual.leaves(cell))


def physical_state(state: State, cell: PhysicalCell) -> str:
    """State of a physical cell."""
    return _states(state, iter(state.physical.leaves(cell)))


def virtual_state(state: State, cell: VirtualCell) -> str:
    """State of a virtual cell: that of the physical leaves its used leaves are bound to."""
    used = state.occupancy.virtual_priority
    leaves = state.virtual.leaves(cell)
    found = {state.occupancy.state(state.binding.physical[leaf]) if leaf in used else LeafState.FREE for leaf in leaves}
    return str(LeafState.USED if LeafState.USED in found else found.pop() if len(found) == 1 else LeafState.FREE)


def physical_row(state: State, cell: PhysicalCell) -> list[object]:
    """Address, level, state, healthy, priority, VC and virtual cell of a physical cell."""
    twin = state.binding.virtual[cell]
    return [
        state.physical.address(cell),
        state.physical.level[cell],
        physical_state(state, cell),
        not state.counts.bad[cell],
        physical_priority(state, cell),
        state.virtual.vc(twin) if twin != UNBOUND else "",
        state.virtual.address(twin) if twin != UNBOUND else "",
    ]


def virtual_row(state: State, cell: VirtualCell) -> list[object]:
    """Address, level, state, healthy, priority and physical cell of a virtual cell."""
    bound = state.binding.physical[cell]
    return [
        state.virtual.address(cell),
        state.virtual.level[cell],
        virtual_state(state, cell),
        bound == UNBOUND or not state.counts.bad[bound],
        virtual_priority(state, cell),
        state.physical.address(bound) if bound != UNBOUND else "",
    ]


def physical_status(state: State, cell: PhysicalCell, *, deep: bool = True) -> Json:
    """A physical cell (with its subtree and virtual cell if `deep`) as the original's API shapes it."""
    tree, twin = state.physical, state.binding.virtual[cell]
    level = tree.level[cell]
    chain = tree.chains[tree.chain[cell]]
    out: Json = {"leafCellType": chain.leaf_type} if tree.parent[cell] == NO_PARENT else {}
    out["cellType"] = chain.types[level]
    if level == chain.node_level:
        out["isNodeLevel"] = True
    out |= {
        "cellAddress": tree.address(cell),
        "cellState": physical_state(state, cell),
        "cellHealthiness": "Bad" if state.counts.bad[cell] else "Healthy",
        "cellPriority": physical_priority(state, cell),
    }
    if deep and level > LEAF_LEVEL:
        out["cellChildren"] = [physical_status(state, child) for child in tree.children(cell)]
    name = state.occupancy.user.get(cell)
    if twin != UNBOUND:
        out["vc"] = state.virtual.vc(twin)
        if deep:
            out["virtualCell"] = virtual_status(state, twin, deep=False)
    elif name is not None:
        out["vc"] = state.groups.by_name[name].vc
    return out


def virtual_status(state: State, cell: VirtualCell, *, deep: bool = True) -> Json:
    """A virtual cell (with its subtree and physical cell if `deep`) as the original's API shapes it."""
    tree, bound = state.virtual, state.binding.physical[cell]
    level = tree.level[cell]
    chain = tree.chains[tree.chain[cell]]
    out: Json = {"leafCellType": chain.leaf_type} if tree.parent[cell] == NO_PARENT else {}
    out["cellType"] = chain.types[level]
    if level == chain.node_level:
        out["isNodeLevel"] = True
    out |= {
        "cellAddress": tree.address(cell),
        "cellState": virtual_state(state, cell),
        "cellHealthiness": "Bad" if bound != UNBOUND and state.counts.bad[bound] else "Healthy",
        "cellPriority": virtual_priority(state, cell),
    }
    if deep and level > LEAF_LEVEL:
        out["cellChildren"] = [virtual_status(state, child) for child in tree.children(cell)]
    if deep and bound != UNBOUND:
        out["physicalCell"] = physical_status(state, bound, deep=False)
    return out


def _nothing() -> None:
    return None


def physical_cluster(state: State, between: Callable[[], None] = _nothing) -> list[Json]:
    """`GET /v1/inspect/clusterstatus/physicalcluster`.

    `between` is called after each top cell: who shares the state may let others change it there, and each top cell is
    then shown as it was at one instant.
    """
    tree, out = state.physical, []
    for cell in (cell for cell in tree.cells() if tree.parent[cell] == NO_PARENT):
        out.append(physical_status(state, cell))
        between()
    return out


def virtual_cluster(state: State, vc: str, between: Callable[[], None] = _nothing) -> list[Json]:
    """`GET /v1/inspect/clusterstatus/virtualclusters/VC`; leaves used opportunistically come last, as ``…-opp``.

    `between` as in `physical_cluster`, after each preassigned cell.
    """
    out = []
    for root in (root for root, top in state.virtual.preassigned.items() if top.vc == vc):
        out.append(virtual_status(state, root))
        between()
    for leaf, name in sorted(state.occupancy.user.items()):
        group = state.groups.by_name[name]
        if group.vc == vc and leaf not in state.occupancy.reserver and state.occupancy.priority[leaf] < 0:
            shown = physical_status(state, leaf, deep=False)
            out.append(
                {key: shown[key] for key in ("cellType", "cellState", "cellHealthiness", "cellPriority")}
                | {"cellAddress": f"{shown['cellAddress']}-opp", "physicalCell": shown}
            )
    return out


def cluster_status(state: State, between: Callable[[], None] = _nothing) -> Json:
    """`GET /v1/inspect/clusterstatus`; `between` as in `physical_cluster`."""
    return {
        "physicalCluster": physical_cluster(state, between),
        "virtualClusters": {vc: virtual_cluster(state, vc, between) for vc in sorted(state.vcs)},
    }
