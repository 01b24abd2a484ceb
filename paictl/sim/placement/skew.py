"""Consolidate only those who lose by being spread: models with one dominating tensor (Tiresias §3.3)."""

from __future__ import annotations

from collections.abc import Hashable

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.consolidate import Consolidate
from paictl.sim.placement.nodes import NodePool
from paictl.sim.view import JobView


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
