"""Placements that count devices: anywhere, or each pod on the node where it leaves the fewest free."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.placement.trial import CountTrial
from paictl.sim.view import JobView


class Count(Placer):
    """Any free devices; of one type if one has enough, those of the first type of the cluster first."""

    id = "count"
    located = False

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._free: dict[str, list[int]] = {kind: [] for kind in cluster.types}
        for device in reversed(range(cluster.size)):
            self._free[cluster.type_of[device]].append(device)
        self._only_stack = next(iter(self._free.values())) if len(self._free) == 1 else None

    def take(self, job: JobView, number: int) -> Devices | None:
        """From the top of a stack: it does not matter which devices."""
        if number > self.free:
            return None
        stack = self._only_stack
        if stack is None or job.gpu_type is not None:
            kinds = [job.gpu_type] if job.gpu_type is not None else list(self._free)
            fitting = next((free for kind in kinds if len(free := self._free.get(kind, [])) >= number), None)
            if fitting is None:
                return self._mixed(number) if job.gpu_type is None else None
            stack = fitting
        self.free -= number
        if number == 1:
            return (stack.pop(),)
        devices = tuple(sorted(stack[-number:]))
        del stack[-number:]
        return devices

    def trial(self) -> CountTrial:
        """A trial of `take` for one job after another; the book does not change."""
        return CountTrial({kind: len(free) for kind, free in self._free.items()})

    def _mixed(self, number: int) -> Devices:
        devices: list[int] = []
        for stack in self._free.values():
            while stack and len(devices) < number:
                devices.append(stack.pop())
        self.free -= number
        return tuple(sorted(devices))

    def take_parts(self, parts: Mapping[str, int]) -> Devices:
        """Take this many devices of each type; the caller has checked that they are free."""
        devices: list[int] = []
        for kind, number in parts.items():
            stack = self._free[kind]
            devices += stack[-number:]
            del stack[-number:]
        self.free -= len(devices)
        return tuple(sorted(devices))

    def give(self, devices: Devices) -> None:
        """Put the devices back on their stacks."""
        self.free += len(devices)
        if self._only_stack is not None:
            self._only_stack.extend(devices)
            return
        for device in devices:
            self._free[self.cluster.type_of[device]].append(device)

    def claim(self, devices: Devices) -> None:
        """Remove the devices from the middle of the stacks: linear, but rare."""
        self.free -= len(devices)
        for device in devices:
            self._free[self.cluster.type_of[device]].remove(device)


class BestFit(Placer):
    """The fullest node that has room, of equals the first; all pods of a job, or none.

    Without pods a job is whole nodes (of the largest of its type) and, for the rest, a part of one.
    """

    id = "best-fit"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.book = NodeBook(cluster)
        kinds: list[str | None] = [None, *cluster.types]
        self._largest = {
            kind: max((node.devices for node in cluster.nodes if kind in (None, node.type)), default=1)
            for kind in kinds
        }
        """By device type (None: any): devices of the largest node."""

    def take(self, job: JobView, number: int) -> Devices | None:
        """On nodes of the job's type."""
        return self.take_of(job.gpu_type, job, number)

    def take_of(self, kind: str | None, job: JobView, number: int) -> Devices | None:
        """On nodes of one type (None: any), pod by pod; if a pod does not fit, those before it are undone."""
        devices: list[int] = []
        for pod in self._pods(job, number, self._largest.get(kind, 1)):
            node = self._node(kind, pod)
            if node is None:
                self.book.give(tuple(sorted(devices)))
                return None
            devices += self.book.take(node, pod)
        self.free -= number
        return tuple(sorted(devices))

    def _pods(self, job: JobView, number: int, largest: int) -> list[int]:
        if job.pod and number == job.gpus:
            return [job.pod] * (number // job.pod)
        whole, rest = divmod(number, largest)
        return [largest] * whole + ([rest] if rest else [])

    def _node(self, kind: str | None, pod: int) -> int | None:
        best = None
        for pool in self.book.pools_for(kind):
            for free in range(pod, pool.size + 1):
                if pool.by_free[free]:
                    candidate = (free, pool.by_free[free][0])
                    best = candidate if best is None else min(best, candidate)
                    break
        return None if best is None else best[1]

    def give(self, devices: Devices) -> None:
        """Free these devices."""
        self.free += len(devices)
        self.book.give(devices)

    def claim(self, devices: Devices) -> None:
        """Take exactly these devices."""
        self.free -= len(devices)
        self.book.claim(devices)

    def group(self, job: JobView) -> Hashable:
        """Type, pod size and tenant: a tenant may be at its quota when another is not."""
        return job.gpu_type, job.pod, job.vc
