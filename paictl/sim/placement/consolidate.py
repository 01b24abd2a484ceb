"""On the fewest machines, always (Tiresias' baseline "YARN"), or only for jobs that lose by being spread (§3.3)."""

from __future__ import annotations

from collections.abc import Hashable

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.nodes import NodeBook, NodePool
from paictl.sim.placement.trial import NodeTrial
from paictl.sim.view import JobView


class Consolidate(Placer):
    """Whole machines and one part of a machine; a job waits until they are free.

    The first machine that has room is taken, as Tiresias' simulator does it (its `try_single_node_alloc`): best fit
    would leave fewer fragments, and other figures than those that are published. Machines of one type and size at a
    time, in the order of the cluster.
    """

    id = "consolidate"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.book = NodeBook(cluster)

    def take(self, job: JobView, number: int) -> Devices | None:
        """All on one machine, or as few as there can be."""
        if number > self.free:
            return None
        for pool in self.book.pools_for(job.gpu_type):
            if pool.free >= number and (nodes := self._nodes(pool, number)) is not None:
                taken = [device for node, part in nodes for device in self.book.take(node, part)]
                self.free -= number
                return tuple(sorted(taken))
        return None

    def _nodes(self, pool: NodePool, number: int) -> list[tuple[int, int]] | None:
        whole, rest = divmod(number, pool.size)
        idle = pool.by_free[pool.size]
        if len(idle) < whole:
            return None
        found = [(node, pool.size) for node in idle[:whole]]
        if rest:
            last = min((row[0] for row in pool.by_free[rest : pool.size] if row), default=None)
            if len(idle) > whole and (last is None or idle[whole] < last):
                last = idle[whole]
            if last is None:
                return None
            found.append((last, rest))
        return found

    def trial(self) -> NodeTrial:
        """What `take` would find for one job after the other; the book stays as it is."""
        return NodeTrial(self.book.trials())

    def give(self, devices: Devices) -> None:
        """They are free again."""
        self.free += len(devices)
        self.book.give(devices)

    def claim(self, devices: Devices) -> None:
        """These very devices."""
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
        """Those who must be together and those who need not wait apart from each other."""
        return job.gpu_type, job.skew > self.limit

    def take(self, job: JobView, number: int) -> Devices | None:
        """Together, or wherever there is something left."""
        if job.skew > self.limit:
            return super().take(job, number)
        for pool in self.book.pools_for(job.gpu_type):
            if pool.free >= number:
                return self._fragments(pool, number)
        return None

    def _fragments(self, pool: NodePool, number: int) -> Devices:
        """From the machines with the fewest free devices, so that whole ones stay whole."""
        taken: list[int] = []
        self.free -= number
        while len(taken) < number:
            node = next(row[0] for row in pool.by_free[1:] if row)
            taken += self.book.take(node, min(number - len(taken), len(self.book.free_on(node))))
        return tuple(sorted(taken))
