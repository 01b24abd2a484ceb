"""Free devices by node, and nodes by how many they have free; devices of a wished type on few machines."""

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
        """Node numbers, rising, by how many of their devices are free."""


class NodeBook:
    """Which devices of which nodes are free; the cost of a change is in the logarithm of the nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.pools: list[NodePool] = []
        self._pool_of: list[NodePool] = []
        self._free: list[list[int]] = []
        known: dict[tuple[str, int], NodePool] = {}
        for number, node in enumerate(cluster.nodes):
            pool = known.get((node.type, node.devices))
            if pool is None:
                pool = known[node.type, node.devices] = NodePool(node.type, node.devices)
                self.pools.append(pool)
            pool.by_free[node.devices].append(number)
            pool.free += node.devices
            self._pool_of.append(pool)
            self._free.append(list(cluster.devices_of(number)))

    def free_on(self, node: int) -> list[int]:
        """The free devices of a node, rising."""
        return self._free[node]

    def pools_for(self, kind: str | None) -> Iterator[NodePool]:
        """Those of a type, or all, in the order of the cluster."""
        return (pool for pool in self.pools if kind is None or pool.kind == kind)

    def trials(self) -> list[PoolTrial]:
        """A trial for each pool."""
        free: dict[int, list[int]] = {id(pool): [] for pool in self.pools}
        for pool, devices in zip(self._pool_of, self._free, strict=True):
            free[id(pool)].append(len(devices))
        return [PoolTrial(pool.kind, pool.size, free[id(pool)]) for pool in self.pools]

    def take(self, node: int, number: int) -> list[int]:
        """The first free devices of a node."""
        free = self._free[node]
        taken = free[:number]
        self._change(node, len(free), len(free) - number)
        del free[:number]
        return taken

    def claim(self, devices: Devices) -> None:
        """These very devices."""
        for device in devices:
            node = self.cluster.node_of[device]
            free = self._free[node]
            self._change(node, len(free), len(free) - 1)
            free.remove(device)

    def give(self, devices: Devices) -> None:
        """They are free again."""
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
    """A book of free devices by type; whoever asks has counted, so there is always room."""

    def __init__(self, cluster: Cluster) -> None:
        self._book = NodeBook(cluster)

    def free(self, kind: str) -> int:
        """Free devices of a type."""
        return sum(pool.free for pool in self._book.pools_for(kind))

    def take(self, kind: str, number: int) -> Devices:
        """The tightest machine that has room for all, else whole machines, the emptiest first."""
        taken: list[int] = []
        while len(taken) < number:
            node, part = self._next(kind, number - len(taken))
            taken += self._book.take(node, part)
        return tuple(sorted(taken))

    def give(self, devices: Devices) -> None:
        """They are free again."""
        self._book.give(devices)

    def _next(self, kind: str, wanted: int) -> tuple[int, int]:
        """(node, how many of its devices)."""
        found = [
            (free < wanted, free if free >= wanted else -free, row[0], min(free, wanted))
            for pool in self._book.pools_for(kind)
            for free, row in enumerate(pool.by_free)
            if free and row
        ]
        _, _, node, part = min(found)
        return node, part
