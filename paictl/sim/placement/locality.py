"""Philly's locality levels: servers, racks and RDMA domains, as close together as a job still insists on."""

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
    """`take` is strict; `at` takes a degree. A cluster without racks (domains) counts as a single one."""

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
        members: dict[int, list[int]] = {}
        for node, device in enumerate(self.cluster.first):
            members.setdefault(self.cluster.groups[level][device], []).append(node)
        return list(members.values())

    def take(self, job: JobView, number: int) -> Devices | None:
        """At the strict degree."""
        return self.at(job, number, STRICT)

    def at(self, job: JobView, number: int, degree: int) -> Devices | None:
        """At a degree of compromise; None, and nothing changes, if there is no place."""
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
        """Free devices at that degree, at most `number`, for a job to hold until it can have all of them."""
        if not self.free:
            return ()
        if degree == STRICT and number <= self._largest:
            parts = [(node, min(number, free)) for free, node in islice(self._by_free(job), 1)]
        else:
            groups = [self._parts(job, group, number) for group in self._nodes[degree]]
            parts = max(groups, key=lambda parts: sum(part for _, part in parts), default=[])
        return self._grab([(node, part) for node, part in parts if part])

    def _fitting(self, job: JobView, number: int) -> int | None:
        """Best fit: the server with the fewest spare devices, since jobs smaller than a server are packed."""
        best: tuple[int, int] | None = None
        for pool in self.book.pools_for(job.gpu_type):
            for free in range(number, pool.size + 1):
                if pool.by_free[free]:
                    candidate = (free - number, pool.by_free[free][0])
                    best = candidate if best is None else min(best, candidate)
                    break
        return None if best is None else best[1]

    def _by_occupancy(self, degree: int) -> Iterable[list[int]]:
        """Groups of servers, the emptiest first."""
        if len(self._nodes[degree]) == 1:
            return self._nodes[degree]
        free = [sum(len(self.book.free_on(node)) for node in group) for group in self._nodes[degree]]
        sizes = self._sizes[degree]
        order = sorted(range(len(free)), key=lambda number: (-Fraction(free[number], sizes[number]), number))
        return (self._nodes[degree][number] for number in order)

    def _parts(self, job: JobView, group: list[int], number: int) -> list[tuple[int, int]]:
        """(server, devices) from the emptiest server of a group on, up to `number` devices."""
        parts = []
        everywhere = len(group) == len(self.cluster.nodes)
        for free, node in self._by_free(job) if everywhere else self._by_free_in(job, group):
            if not number:
                break
            parts.append((node, min(free, number)))
            number -= parts[-1][1]
        return parts

    def _by_free(self, job: JobView) -> Iterator[tuple[int, int]]:
        """(free devices, server) of all servers that have any, most first, then by server."""
        pools = list(self.book.pools_for(job.gpu_type))
        for free in range(self._largest, 0, -1):
            rows = [pool.by_free[free] for pool in pools if free <= pool.size]
            for node in rows[0] if len(rows) == 1 else merge(*rows):
                yield free, node

    def _by_free_in(self, job: JobView, group: list[int]) -> list[tuple[int, int]]:
        """The same for the servers of a group."""
        free = [(len(self.book.free_on(node)), node) for node in group if self._allowed(job, node)]
        return sorted((row for row in free if row[0]), key=lambda row: (-row[0], row[1]))

    def _allowed(self, job: JobView, node: int) -> bool:
        return job.gpu_type is None or self.cluster.nodes[node].type == job.gpu_type

    def _grab(self, parts: list[tuple[int, int]]) -> Devices:
        devices = tuple(sorted(device for node, part in parts for device in self.book.take(node, part)))
        self.free -= len(devices)
        return devices

    def give(self, devices: Devices) -> None:
        """Free these devices."""
        self.free += len(devices)
        self.book.give(devices)

    def claim(self, devices: Devices) -> None:
        """Take exactly these devices."""
        self.free -= len(devices)
        self.book.claim(devices)
