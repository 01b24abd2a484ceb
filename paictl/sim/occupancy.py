"""The engine's record of devices: which jobs are on each, and how many are in use or fragments, now and over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.run import Interval
from paictl.units import Millis

FREE = -1


class Allocations:
    """Which jobs (by number) are on which devices.

    `used` counts devices with at least one job; `stray` the free ones on nodes that are partly used, kept only when
    `located` (without placement there are no fragments).
    """

    __slots__ = ("_guests", "_node_of", "_node_size", "_node_used", "first", "located", "stray", "used")

    def __init__(self, cluster: Cluster, *, located: bool) -> None:
        self.first = [FREE] * cluster.size
        """The first job on each device, `FREE` if there is none."""
        self._guests: dict[int, list[int]] = {}
        self._node_of = cluster.node_of
        self._node_size = [node.devices for node in cluster.nodes]
        self._node_used = [0] * len(cluster.nodes)
        self.located = located
        self.used = 0
        self.stray = 0

    def on(self, device: int) -> tuple[int, ...]:
        """Every job on a device, in order of arrival there."""
        first = self.first[device]
        return () if first == FREE else (first, *self._guests.get(device, ()))

    def company(self, job: int, devices: Devices) -> list[int]:
        """The jobs with which a job shares devices, without itself, by number."""
        if not self._guests:
            return []
        return sorted({other for device in devices if device in self._guests for other in self.on(device)} - {job})

    def put(self, job: int, devices: Devices) -> None:
        """A job comes."""
        first = self.first
        for device in devices:
            if first[device] == FREE:
                first[device] = job
                self.used += 1
                if self.located:
                    self._count(device, 1)
            else:
                self._guests.setdefault(device, []).append(job)

    def leave(self, job: int, devices: Devices) -> None:
        """A job leaves; the next one becomes the first."""
        first, guests = self.first, self._guests
        for device in devices:
            others = guests.get(device) if guests else None
            if others is None:
                first[device] = FREE
                self.used -= 1
                if self.located:
                    self._count(device, -1)
                continue
            if first[device] == job:
                first[device] = others.pop(0)
            else:
                others.remove(job)
            if not others:
                del guests[device]

    def _count(self, device: int, change: int) -> None:
        node = self._node_of[device]
        before = self._node_used[node]
        after = before + change
        self._node_used[node] = after
        size = self._node_size[node]
        self.stray += (size - after if after else 0) - (size - before if before else 0)

    def problems(self, holdings: Iterable[tuple[int, Devices]]) -> list[str]:
        """What is wrong, given what each job holds: for tests and `--paranoid` runs; walks the whole cluster."""
        problems: list[str] = []
        count = [0] * len(self.first)
        for job, devices in holdings:
            for device in devices:
                count[device] += 1
                if job not in self.on(device):
                    problems.append(f"device {device} does not know job {job}")
        for device, number in enumerate(count):
            if number != len(self.on(device)):
                problems.append(f"device {device} has {len(self.on(device))} jobs, {number} hold it")
        if self.used != sum(number > 0 for number in count):
            problems.append(f"{self.used} devices counted, {sum(number > 0 for number in count)} in use")
        return problems


class NeighbourAllocations(Allocations):
    """The same if jobs affect each other without sharing a device: jobs with devices in one group are company.

    The groups are those of `Rates.vicinity`. A separate class, so that models without it pay nothing for it.
    """

    __slots__ = ("_group_of", "_here")

    def __init__(self, cluster: Cluster, *, located: bool, groups: Sequence[int]) -> None:
        super().__init__(cluster, located=located)
        self._group_of = groups
        self._here: dict[int, dict[int, int]] = {}
        """By group: the jobs with devices in it, and how many of each; groups without any are left out."""

    def company(self, job: int, devices: Devices) -> list[int]:
        """The jobs with devices in the groups of these, without itself, by number."""
        groups = {self._group_of[device] for device in devices}
        return sorted({other for group in groups for other in self._here.get(group, ())} - {job})

    def put(self, job: int, devices: Devices) -> None:
        """A job comes."""
        super().put(job, devices)
        for device in devices:
            counts = self._here.setdefault(self._group_of[device], {})
            counts[job] = counts.get(job, 0) + 1

    def leave(self, job: int, devices: Devices) -> None:
        """A job goes."""
        super().leave(job, devices)
        for device in devices:
            group = self._group_of[device]
            counts = self._here[group]
            counts[job] -= 1
            if not counts[job]:
                del counts[job]
                if not counts:
                    del self._here[group]


def occupancy(cluster: Cluster, *, located: bool, groups: Sequence[int] | None) -> Allocations:
    """The allocations for a model whose jobs are company within these groups; None: only on the same devices."""
    if groups is None:
        return Allocations(cluster, located=located)
    return NeighbourAllocations(cluster, located=located, groups=groups)


MOST = 1024
"""Intervals that are kept at most; their width doubles when there would be more."""

FIELDS = 5
"""used, running, waiting, queued, stray."""


class AreaTimeline:
    """Areas by interval of time, from the first `add` on."""

    def __init__(self, start: Millis) -> None:
        self._start = start
        self._width = 1000
        self._rows: list[list[int]] = []
        self._end: int = start

    def add(self, until: Millis, values: tuple[int, ...]) -> None:
        """The values held from the last instant until this one."""
        start, end = self._end, until
        if end <= start:
            return
        self._end = end
        while (end - self._start - 1) // self._width >= MOST:
            self._merge()
        index = (start - self._start) // self._width
        while start < end:
            stop = min(end, self._start + (index + 1) * self._width)
            while len(self._rows) <= index:
                self._rows.append([0] * FIELDS)
            row, span = self._rows[index], stop - start
            for field, value in enumerate(values):
                row[field] += value * span
            start = stop
            index += 1

    def _merge(self) -> None:
        self._width *= 2
        rows = self._rows
        if len(rows) % 2:
            rows.append([0] * FIELDS)
        self._rows = [[a + b for a, b in zip(rows[i], rows[i + 1], strict=True)] for i in range(0, len(rows), 2)]

    def intervals(self) -> tuple[Interval, ...]:
        """All intervals, without gaps."""
        return tuple(
            Interval(
                Millis(self._start + number * self._width),
                Millis(min(self._end, self._start + (number + 1) * self._width)),
                *row,
            )
            for number, row in enumerate(self._rows)
        )
