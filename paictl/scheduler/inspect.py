"""The state as HiveD's inspection API and the rows of a replay show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paictl.scheduler.binding import UNBOUND
from paictl.scheduler.inspection import Inspection, PhysicalCellStatus, VirtualCellStatus
from paictl.scheduler.occupancy import CellState

if TYPE_CHECKING:
    from collections.abc import Callable

    from paictl.cells.ids import C
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


def physical_row(cell: PhysicalCellStatus) -> list[object]:
    """Address, level, state, healthy, priority, VC and virtual cell of a physical cell."""
    vc = cell.vc if cell.virtual else ""
    return [cell.address, cell.level, str(cell.state), cell.healthy, cell.priority, vc, cell.virtual]


def virtual_row(cell: VirtualCellStatus) -> list[object]:
    """Address, level, state, healthy, priority and physical cell of a virtual cell."""
    physical = cell.physical.address if cell.physical else ""
    return [cell.address, cell.level, str(cell.state), cell.healthy, cell.priority, physical]


class ClusterStatus:
    """The cells as the original's API shapes them."""

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        self.roots = {top.cell.address for own in self.inspection.vcs.values() for top in own}
        self.virtual = {
            cell.address: cell for own in self.inspection.vcs.values() for top in own for cell in top.cell.cells()
        }

    def all(self) -> Json:
        """`GET /v1/inspect/clusterstatus`."""
        return {"physicalCluster": self.physical_cluster(), "virtualClusters": self.virtual_clusters()}

    def physical_cluster(self) -> list[Json]:
        """`GET /v1/inspect/clusterstatus/physicalcluster`."""
        return [self._physical(top, self.inspection.chains[top.kind]) for top in self.inspection.tops]

    def virtual_clusters(self) -> Json:
        """`GET /v1/inspect/clusterstatus/virtualclusters/`."""
        return {vc: self.virtual_cluster(vc) for vc in sorted(self.inspection.vcs)}

    def virtual_cluster(self, vc: str) -> list[Json]:
        """`GET /v1/inspect/clusterstatus/virtualclusters/VC`; leaves used opportunistically come last, as ``…-opp``.

        Raises `KeyError` for a virtual cluster that does not exist.
        """
        out = [self._virtual(top.cell, self.inspection.chains[top.chain]) for top in self.inspection.vcs[vc]]
        for leaf in self.inspection.without_guarantee.get(vc, ()):
            if leaf.state is CellState.USED:
                shown = self._physical(leaf, (), deep=False)
                out.append(
                    {key: shown[key] for key in ("cellType", "cellState", "cellHealthiness", "cellPriority")}
                    | {"cellAddress": f"{shown['cellAddress']}-opp", "physicalCell": shown}
                )
        return out

    def _physical(self, cell: PhysicalCellStatus, types: tuple[str, ...], *, deep: bool = True) -> Json:
        """A physical cell, with its subtree and virtual cell if `deep`; `types` are those of its chain."""
        out = _cell(cell, types[0] if cell.level == len(types) else "")
        if deep and cell.parts:
            out["cellChildren"] = [self._physical(part, types) for part in cell.parts]
        if cell.vc and (cell.virtual or not cell.parts):
            out["vc"] = cell.vc
        if deep and cell.virtual:
            out["virtualCell"] = self._virtual(self.virtual[cell.virtual], types, deep=False)
        return out

    def _virtual(self, cell: VirtualCellStatus, types: tuple[str, ...], *, deep: bool = True) -> Json:
        """A virtual cell, with its subtree and physical cell if `deep`; `types` are those of its chain."""
        out = _cell(cell, types[0] if cell.address in self.roots else "")
        if deep and cell.parts:
            out["cellChildren"] = [self._virtual(part, types) for part in cell.parts]
        if deep and cell.physical is not None:
            out["physicalCell"] = self._physical(cell.physical, types, deep=False)
        return out


def _cell(cell: PhysicalCellStatus | VirtualCellStatus, leaf_type: str) -> Json:
    """The fields that both kinds of cells have; only top and preassigned cells have a leaf type."""
    out: Json = {"leafCellType": leaf_type} if leaf_type else {}
    out["cellType"] = cell.kind
    if cell.is_node:
        out["isNodeLevel"] = True
    return out | {
        "cellAddress": cell.address,
        "cellState": str(cell.state),
        "cellHealthiness": "Healthy" if cell.healthy else "Bad",
        "cellPriority": cell.priority,
    }
