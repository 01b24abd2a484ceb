"""As close together as a job still insists on: Philly's way through servers, racks and RDMA domains."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from heapq import merge
from itertools import islice

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.view import JobView

STRICT, DOMAIN, ANYWHERE = range(3)
"""One server, or the fewest servers of one rack; any servers of one RDMA domain; any servers."""


class Locality(Placer):
    """`take` is strict; `at` takes a degree. Where a cluster has no racks (domains) it is one."""

    id = "locality"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.book = NodeBook(cluster)
        self._nodes = [self._groups("rack"), self._groups("domain"), [list(range(len(cluster.nodes)))]]
        self._sizes = [[sum(cluster.nodes[node].devices for node in group) for group in row] for row in self._nodes]
        self._largest = max(node.devices for node in cluster.nodes)

    def _groups(self, level: str) -> list[list[int]]:
        if level not in self.cluster.groups:
            return [list(range(len(self.cluster.nodes)))]
        found: dict[int, list[int]] = {}
        for node, device in enumerate(self.cluster.first):
            found.setdefault(self.cluster.groups[level][device], []).append(node)
        return list(found.values())

    def take(self, job: JobView, number: int) -> Devices | None:
        """Without any compromise."""
        return self.at(job, number, STRICT)

    def at(self, job: JobView, number: int, degree: int) -> Devices | None:
        """With a degree of compromise; None, and nothing changes, if there is no place."""
        if number > self.free:
            return None
        if number <= self._largest and (node := self._fitting(job, number)) is not None:
            return self._grab([(node, number)])
        if degree == STRICT and number <= self._largest:
            return None
        for group in self._by_occupancy(degree):
            parts = self._parts(job, group, number)
            if sum(part for _, part in parts) < number:
                continue
            if degree > STRICT or len(parts) == -(-number // self._largest):
                return self._grab(parts)
        return None

    def some(self, job: JobView, number: int, degree: int) -> Devices:
        """What there is of it at that degree, to be held; at most `number` - 1 devices are of use before all are."""
        if not self.free:
            return ()
        if degree == STRICT and number <= self._largest:
            parts = [(node, min(number, free)) for free, node in islice(self._by_free(job), 1)]
        else:
            groups = [self._parts(job, group, number) for group in self._nodes[degree]]
            parts = max(groups, key=lambda parts: sum(part for _, part in parts), default=[])
        return self._grab([(node, part) for node, part in parts if part])

    def _fitting(self, job: JobView, number: int) -> int | None:
        """The server that has least to spare: jobs below a server are packed."""
        found: tuple[int, int] | None = None
        for pool in self.book.pools_for(job.gpu_type):
            for free in range(number, pool.size + 1):
                if pool.by_free[free]:
                    best = (free - number, pool.by_free[free][0])
                    found = best if found is None else min(found, best)
                    break
        return None if found is None else found[1]

    def _by_occupancy(self, degree: int) -> Iterable[list[int]]:
        """Groups of servers, the emptiest first."""
        if len(self._nodes[degree]) == 1:
            return self._nodes[degree]
        free = [sum(len(self.book.free_on(node)) for node in group) for group in self._nodes[degree]]
        sizes = self._sizes[degree]
        order = sorted(range(len(free)), key=lambda number: (-Fraction(free[number], sizes[number]), number))
        return (self._nodes[degree][number] for number in order)

    def _parts(self, job: JobView, group: list[int], number: int) -> list[tuple[int, int]]:
        """From the servers of a group with most free devices on, as many as needed or there are."""
        parts = []
        everywhere = len(group) == len(self.cluster.nodes)
        for free, node in self._by_free(job) if everywhere else self._by_free_in(job, group):
            if not number:
                break
            parts.append((node, min(free, number)))
            number -= parts[-1][1]
        return parts

    def _by_free(self, job: JobView) -> Iterator[tuple[int, int]]:
        """(free devices, server) of all servers that have any, most first; the first server of several."""
        pools = list(self.book.pools_for(job.gpu_type))
        for free in range(self._largest, 0, -1):
            rows = [pool.by_free[free] for pool in pools if free <= pool.size]
            for node in rows[0] if len(rows) == 1 else merge(*rows):
                yield free, node

    def _by_free_in(self, job: JobView, group: list[int]) -> list[tuple[int, int]]:
        """The same of the servers of a group."""
        free = [(len(self.book.free_on(node)), node) for node in group if self._allowed(job, node)]
        return sorted((row for row in free if row[0]), key=lambda row: (-row[0], row[1]))

    def _allowed(self, job: JobView, node: int) -> bool:
        return job.gpu_type is None or self.cluster.nodes[node].type == job.gpu_type

    def _grab(self, parts: list[tuple[int, int]]) -> Devices:
        devices = tuple(sorted(device for node, part in parts for device in self.book.take(node, part)))
        self.free -= len(devices)
        return devices

    def give(self, devices: Devices) -> None:
        """They are free again."""
        self.free += len(devices)
        self.book.give(devices)

    def claim(self, devices: Devices) -> None:
        """These very devices."""
        self.free -= len(devices)
        self.book.claim(devices)
