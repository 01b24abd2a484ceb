"""Homes: servers that are kept for jobs of one size, and may promise more devices than they have (Gandiva §3.1).

A job up to a server lives on one; a larger one on as many idle servers as it needs, which are one home from then on.
Who lives in a home is there; which of them run at the moment is the policy's business.
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
    """A home of its size, in turns with others."""
    QUEUED = 5
    """There is none."""


class Home:
    """Servers with jobs of (mainly) one size."""

    __slots__ = ("affinity", "demand", "devices", "free", "nodes", "residents")

    def __init__(self, nodes: tuple[int, ...], devices: list[int], affinity: int) -> None:
        self.nodes = nodes
        self.devices = devices
        self.affinity = affinity
        self.free = list(devices)
        """Devices on which nobody runs now, rising."""
        self.residents: deque[JobView] = deque()
        """Whoever lives here, next in turn first."""
        self.demand = 0
        """Devices that they ask for together."""

    @property
    def crowded(self) -> bool:
        """Whether they must take turns."""
        return self.demand > len(self.devices)

    @property
    def load(self) -> float:
        """Demand by devices: the paper's height, not rounded up."""
        return self.demand / len(self.devices)

    @property
    def height(self) -> int:
        """ceil(demand / devices)."""
        return -(-self.demand // len(self.devices))

    @property
    def spare(self) -> int:
        """Devices that nobody here asked for."""
        return len(self.devices) - self.demand

    def put(self, number: int) -> Devices:
        """Take free devices, the first ones."""
        taken = tuple(self.free[:number])
        del self.free[:number]
        return taken

    def back(self, devices: Iterable[int]) -> None:
        """They are free again."""
        self.free = sorted([*self.free, *devices])


class Homes:
    """All homes of a cluster, and the servers that are none."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.all: list[Home] = []
        self.of: dict[int, Home] = {}
        """By job."""
        self._idle = set(range(len(cluster.nodes)))

    def __iter__(self) -> Iterator[Home]:
        return iter(self.all)

    def find(self, job: JobView) -> tuple[Case, Home | None]:
        """Where an arriving job goes (Algorithm 1, reactive mode); an idle server is turned into a home."""
        gpus = job.gpus
        fitting = [home for home in self.all if self._type(home, job)]
        same = min(
            (home for home in fitting if home.affinity == gpus and len(home.devices) >= gpus),
            key=lambda home: (home.load, home.nodes), default=None,
        )  # fmt: skip
        if same is not None and same.spare >= gpus:
            return Case.AFFINE, same
        if (nodes := self._servers(gpus, job.gpu_type)) is not None:
            return Case.IDLE, self._found(nodes, gpus)
        other = min(
            (home for home in fitting if home.spare >= gpus), key=lambda home: (home.spare, home.nodes), default=None
        )
        if other is not None:
            return Case.RELAXED, other
        return (Case.OVERSUBSCRIBED, same) if same is not None else (Case.QUEUED, None)

    def room_on(self, kind: str, gpus: int) -> Home | None:
        """A home on that type where so many devices are free and nobody takes turns; idle servers are made one."""
        nodes = self.cluster.nodes
        fitting = [
            home for home in self.all
            if home.spare >= gpus and len(home.free) >= gpus and nodes[home.nodes[0]].type == kind
        ]  # fmt: skip
        if fitting:
            return min(fitting, key=lambda home: (home.affinity != gpus, home.spare, home.nodes))
        servers = self._servers(gpus, kind)
        return None if servers is None else self._found(servers, gpus)

    def settle(self, job: JobView, home: Home) -> None:
        """A job lives there from now on, and has the last turn."""
        home.residents.append(job)
        home.demand += job.gpus
        self.of[job.number] = home

    def leave(self, job: JobView) -> Home:
        """It does not any more; an empty home is idle servers again."""
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
        """Idle servers: the first of the smallest that are enough, or several of one type."""
        rows: dict[str, list[tuple[int, int]]] = {}
        for node in sorted(self._idle):
            one = self.cluster.nodes[node]
            if kind in (None, one.type):
                rows.setdefault(one.type, []).append((one.devices, node))
        for row in rows.values():
            enough = [(size, node) for size, node in row if size >= gpus]
            if enough:
                return (min(enough)[1],)
        largest = max(node.devices for node in self.cluster.nodes)
        for row in rows.values():
            if gpus > largest and sum(size for size, _ in row) >= gpus:
                taken, left = [], gpus
                for size, node in sorted(row, key=lambda one: (-one[0], one[1])):
                    if left > 0:
                        taken.append(node)
                        left -= size
                return tuple(sorted(taken))
        return None

    def _found(self, nodes: tuple[int, ...], affinity: int) -> Home:
        devices = [device for node in nodes for device in self.cluster.devices_of(node)]
        home = Home(nodes, devices, affinity)
        self.all.append(home)
        self._idle -= set(nodes)
        return home
