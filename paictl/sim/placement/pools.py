"""Devices of a wished type on as few machines as there is room for: for policies that choose the type themselves."""

from __future__ import annotations

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.nodes import NodeBook


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
