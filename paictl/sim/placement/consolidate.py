"""On the fewest machines: always (Tiresias' baseline "YARN"), or only jobs that slow down when spread (its §3.3)."""

from __future__ import annotations

from collections.abc import Hashable

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.nodes import NodeBook, NodePool
from paictl.sim.placement.trial import NodeTrial
from paictl.sim.view import JobView


class Consolidate(Placer):
    """Whole machines and one part of a machine; a job waits until they are free.

    First fit, as in Tiresias' simulator (`try_single_node_alloc`): best fit would leave fewer fragments, but would not
    reproduce the published figures. Machines of one type and size at a time, in the order of the cluster.
    """

    id = "consolidate"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.book = NodeBook(cluster)

    def take(self, job: JobView, number: int) -> Devices | None:
        """All on one machine, or on as few as possible."""
        if number > self.free:
            return None
        for pool in self.book.pools_for(job.gpu_type):
            if pool.free >= number and (nodes := self._nodes(pool, number)) is not None:
                devices = [device for node, part in nodes for device in self.book.take(node, part)]
                self.free -= number
                return tuple(sorted(devices))
        return None

    def _nodes(self, pool: NodePool, number: int) -> list[tuple[int, int]] | None:
        whole, rest = divmod(number, pool.size)
        idle = pool.by_free[pool.size]
        if len(idle) < whole:
            return None
        parts = [(node, pool.size) for node in idle[:whole]]
        if rest:
            last = min((row[0] for row in pool.by_free[rest : pool.size] if row), default=None)
            if len(idle) > whole and (last is None or idle[whole] < last):
                last = idle[whole]
            if last is None:
                return None
            parts.append((last, rest))
        return parts

    def trial(self) -> NodeTrial:
        """A trial of `take` for one job after another; the book does not change."""
        return NodeTrial(self.book.trials())

    def give(self, devices: Devices) -> None:
        """Free these devices."""
        self.free += len(devices)
        self.book.give(devices)

    def claim(self, devices: Devices) -> None:
        """Take exactly these devices."""
        self.free -= len(devices)
        self.book.claim(devices)


class Skew(Consolidate):
    """Skew above `limit`: on the fewest machines, and such gangs wait for them; all others fill fragments.

    The policy must know SKEW.
    """

    id = "skew"

    def __init__(self, cluster: Cluster, limit: float) -> None:
        super().__init__(cluster)
        self.limit = limit

    def group(self, job: JobView) -> Hashable:
        """Jobs that must be together and jobs that need not be are different groups."""
        return job.gpu_type, job.skew > self.limit

    def take(self, job: JobView, number: int) -> Devices | None:
        """Together, or on any fragments."""
        if job.skew > self.limit:
            return super().take(job, number)
        for pool in self.book.pools_for(job.gpu_type):
            if pool.free >= number:
                return self._fragments(pool, number)
        return None

    def _fragments(self, pool: NodePool, number: int) -> Devices:
        """From the machines with the fewest free devices, so that idle machines stay idle."""
        devices: list[int] = []
        self.free -= number
        while len(devices) < number:
            node = next(row[0] for row in pool.by_free[1:] if row)
            devices += self.book.take(node, min(number - len(devices), len(self.book.free_on(node))))
        return tuple(sorted(devices))
