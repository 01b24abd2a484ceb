"""Homes: servers that are reserved for jobs of one size, and may be oversubscribed (Gandiva §3.1).

A job no larger than a server lives on one; a larger job on as many idle servers as it needs, which form one home.
A home only records who lives there; the policy decides which of them run at the moment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from enum import IntEnum

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.view import JobView


class Case(IntEnum):
    """Which line of the paper's Algorithm 1 placed a job."""

    AFFINE = 1
    """A home of its size has room."""
    IDLE = 2
    """An idle server becomes its home."""
    RELAXED = 3
    """A home of another size has room."""
    OVERSUBSCRIBED = 4
    """A home of its size, which it time-shares with others."""
    QUEUED = 5
    """There is no home for it."""


class Home:
    """Servers with jobs of (mainly) one size."""

    __slots__ = ("affinity", "demand", "devices", "free", "nodes", "residents")

    def __init__(self, nodes: tuple[int, ...], devices: list[int], affinity: int) -> None:
        self.nodes = nodes
        self.devices = devices
        self.affinity = affinity
        self.free = list(devices)
        """Devices on which no job runs now, rising."""
        self.residents: deque[JobView] = deque()
        """Jobs that live here, next in turn first."""
        self.demand = 0
        """Devices that the residents ask for together."""

    @property
    def crowded(self) -> bool:
        """Whether the residents must take turns."""
        return self.demand > len(self.devices)

    @property
    def load(self) -> float:
        """demand / devices: the paper's height, not rounded up."""
        return self.demand / len(self.devices)

    @property
    def height(self) -> int:
        """ceil(demand / devices)."""
        return -(-self.demand // len(self.devices))

    @property
    def spare(self) -> int:
        """Devices above the demand; negative if oversubscribed."""
        return len(self.devices) - self.demand

    def put(self, number: int) -> Devices:
        """Take the first `number` free devices."""
        devices = tuple(self.free[:number])
        del self.free[:number]
        return devices

    def back(self, devices: Iterable[int]) -> None:
        """Free these devices."""
        self.free = sorted([*self.free, *devices])


class Homes:
    """All homes of a cluster, and the idle servers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.all: list[Home] = []
        self.of: dict[int, Home] = {}
        """By the number of a job, its home."""
        self._idle = set(range(len(cluster.nodes)))

    def __iter__(self) -> Iterator[Home]:
        return iter(self.all)

    def find(self, job: JobView) -> tuple[Case, Home | None]:
        """Where an arriving job goes (Algorithm 1, reactive mode); an idle server is turned into a home."""
        gpus = job.gpus
        fitting = [home for home in self.all if self._type(home, job)]
        same = min(
            (home for home in fitting if home.affinity == gpus and len(home.devices) >= gpus),
            key=lambda home: (home.load, home.nodes),
            default=None,
        )
        if same is not None and same.spare >= gpus:
            return Case.AFFINE, same
        if (nodes := self._servers(gpus, job.gpu_type)) is not None:
            return Case.IDLE, self._establish(nodes, gpus)
        other = min(
            (home for home in fitting if home.spare >= gpus), key=lambda home: (home.spare, home.nodes), default=None
        )
        if other is not None:
            return Case.RELAXED, other
        return (Case.OVERSUBSCRIBED, same) if same is not None else (Case.QUEUED, None)

    def room_on(self, kind: str, gpus: int) -> Home | None:
        """A home of that type with `gpus` free devices and no turns; idle servers are turned into one."""
        nodes = self.cluster.nodes
        fitting = [
            home
            for home in self.all
            if home.spare >= gpus and len(home.free) >= gpus and nodes[home.nodes[0]].type == kind
        ]
        if fitting:
            return min(fitting, key=lambda home: (home.affinity != gpus, home.spare, home.nodes))
        servers = self._servers(gpus, kind)
        return None if servers is None else self._establish(servers, gpus)

    def settle(self, job: JobView, home: Home) -> None:
        """Add a job to a home; its turn comes last."""
        home.residents.append(job)
        home.demand += job.gpus
        self.of[job.number] = home

    def leave(self, job: JobView) -> Home:
        """Remove a job from its home, which is returned; an empty home is dissolved into idle servers."""
        home = self.of.pop(job.number)
        home.residents.remove(job)
        home.demand -= job.gpus
        if not home.residents:
            self.all.remove(home)
            self._idle |= set(home.nodes)
        return home

    def _type(self, home: Home, job: JobView) -> bool:
        return job.gpu_type is None or self.cluster.nodes[home.nodes[0]].type == job.gpu_type

    def _servers(self, gpus: int, kind: str | None) -> tuple[int, ...] | None:
        """Idle servers: the first of the smallest that suffice, or several of one type."""
        rows: dict[str, list[tuple[int, int]]] = {}
        for node in sorted(self._idle):
            server = self.cluster.nodes[node]
            if kind in (None, server.type):
                rows.setdefault(server.type, []).append((server.devices, node))
        for row in rows.values():
            enough = [(size, node) for size, node in row if size >= gpus]
            if enough:
                return (min(enough)[1],)
        largest = max(node.devices for node in self.cluster.nodes)
        for row in rows.values():
            if gpus > largest and sum(size for size, _ in row) >= gpus:
                chosen, missing = [], gpus
                for size, node in sorted(row, key=lambda entry: (-entry[0], entry[1])):
                    if missing > 0:
                        chosen.append(node)
                        missing -= size
                return tuple(sorted(chosen))
        return None

    def _establish(self, nodes: tuple[int, ...], affinity: int) -> Home:
        devices = [device for node in nodes for device in self.cluster.devices_of(node)]
        home = Home(nodes, devices, affinity)
        self.all.append(home)
        self._idle -= set(nodes)
        return home
