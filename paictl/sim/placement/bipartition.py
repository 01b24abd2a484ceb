"""Placement on machines with sockets, by the utility of the mapping (SC'17) or by simpler rules for comparison."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final, NamedTuple

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.utility import JobKind, Mapped, Resident, Shape, judge, mappings
from paictl.sim.view import JobView

_REMEMBERED: Final = 100_000
"""Entries of the cache of mappings before it is emptied: the same mappings are needed again and again."""


class Candidate(NamedTuple):
    """A machine for a job, and how the job maps onto its sockets."""

    node: int
    mapped: Mapped


Rule = Callable[[int, int, float], Candidate | None]
"""(kind, devices, least utility of the job) -> candidate; None: there is no place."""


class Bipartition(Placer):
    """The residents and free devices of every socket, and the machines by their shape.

    `cluster` has the groups of `level` as sockets. A job that fits on no machine, however idle, gets whole machines and
    is placed by the rule for the rest.
    """

    id = "bipartition"

    def __init__(self, cluster: Cluster, level: str) -> None:
        super().__init__(cluster)
        self._socket_of = cluster.groups[level]
        self._sockets = [
            sorted({self._socket_of[device] for device in cluster.devices_of(node)})
            for node in range(len(cluster.nodes))
        ]
        self._sizes = [0] * (1 + self._socket_of[-1])
        self._free: list[list[int]] = [[] for _ in self._sizes]
        for device, socket in enumerate(self._socket_of):
            self._sizes[socket] += 1
            self._free[socket].append(device)
        self._residents: list[dict[int, Resident]] = [{} for _ in cluster.nodes]
        self._owner: dict[int, int] = {}
        self._kind_numbers: dict[JobKind, int] = {}
        self._kinds: list[JobKind] = []
        self._mappings: dict[tuple[int, int, Shape], tuple[Mapped, ...]] = {}
        self._largest: dict[str | None, int] = {}
        for machine in cluster.nodes:
            for kind in (None, machine.type):
                self._largest[kind] = max(self._largest.get(kind, 0), machine.devices)
        self._open: list[dict[Shape, list[int]]] = [{} for _ in range(self._largest[None] + 1)]
        """Machines, rising, by shape, by the number of their free devices."""
        self._shape = [self._look(node) for node in range(len(cluster.nodes))]
        for node, shape in enumerate(self._shape):
            self._open[sum(shape.free)].setdefault(shape, []).append(node)

    # --- candidates

    def kind(self, job: JobView) -> int:
        """The number of the job's kind; jobs of one kind share it."""
        kind = JobKind.of(job)
        if kind not in self._kind_numbers:
            self._kind_numbers[kind] = len(self._kinds)
            self._kinds.append(kind)
        return self._kind_numbers[kind]

    def best(self, kind: int, number: int, least: float) -> Candidate | None:
        """The mapping with the highest system utility, of those whose utility for the job is at least `least`."""
        best: tuple[float, int, Mapped] | None = None
        for shape, nodes in self._rooms(kind, number):
            for mapped in self._mapped(kind, number, shape):
                if mapped.job >= least:
                    if best is None or (-mapped.system, nodes[0]) < best[:2]:
                        best = -mapped.system, nodes[0], mapped
                    break
        return None if best is None else Candidate(best[1], best[2])

    def fullest(self, kind: int, number: int, _: float) -> Candidate | None:
        """Best fit: the machine with the fewest free devices that suffice, filled from its fullest sockets."""
        for total in range(number, len(self._open)):
            nodes = [row[0] for shape, row in self._open[total].items() if self._may(kind, shape)]
            if nodes:
                return self._fill(kind, number, min(nodes), fullest=True)
        return None

    def first(self, kind: int, number: int, _: float) -> Candidate | None:
        """The first machine with room, its sockets in their order."""
        node = min((nodes[0] for _, nodes in self._rooms(kind, number)), default=None)
        return None if node is None else self._fill(kind, number, node, fullest=False)

    def worth(self, kind: int) -> float:
        """The highest utility that a job of that kind can have now; below 0 if there is no place."""
        number = self._kinds[kind].gpus
        if number > self._largest.get(self._kinds[kind].gpu_type, 0):
            return 1.0  # of jobs that need several machines, only the part of the last machine is judged
        rooms = self._rooms(kind, number)
        return max((self._mapped(kind, number, shape)[-1].job for shape, _ in rooms), default=-1.0)

    def _rooms(self, kind: int, number: int) -> Iterator[tuple[Shape, list[int]]]:
        for total in range(number, len(self._open)):
            for shape, nodes in self._open[total].items():
                if self._may(kind, shape):
                    yield shape, nodes

    def _may(self, kind: int, shape: Shape) -> bool:
        return self._kinds[kind].gpu_type in (None, shape.type)

    def _mapped(self, kind: int, number: int, shape: Shape) -> tuple[Mapped, ...]:
        key = kind, number, shape
        ways = self._mappings.get(key)
        if ways is None:
            if len(self._mappings) >= _REMEMBERED:
                self._mappings.clear()
            ways = self._mappings[key] = mappings(kind, number, shape, self._kinds)
        return ways

    def _fill(self, kind: int, number: int, node: int, *, fullest: bool) -> Candidate:
        shape = self._shape[node]
        order = sorted(range(len(shape.free)), key=lambda socket: shape.free[socket] if fullest else socket)
        counts = [0] * len(order)
        for socket in order:
            counts[socket] = min(number - sum(counts), shape.free[socket])
        return Candidate(node, judge(kind, tuple(counts), shape, self._kinds))

    # --- changes

    def place(self, job: JobView, number: int, rule: Rule, least: float = 0.0) -> tuple[Devices, float] | None:
        """Devices for a job, and their utility for it; None, and nothing changes, if there is no place."""
        kind = self.kind(job)
        devices: list[int] = []
        if number > self._largest.get(job.gpu_type, 0):
            devices = self._whole(job, kind, number)
        rest = number - len(devices)
        spot = rule(kind, rest, least) if rest else None
        if spot is None and rest:
            self.give(tuple(devices))
            return None
        if spot is not None:
            devices += self._enter(job, kind, spot.node, spot.mapped.counts)
        return tuple(sorted(devices)), 1.0 if spot is None else spot.mapped.job

    def take(self, job: JobView, number: int) -> Devices | None:
        """By the highest system utility."""
        placed = self.place(job, number, self.best)
        return None if placed is None else placed[0]

    def give(self, devices: Devices) -> None:
        """Free these devices."""
        for device in devices:
            node, owner = self.cluster.node_of[device], self._owner.pop(device, None)
            if owner is not None:
                self._residents[node].pop(owner, None)
            insort(self._free[self._socket_of[device]], device)
        self.free += len(devices)
        self._changed(devices)

    def claim(self, devices: Devices) -> None:
        """Take exactly these devices, for a resident that does not interfere with others."""
        for device in devices:
            self._free[self._socket_of[device]].remove(device)
        self.free -= len(devices)
        self._changed(devices)

    def group(self, job: JobView) -> Hashable:
        """Jobs of one kind."""
        return self.kind(job)

    def _whole(self, job: JobView, kind: int, number: int) -> list[int]:
        """Idle machines, the largest first, for the part of a job that fills whole machines."""
        idle = [
            node
            for total in range(len(self._open) - 1, 0, -1)
            for shape, nodes in self._open[total].items()
            if shape.free == shape.sizes and self._may(kind, shape)
            for node in nodes
        ]
        devices: list[int] = []
        for node in sorted(idle, key=lambda node: (-self.cluster.nodes[node].devices, node)):
            if self.cluster.nodes[node].devices <= number - len(devices):
                devices += self._enter(job, kind, node, self._shape[node].sizes)
        return devices

    def _enter(self, job: JobView, kind: int, node: int, counts: Sequence[int]) -> list[int]:
        devices: list[int] = []
        for socket, count in zip(self._sockets[node], counts, strict=True):
            free = self._free[socket]
            devices += free[:count]
            del free[:count]
        used = tuple(socket for socket, count in enumerate(counts) if count)
        self._residents[node][job.number] = Resident(kind, used)
        self._owner |= dict.fromkeys(devices, job.number)
        self.free -= len(devices)
        self._changed(devices)
        return devices

    def _look(self, node: int) -> Shape:
        sockets = self._sockets[node]
        return Shape(
            self.cluster.nodes[node].type,
            tuple(self._sizes[socket] for socket in sockets),
            tuple(len(self._free[socket]) for socket in sockets),
            tuple(sorted(self._residents[node].values())),
        )

    def _changed(self, devices: Sequence[int]) -> None:
        for node in sorted({self.cluster.node_of[device] for device in devices}):
            shape = self._shape[node]
            row = self._open[sum(shape.free)]
            del row[shape][bisect_left(row[shape], node)]
            if not row[shape]:
                del row[shape]
            self._shape[node] = shape = self._look(node)
            insort(self._open[sum(shape.free)].setdefault(shape, []), node)
