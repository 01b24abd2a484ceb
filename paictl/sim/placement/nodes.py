"""Free devices by node, and nodes by their number of free devices; devices of a type on few machines."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.trial import PoolTrial


class NodePool:
    """Nodes of one type and size."""

    __slots__ = ("by_free", "free", "kind", "size")

    def __init__(self, kind: str, size: int) -> None:
        self.kind = kind
        self.size = size
        self.free = 0
        self.by_free: list[list[int]] = [[] for _ in range(size + 1)]
        """By number of free devices: the node numbers, rising."""


class NodeBook:
    """Which devices of which nodes are free; nodes are found by bisection."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pools: list[NodePool] = []
        self._pool_of: list[NodePool] = []
        self._free: list[list[int]] = []
        pools: dict[tuple[str, int], NodePool] = {}
        for number, node in enumerate(cluster.nodes):
            pool = pools.get((node.type, node.devices))
            if pool is None:
                pool = pools[node.type, node.devices] = NodePool(node.type, node.devices)
                self.pools.append(pool)
            pool.by_free[node.devices].append(number)
            pool.free += node.devices
            self._pool_of.append(pool)
            self._free.append(list(cluster.devices_of(number)))

    def free_on(self, node: int) -> list[int]:
        """The free devices of a node, rising."""
        return self._free[node]

    def pools_for(self, kind: str | None) -> Iterator[NodePool]:
        """The pools of a type (None: all), in the order of the cluster."""
        return (pool for pool in self.pools if kind is None or pool.kind == kind)

    def trials(self) -> list[PoolTrial]:
        """A trial for each pool."""
        free: dict[int, list[int]] = {id(pool): [] for pool in self.pools}
        for pool, devices in zip(self._pool_of, self._free, strict=True):
            free[id(pool)].append(len(devices))
        return [PoolTrial(pool.kind, pool.size, free[id(pool)]) for pool in self.pools]

    def take(self, node: int, number: int) -> list[int]:
        """Take the first free devices of a node."""
        free = self._free[node]
        devices = free[:number]
        self._change(node, len(free), len(free) - number)
        del free[:number]
        return devices

    def claim(self, devices: Devices) -> None:
        """Take exactly these devices."""
        for device in devices:
            node = self.cluster.node_of[device]
            free = self._free[node]
            self._change(node, len(free), len(free) - 1)
            free.remove(device)

    def give(self, devices: Devices) -> None:
        """Free these devices."""
        node_of = self.cluster.node_of
        start = 0
        while start < len(devices):
            node = node_of[devices[start]]
            stop = start + 1
            while stop < len(devices) and node_of[devices[stop]] == node:
                stop += 1
            free = self._free[node]
            self._change(node, len(free), len(free) + stop - start)
            for device in devices[start:stop]:
                insort(free, device)
            start = stop

    def _change(self, node: int, before: int, after: int) -> None:
        pool = self._pool_of[node]
        row = pool.by_free[before]
        del row[bisect_left(row, node)]
        insort(pool.by_free[after], node)
        pool.free += after - before


class TypedPools:
    """Free devices by type; callers take no more than are free."""

    def __init__(self, cluster: Cluster) -> None:
        self._book = NodeBook(cluster)

    def free(self, kind: str) -> int:
        """Free devices of a type."""
        return sum(pool.free for pool in self._book.pools_for(kind))

    def take(self, kind: str, number: int) -> Devices:
        """Best fit: the fullest machine with room for all, else several, the emptiest first."""
        devices: list[int] = []
        while len(devices) < number:
            node, part = self._next(kind, number - len(devices))
            devices += self._book.take(node, part)
        return tuple(sorted(devices))

    def give(self, devices: Devices) -> None:
        """Free these devices."""
        self._book.give(devices)

    def _next(self, kind: str, number: int) -> tuple[int, int]:
        """(node, number of its devices to take)."""
        candidates = [
            (free < number, free if free >= number else -free, row[0], min(free, number))
            for pool in self._book.pools_for(kind)
            for free, row in enumerate(pool.by_free)
            if free and row
        ]
        _, _, node, part = min(candidates)
        return node, part
