"""Each pod on the node where it leaves the fewest devices free, as schedulers that only count devices do it."""

from __future__ import annotations

from collections.abc import Hashable

from paictl.sim.cluster import Cluster, Devices
from paictl.sim.placement.base import Placer
from paictl.sim.placement.nodes import NodeBook
from paictl.sim.view import JobView


class BestFit(Placer):
    """The fullest node that has room, the first of equals; all pods of a job, or none.

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
        """On nodes of one type (None: any), pod by pod; if a later pod finds no node, what was taken is given back."""
        found: list[int] = []
        for pod in self._pods(job, number, self._largest.get(kind, 1)):
            node = self._node(kind, pod)
            if node is None:
                self.book.give(tuple(sorted(found)))
                return None
            found += self.book.take(node, pod)
        self.free -= number
        return tuple(sorted(found))

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
                    found = (free, pool.by_free[free][0])
                    best = found if best is None else min(best, found)
                    break
        return None if best is None else best[1]

    def give(self, devices: Devices) -> None:
        """They are free again."""
        self.free += len(devices)
        self.book.give(devices)

    def claim(self, devices: Devices) -> None:
        """These very devices."""
        self.free -= len(devices)
        self.book.claim(devices)

    def group(self, job: JobView) -> Hashable:
        """Alike are jobs of one type, one shape and one tenant: a tenant may be at its quota where another is not."""
        return job.gpu_type, job.pod, job.vc
