"""Placement by cells: the scheduler core chooses, exactly as it does on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from paictl.cells.chain import build_chains, pinned_levels, preassigned_levels
from paictl.cells.spec import ClusterSpec as HivedSpec
from paictl.frozen import frozen
from paictl.scheduler.decision import Bind, BindInfo, Phase, Preempt
from paictl.scheduler.engine import Engine
from paictl.scheduler.events import LeafHealth, NodeHealth, PodGone
from paictl.scheduler.request import MAX_PRIORITY, PodRequest
from paictl.sim.cluster import Cluster, Devices
from paictl.sim.job import Share
from paictl.sim.placement.base import Placer
from paictl.sim.view import JobView
from paictl.workload.job import Restart

if TYPE_CHECKING:
    from paictl.cells.ids import PhysicalCell

NAMELESS = "(no tenant)"
"""The VC of jobs whose trace names no tenant: the specification refuses an empty name."""
OPPORTUNISTIC = -1
"""HiveD's priority of a job outside every quota."""


class Cells(Placer):
    """The core on a cluster whose nodes have the names and devices of the configuration, all of them healthy.

    A job becomes one affinity group: whole nodes and, for the rest, a part of one. A job that names a pinned cell runs
    there. A job that is larger than the cells of its VC can only run opportunistically.
    """

    id = "cells"

    def __init__(self, cluster: Cluster, spec: HivedSpec) -> None:
        super().__init__(cluster)
        self.engine = Engine(spec)
        tree = self.engine.state.physical
        first = {node.name: cluster.first[number] for number, node in enumerate(cluster.nodes)}
        self._device: dict[tuple[str, int], int] = {}
        for name, cells in tree.nodes.items():
            self.engine.observe(NodeHealth(name, healthy=True))
            indices = sorted(tree.device(leaf) for cell in cells for leaf in tree.leaves(cell))
            self._device |= {(name, index): first[name] + place for place, index in enumerate(indices)}
        self._leaf = {device: leaf for leaf, device in self._device.items()}
        self._pods: dict[int, tuple[str, ...]] = {}
        """By first device of a group: its pods."""
        self._names: dict[str, int] = {}
        """By pod: the number of its job."""
        self._firsts: dict[int, int] = {}
        """By job that continues the gang of an earlier attempt: the number that the gang is named after."""
        self._latest: dict[int, int] = {}
        """The inverse of `_firsts`."""
        self.repairs = True
        """Whether jobs may keep the devices that a failure spares."""
        self.closed: Callable[[JobView], frozenset[str]] = _open
        """The nodes that are closed to a job now."""
        self.noted: Callable[[Sequence[object]], None] = _unheard
        """Called with the events of each change in the core."""
        self._first_vc = spec.virtual_clusters[0].name
        self.promised: dict[str, int] = {_tenant(vc.name): 0 for vc in spec.virtual_clusters}
        """Devices of each VC."""
        self._rooms = {(_tenant(vc), pin): own for (vc, pin), own in rooms(spec).items()}
        self._pieces: dict[tuple[str, str, str | None, int], int] = {}
        self._nodes = {
            kind: max(node.devices for node in cluster.nodes if kind in (None, node.type))
            for kind in (None, *cluster.types)
        }
        """By device type (None: any): devices of the largest node."""
        virtual = self.engine.state.virtual
        for cell in virtual.cells():
            if virtual.root[cell] == cell:
                self.promised[_tenant(virtual.vc(cell))] += len(virtual.leaves(cell))

    def guaranteed(self, job: JobView) -> bool:
        """Whether the job runs on its VC's cells: it asks for a guarantee and fits in them."""
        return job.share is Share.GUARANTEED and self._piece(job) > 0

    def _piece(self, job: JobView) -> int:
        """The most devices of the job that fit on one node of its VC's cells; 0 if it does not fit in them."""
        key = job.vc, job.pinned_cell, job.gpu_type, job.gpus
        piece = self._pieces.get(key)
        if piece is None:
            own = self._rooms.get(key[:2], ())
            fitting = (room.node for room in own if room.holds(job.gpu_type, job.gpus))
            piece = self._pieces[key] = max(fitting, default=0)
        return piece

    def take(self, job: JobView, number: int) -> Devices | None:
        """Bind the group if no running job has to go for it."""
        decision = self.engine.plan(*self._offered(job, number))
        return self._bind(decision, job, number) if isinstance(decision, Bind) else None

    def job_of(self, uid: str) -> int:
        """The number of the job of a pod."""
        return self.number_of(uid.partition("-")[0])

    def number_of(self, group: str) -> int:
        """The number of the job of a group, -1 for a hypothetical group."""
        return self._latest.get(int(group), int(group)) if group.isdecimal() else -1

    def request(self, job: JobView) -> PodRequest:
        """The request for the first pod of a job."""
        return self._request(job, job.gpus, 0)

    def victims(self, job: JobView, number: int) -> list[int] | None:
        """The jobs (by number) to preempt before it can start; None if preemption would not help."""
        decision = self.engine.plan(*self._offered(job, number), phase=Phase.PREEMPTING)
        if not isinstance(decision, Preempt):
            return None
        return sorted({self._names[uid] for _, uids in decision.victims for uid in uids})

    def _offered(self, job: JobView, number: int, place: int = 0) -> tuple[PodRequest, frozenset[str] | None]:
        """The request of a pod, and the nodes that it may use; None: all."""
        request, closed = self._request(job, number, place), self.closed(job)
        if not closed:
            return request, None
        return replace(request, ignore_suggested=False), frozenset(self.engine.state.physical.nodes) - closed

    def move(self, job: JobView, devices: Devices, away: frozenset[str]) -> Devices:
        """Restart a job that has devices on other nodes than `away`; the caller has checked that it fits."""
        self.give(devices)
        request, nodes = self._offered(job, job.gpus)
        if away:
            request = replace(request, ignore_suggested=False)
            nodes = (frozenset(self.engine.state.physical.nodes) if nodes is None else nodes) - away
        decision = self.engine.plan(request, nodes)
        assert isinstance(decision, Bind)  # noqa: S101 the caller has checked that it fits
        return self._bind(decision, job, job.gpus)

    def give(self, devices: Devices) -> None:
        """Delete all pods of the group."""
        self.free += len(devices)
        for uid in self._pods.pop(devices[0]):
            self._firsts.pop(self._names.pop(uid), None)
            self._latest.pop(int(uid.partition("-")[0]), None)
            self.noted(self.engine.observe(PodGone(uid)))

    # --- repair in place

    def lose(self, job: JobView, after: JobView, devices: Devices, failed: AbstractSet[int]) -> Devices:
        """Delete the pods on failed devices; the devices of the other pods, for the next attempt `after`.

        If no pod survives, nothing changes and the result is empty.
        """
        group = self.engine.state.groups.by_name[str(self._firsts.get(job.number, job.number))]
        places = {
            group.pods[slot.member][slot.pod]: [self._device_of(leaf) for leaf in leaves]
            for slot, leaves, _ in group.placements()
            if group.pods[slot.member][slot.pod]
        }
        lost = {uid for uid, place in places.items() if not failed.isdisjoint(place)}
        remaining = tuple(sorted(device for uid, place in places.items() if uid not in lost for device in place))
        if not remaining:
            return ()
        for uid in sorted(lost):
            self.free += len(places[uid])
            self.noted(self.engine.observe(PodGone(uid)))
        uids = self._pods.pop(devices[0])
        self._pods[remaining[0]] = tuple(uid for uid in uids if uid not in lost)
        first = self._firsts.pop(job.number, job.number)
        self._firsts[after.number], self._latest[first] = first, after.number
        for uid in lost:
            del self._names[uid]
        self._names |= dict.fromkeys(self._pods[remaining[0]], after.number)
        return remaining

    def mend(self, job: JobView, devices: Devices) -> tuple[Devices, list[int]]:
        """Place as many lost pods of a job as fit near the others; the devices that the job has then.

        Also the jobs (by number) to preempt before the next pod fits; none if preemption would not help.
        """
        uids = list(self._pods.pop(devices[0]))
        number = sum(count for _, count in self._members(job, job.gpus))
        victims: list[int] = []
        for place in range(number):
            request, nodes = self._offered(job, job.gpus, place)
            if request.uid in uids:
                continue
            decision = self.engine.plan(request, nodes)
            if not isinstance(decision, Bind):
                decision = self.engine.plan(request, nodes, Phase.PREEMPTING)
                if isinstance(decision, Preempt):
                    victims = sorted({self._names[uid] for _, pods in decision.victims for uid in pods})
                break
            self.free -= request.leaf_number
            self.noted(self.engine.apply(decision))
            uids.append(request.uid)
        group = self.engine.state.groups.by_name[str(self._firsts.get(job.number, job.number))]
        held = tuple(
            sorted(
                self._device_of(leaf)
                for slot, leaves, _ in group.placements()
                if group.pods[slot.member][slot.pod]
                for leaf in leaves
            )
        )
        self._pods[held[0]] = tuple(uids)
        self._names |= dict.fromkeys(uids, job.number)
        return held, victims

    def _device_of(self, leaf: PhysicalCell) -> int:
        tree = self.engine.state.physical
        return self._device[tree.node_name(leaf), tree.device(leaf)]

    def claim(self, devices: Devices) -> None:
        """Not supported: the core alone chooses cells."""
        raise NotImplementedError(f"cells cannot claim {devices}")

    def fail(self, devices: Devices) -> None:
        """Report the leaves as bad, so that the core places nothing there."""
        self._health(devices, healthy=False)
        self.free -= len(devices)

    def repair(self, devices: Devices) -> None:
        """Report the leaves as healthy."""
        self._health(devices, healthy=True)
        self.free += len(devices)

    def _health(self, devices: Devices, *, healthy: bool) -> None:
        for device in devices:
            self.noted(self.engine.observe(LeafHealth(*self._leaf[device], healthy)))

    def _bind(self, first: Bind, job: JobView, number: int) -> Devices:
        info = self.engine.bind_info(first)
        self.noted(self.engine.apply(first))
        pods = sum(count for _, count in self._members(job, number))
        uids = [first.request.uid]
        for place in range(1, pods):
            request = replace(self._request(job, number, place), ignore_suggested=first.request.ignore_suggested)
            decision = self.engine.plan(request)
            assert isinstance(decision, Bind)  # noqa: S101 a group that is bound has room for all of its pods
            self.noted(self.engine.apply(decision))
            uids.append(request.uid)
        devices = self._devices(info)
        self.free -= len(devices)
        self._pods[devices[0]] = tuple(uids)
        self._names |= dict.fromkeys(uids, job.number)
        return devices

    def _devices(self, info: BindInfo) -> Devices:
        return tuple(
            sorted(self._device[pod.node, index] for member in info.members for pod in member for index in pod.devices)
        )

    def _members(self, job: JobView, number: int) -> tuple[tuple[int, int], ...]:
        """(devices of a pod, number of such pods), rising: the job's own pods, else whole nodes and a rest."""
        if job.pod and number == job.gpus:
            return ((job.pod, number // job.pod),)
        size = self._piece(job) if self.guaranteed(job) else self._nodes[job.gpu_type]
        whole, rest = divmod(number, size)
        return (*([(rest, 1)] if rest else []), *([(size, whole)] if whole else []))

    def _request(self, job: JobView, number: int, place: int) -> PodRequest:
        members = self._members(job, number)
        leaves = [size for size, count in members for _ in range(count)][place]
        guaranteed = self.guaranteed(job)
        priority = min(max(job.priority, 0), MAX_PRIORITY) if guaranteed else OPPORTUNISTIC
        first = self._firsts.get(job.number, job.number)
        uid = f"{first}-{place}"
        vc = (job.vc or NAMELESS) if job.vc in self.promised else self._first_vc
        return PodRequest(
            uid=uid,
            name=f"sim/{uid}",
            vc=vc,
            priority=priority,
            leaf_number=leaves,
            group=str(first),
            members=members,
            leaf_type=job.gpu_type or "",
            pinned_id=job.pinned_cell if guaranteed else "",
            repair=self.repairs and job.restart is Restart.MEMBER,
        )


@frozen
class Room:
    """The quota of a VC in one chain, or one pinned cell; a group has to fit within it."""

    kind: str
    """Device type."""
    devices: int
    node: int
    """The most of its devices that are guaranteed to be on one node."""

    def holds(self, kind: str | None, devices: int) -> bool:
        """Whether a group of `devices` devices of a type (None: any) fits."""
        return self.devices >= devices and kind in (None, self.kind)


def rooms(spec: HivedSpec) -> dict[tuple[str, str], list[Room]]:
    """The rooms of each (VC, pinned cell); cells that are not pinned are under an empty name, a room a chain."""
    chains = build_chains(spec)
    pinned = pinned_levels(spec, chains)
    by_vc: dict[tuple[str, str], dict[str, Room]] = {}
    for vc in spec.virtual_clusters:
        for name, level, pin in preassigned_levels(vc, chains, pinned):
            chain, by_chain = chains[name], by_vc.setdefault((vc.name, pin or ""), {})
            before = by_chain.get(name, Room(chain.leaf_type, 0, 0))
            node = min(chain.leaves[level], chain.leaves[chain.node_level])
            by_chain[name] = Room(before.kind, before.devices + chain.leaves[level], max(before.node, node))
    return {key: list(by_chain.values()) for key, by_chain in by_vc.items()}


def _open(_: JobView) -> frozenset[str]:
    """No node is closed."""
    return frozenset()


def _unheard(_: Sequence[object]) -> None:
    """Ignore the events."""


def _tenant(vc: str) -> str:
    """The tenant of a VC, as jobs name it."""
    return "" if vc == NAMELESS else vc


def from_text(text: str) -> HivedSpec:
    """The specification in a HiveD configuration."""
    return HivedSpec.from_mapping(yaml.safe_load(text))


def for_nodes(cluster: Cluster, quotas: Mapping[str, int]) -> HivedSpec:
    """Cells for a cluster without a configuration: a chain for each kind of node, quotas in whole nodes.

    A node is halved down to single devices, as by sockets and PCIe switches. `quotas` are devices by VC; a VC gets as
    many nodes as its quota fills, of the first kinds that still have some.
    """
    types: dict[str, object] = {}
    cells: list[object] = []
    unassigned: dict[str, list[int]] = {}
    for node in cluster.nodes:
        top = f"{node.type}-NODE-{node.devices}"
        if top not in unassigned:
            unassigned[top] = [0, node.devices]
            _levels(types, node.type, node.devices, top)
        unassigned[top][0] += 1
        cells.append({"cellType": top, "cellAddress": node.name})
    promised: dict[str, object] = {}
    for vc, devices in quotas.items():
        virtual = []
        for top, counts in unassigned.items():
            number = min(counts[0], devices // counts[1])
            counts[0] -= number
            devices -= number * counts[1]
            if number:
                virtual.append({"cellType": top, "cellNumber": number})
        promised[vc or NAMELESS] = {"virtualCells": virtual}
    return HivedSpec.from_mapping(
        {"physicalCluster": {"cellTypes": types, "physicalCells": cells}, "virtualClusters": promised}
    )


def _levels(types: dict[str, object], leaf: str, devices: int, top: str) -> None:
    below, size = leaf, 1
    while size * 2 < devices and devices % (size * 2) == 0:
        name = f"{leaf}-{size * 2}-of-{devices}"
        types[name] = {"childCellType": below, "childCellNumber": 2}
        below, size = name, size * 2
    types[top] = {"childCellType": below, "childCellNumber": devices // size, "isNodeLevel": True}
